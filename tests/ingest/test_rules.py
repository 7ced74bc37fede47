"""What should happen, decided without a database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman.ingest.model import Budget, Usage
from ferryman.ingest.rules import budget, ending, expression, request, signals, slicing, windows
from ferryman.ingest.rules.ending import Barred, Broken, Done, End, Postponed, Spent, Unwieldy
from ferryman.ingest.rules.expression import DoesNotCompile
from ferryman.ingest.rules.replay import replay
from ferryman.ingest.rules.signals import Signs
from ferryman.ingest.rules.windows import Wanted
from ferryman.ingest.window import Window
from ferryman.kernel import errors

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LAG = timedelta(minutes=10)
EDGE = NOW - LAG


def window(operation: str, **given: Any) -> Window | None:
    wanted = Wanted(given.pop("since", None), given.pop("until", None))
    terms: dict[str, Any] = {"now": NOW, "lag": LAG, "first": DAY, "frontier": None, "watermark": None} | given
    return windows.window(operation, wanted, **terms)


@pytest.mark.contract("I2")
def test_every_operation_takes_its_own_window() -> None:
    ago = NOW - 3 * DAY

    assert window("HARVEST") == Window(EDGE - DAY, EDGE)
    assert window("HARVEST", frontier=ago) == Window(ago, EDGE)
    assert window("HARVEST", frontier=ago, since=ago - DAY) == Window(ago, EDGE)
    assert window("HARVEST", frontier=EDGE) is None
    assert window("HARVEST", until=NOW + DAY) == Window(EDGE - DAY, EDGE)
    assert window("BACKFILL", since=ago, watermark=ago + DAY) == Window(ago, ago + DAY)
    assert window("BACKFILL", since=ago, frontier=NOW) == Window(ago, EDGE)
    assert window("BACKFILL", since=ago, watermark=ago) is None
    assert window("UPDATE", since=ago, until=ago + DAY, watermark=ago) == Window(ago, ago + DAY)


@pytest.mark.contract("I3")
def test_a_window_holds_its_beginning_and_not_its_end() -> None:
    span = Window(NOW, NOW + DAY)

    assert span.holds(NOW)
    assert not span.holds(NOW + DAY)


HERE = slicing.of_time(0, 3_600_000_000)


def test_places_of_an_expression_become_the_bounds_of_a_slice() -> None:
    asked = expression.read({"q": "at:[{since} TO {until}]", "deep": {"list": ["{from}", 3]}, "brace": "{{x}}"})

    assert expression.render(asked, HERE) == {
        "q": "at:[1970-01-01T00:00:00.000000Z TO 1970-01-01T01:00:00.000000Z]",
        "deep": {"list": ["1970-01-01T00:00:00.000000Z", 3]},
        "brace": "{x}",
    }
    assert expression.read("cats") == {"query": "cats"}
    assert expression.read(None) == {}
    assert expression.hashed({"a": 1, "b": 2}) == expression.hashed({"b": 2, "a": 1})


@pytest.mark.parametrize("asked", ["{", "{whenever}", "{since:>9}", "{since!r}", "{}", 7, ["a"], {"": "x"}])
def test_an_expression_that_cannot_be_asked_does_not_compile(asked: Any) -> None:
    with pytest.raises(DoesNotCompile):
        expression.render(expression.read(asked), HERE)


REQUEST: dict[str, Any] = {
    "operation": "HARVEST", "since": None, "until": None, "strategy": "TIME", "params": None, "asked": None,
    "given_budget": None, "campaign": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "refused", "field"),
    [
        ({"operation": "harvest"}, errors.IngestInvalidRequest, "operation"),
        ({"strategy": "MOON"}, errors.IngestInvalidRequest, "strategy"),
        ({"params": ["a"]}, errors.IngestInvalidRequest, "params"),
        ({"params": {"x": float("nan")}}, errors.IngestInvalidRequest, None),
        ({"given_budget": {"requests": 0}}, errors.IngestInvalidRequest, "budget.requests"),
        ({"given_budget": {"seconds": 0}}, errors.IngestInvalidRequest, "budget.seconds"),
        ({"given_budget": {"seconds": 10**6}}, errors.IngestInvalidRequest, "budget.seconds"),
        ({"given_budget": {"money": 1}}, errors.IngestInvalidRequest, "budget"),
        ({"given_budget": 5}, errors.IngestInvalidRequest, "budget"),
        ({"given_budget": {"items": True}}, errors.IngestInvalidRequest, "budget.items"),
        ({"since": NOW, "until": NOW}, errors.IngestInvalidWindow, "since"),
        ({"since": NOW, "until": NOW - DAY}, errors.IngestInvalidWindow, "since"),
        ({"since": datetime(2026, 1, 1)}, errors.IngestInvalidWindow, "since"),  # noqa: DTZ001 - without an offset
        ({"until": "2026-01-01"}, errors.IngestInvalidWindow, "until"),
        ({"asked": "{whenever}"}, errors.IngestInvalidExpression, "expression"),
        ({"asked": "{first}"}, errors.IngestInvalidExpression, "expression"),
        ({"asked": {"q": object()}}, errors.IngestInvalidExpression, None),
    ],
)
def test_what_is_wrong_with_a_request_has_its_code(
    given: dict[str, Any], refused: type[errors.FerrymanError], field: str | None
) -> None:
    with pytest.raises(refused) as raised:
        request.read(**REQUEST | given)

    assert field is None or raised.value.details["field"] == field


@pytest.mark.contract("I7", "I8")
@pytest.mark.parametrize(
    ("end", "done_now", "done", "used", "expected"),
    [
        (Done(), 1, 1, 0, ("SUCCEEDED", "SUCCEEDED", None, 0)),
        (Spent("items"), 2, 2, 0, ("PARTIAL", "PARTIAL", "INGEST_BUDGET_SPENT", 0)),
        (Unwieldy("skew"), 2, 2, 0, ("PARTIAL", "PARTIAL", "INGEST_RESLICE", 0)),
        (Barred("HTTP 401"), 3, 3, 0, ("FAILED", "FAILED", "INGEST_AUTH_FAILED", 0)),
        (Broken("HTTP 404"), 0, 0, 0, ("QUEUED", "FAILED", "INGEST_BATCH_FAILED", 1)),
        (Broken("HTTP 404"), 2, 2, 1, ("QUEUED", "PARTIAL", "INGEST_BATCH_FAILED", 1)),
        (Broken("HTTP 404"), 0, 4, 2, ("PARTIAL", "FAILED", "INGEST_BATCH_FAILED", 1)),
        (Broken("HTTP 404"), 0, 0, 2, ("FAILED", "FAILED", "INGEST_BATCH_FAILED", 1)),
        (Postponed(DAY, "shut"), 0, 3, 2, ("QUEUED", "CANCELLED", "INGEST_POSTPONED", 0)),
        (Postponed(DAY, "shut"), 1, 3, 2, ("QUEUED", "PARTIAL", "INGEST_POSTPONED", 0)),
    ],
)
def test_how_a_run_ends_decides_about_its_task(end: End, done_now: int, done: int, used: int, expected: object) -> None:
    told = ending.verdict(end, done_now=done_now, done=done, used=used, max_attempts=3)

    assert (told.task, told.run, told.code, told.used) == expected
    assert bool(told.delay) == (told.task == "QUEUED")
    assert told.forgiven == isinstance(end, Postponed)


@pytest.mark.contract("I5", "K9")
def test_a_task_that_loses_every_claim_is_stuck_at_its_cap() -> None:
    assert ending.lost(epoch=9, forgiven=0, max_claims=10).task == "QUEUED"
    assert ending.lost(epoch=10, forgiven=0, max_claims=10).code == "INGEST_STUCK"
    assert ending.lost(epoch=12, forgiven=3, max_claims=10).task == "QUEUED"


@pytest.mark.contract("I7")
def test_a_budget_is_gone_when_one_of_its_parts_is() -> None:
    allowed = Budget(requests=5, items=None, seconds=60)

    assert budget.gone(allowed, Usage(4, 10**9, 59.9)) is None
    assert budget.gone(allowed, Usage(5, 0, 0)) == "requests"
    assert budget.gone(allowed, Usage(0, 0, 60.0)) == "seconds"
    assert budget.read(allowed) == allowed


@pytest.mark.contract("I10")
@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        (Signs(requests=100, throttled=5), None),
        (Signs(requests=100, throttled=6), "throttled"),
        (Signs(requests=5, throttled=5), None),
        (Signs(seconds=1800), None),
        (Signs(seconds=1801), "slow_slice"),
        (Signs(largest=5 * 1024 * 1024 + 1), "large_response"),
        (Signs(requests=3, latency=3.1), "slow_requests"),
        (Signs(requests=2, latency=3.1), None),
        (Signs(pages=8, estimate=4), None),
        (Signs(pages=9, estimate=4), "page_depth"),
        (Signs(items=500, usual=100.0), None),
        (Signs(items=501, usual=100.0), "skew"),
    ],
)
def test_a_slice_that_is_too_large_shows_it(signs: Signs, expected: str | None) -> None:
    assert signals.suggested(signs) == expected


@pytest.mark.contract("I11")
def test_a_replay_follows_the_chain_or_says_that_it_is_broken() -> None:
    chain: list[tuple[str, int | None, int]] = [
        ("begin", None, 0), ("forward", 0, 5), ("no-forward", 5, 5), ("rewind", 5, 2), ("forward", 2, 9),
    ]  # fmt: skip

    assert replay(chain) == 9
    assert replay([]) is None
    assert replay([*chain, ("forward", 8, 10)]) is None
    assert replay([*chain, ("forward", 9, 9)]) is None
