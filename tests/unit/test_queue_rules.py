"""What may be agreed for a queue, and how keys are made of payloads."""

from datetime import timedelta
from typing import Any

import pytest

from ferryman.kernel import errors
from ferryman.tasks.model import Flow
from ferryman.tasks.rules import keys, queue

pytestmark = pytest.mark.contract("T17")


@pytest.mark.parametrize(
    ("given", "starts", "seconds", "burst"),
    [
        ("100/minute", 100, 60, 1), ("5/s", 5, 1, 5), ("10/30s", 10, 30, 1), ("1000/sec", 1000, 1, 1000),
        (" 7 / hours ", 7, 3600, 1), ("600/min", 600, 60, 10), ("1/1h30m", 1, 5400, 1), ("3/PT10S", 3, 10, 1),
        ("2/day", 2, 86400, 1), ("9/m", 9, 60, 1),
    ],
)  # fmt: skip
def test_a_rate_is_read_as_people_write_it(given: str, starts: int, seconds: int, burst: int) -> None:
    rate = queue.read_rate(given)

    assert (rate.starts, rate.interval, rate.burst) == (starts, timedelta(seconds=seconds), burst)
    assert queue.read_rate(str(rate)) == rate


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency", 0), ("concurrency", -1), ("concurrency", 1.5), ("concurrency", True), ("concurrency", "5"),
        ("concurrency", 10**9), ("key_concurrency", 0), ("max_depth", 0), ("weight", 0), ("weight", -3), ("weight", 1001),
        ("rate", ""), ("rate", "fast"), ("rate", "0/s"), ("rate", "-1/s"), ("rate", "5/0s"), ("rate", "5/fortnight"),
        ("rate", 5), ("rate", "5/32d"), ("rate", "1e9/s"), ("at_limit", "explode"), ("at_limit", 3), ("burst", 3),
        ("colour", "red"),
    ],
)  # fmt: skip
def test_what_cannot_be_agreed_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(errors.QueueInvalid) as refused:
        queue.columns({field: value})

    assert refused.value.details["field"] == field
    assert refused.value.message.startswith(f"{field}: expected ")


def test_none_takes_a_limit_away() -> None:
    assert queue.columns({"concurrency": None, "rate": None, "weight": None}) == {
        "concurrency": None, "weight": 1, "rate_count": None, "rate_seconds": None, "burst": None,
    }  # fmt: skip


def flow(payload: Any, given: dict[str, Any] | None = None, **declared: Any) -> Any:
    return keys.flow(keys.declared(**declared), given or {}, payload, name="mail")


def test_a_key_is_made_of_the_payload_by_a_text_or_by_a_function() -> None:
    assert flow({"customer": 7}, limit_key="customer-{customer}").limit_key == "customer-7"
    assert flow({"customer": {"id": "x"}}, limit_key="{customer[id]}").limit_key == "x"
    assert flow({"n": 3}, limit_key=lambda payload: payload["n"] % 2).limit_key == "1"
    assert flow({"n": 3}, limit_key=lambda payload: None) is None


def test_what_is_given_with_the_create_comes_before_what_is_declared() -> None:
    made = flow({"n": 1}, {"limit_key": "given", "singleton": False}, limit_key="{n}", singleton=True)

    assert (made.limit_key, made.singleton) == ("given", None)


def test_a_singleton_without_a_key_is_one_for_the_name_and_so_is_a_debounced_call() -> None:
    assert flow({}, singleton=True).singleton == "mail"
    assert flow({}, debounce=2).debounce == "mail"
    assert flow({"n": 1}, debounce=timedelta(seconds=2), debounce_key="{n}") == Flow(
        None, None, "1", timedelta(seconds=2)
    )


def test_nothing_declared_and_nothing_given_is_no_flow() -> None:
    assert keys.declared(limit_key=None) is None
    assert keys.flow(None, {}, {}, name="mail") is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"limit_key": 7}, "limit_key"), ({"limit_key": "{"}, "limit_key"), ({"limit_key": "{}"}, "limit_key"),
        ({"singleton": 7}, "singleton"), ({"debounce": 0}, "debounce"), ({"debounce": -1}, "debounce"),
        ({"debounce": "2s"}, "debounce"),
        ({"debounce": True}, "debounce"), ({"debounce": timedelta(days=2)}, "debounce"),
        ({"debounce_key": "{n}"}, "debounce_key"), ({"debounce": float("nan")}, "debounce"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared_is_refused_by_the_name_of_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.TaskInvalidRequest) as refused:
        keys.declared(**options)

    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    ("payload", "given", "declared"),
    [
        ({}, {}, {"limit_key": "{customer}"}), (7, {}, {"limit_key": "{customer}"}), ({}, {"limit_key": ""}, {}),
        ({}, {"limit_key": 7}, {}), ({"c": "\x00"}, {}, {"limit_key": "{c}"}), ({"c": "x" * 201}, {}, {"limit_key": "{c}"}),
        ({}, {}, {"limit_key": lambda payload: payload["missing"]}),
    ],
)  # fmt: skip
def test_a_payload_that_no_key_can_be_made_of_is_refused(
    payload: Any, given: dict[str, Any], declared: dict[str, Any]
) -> None:
    with pytest.raises(errors.TaskInvalidRequest) as refused:
        flow(payload, given, **declared)

    assert refused.value.details["field"] == "limit_key"
