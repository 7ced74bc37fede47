"""Five ways to cut, each without gap or overlap and the same every time (I3); and what is made of a rest (I7, I10)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import keys, reslicing, slicing
from ferryman.ingest.rules.refusal import Refused
from ferryman.kernel import errors

DAY = 86_400_000_000
DAWN = keys.number(datetime(2026, 1, 1, tzinfo=UTC))

spans = st.tuples(st.integers(DAWN - 400 * DAY, DAWN), st.integers(1, 40 * DAY)).map(lambda t: (t[0], t[0] + t[1]))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, int, int, dict[str, Any]]:
    lower, upper = draw(spans)
    step = draw(st.integers(20_000, 30 * 86_400))
    marks = draw(st.lists(st.integers(lower - DAY, upper + DAY), min_size=1, max_size=8))
    dated = [keys.instant(keys.moment(mark)) for mark in marks]
    parts = [[at, draw(st.integers(0, 500))] for at in dated]
    many = draw(st.one_of(st.integers(0, 5000), st.just(parts)))
    ways: list[tuple[str, int, int, dict[str, Any]]] = [
        (slicing.TIME, lower, upper, {"step_seconds": step}),
        (slicing.ID_RANGE, lower % 10_000, lower % 10_000 + draw(st.integers(1, 9000)), {"size": step}),
        (slicing.CURSOR_LANDMARK, lower, upper, {"landmarks": dated}),
        (slicing.VOLUME_BUDGET, lower, upper, {"max_items": 40, "estimate": many}),
        (slicing.HYBRID, lower, upper, {"step_seconds": step, "max_items": 40, "estimate": many}),
    ]
    chosen: tuple[str, int, int, dict[str, Any]] = draw(st.sampled_from(ways))
    return chosen


@pytest.mark.contract("I3")
@settings(max_examples=60, deadline=None)
@given(requests())
def test_the_cuts_of_a_window_meet_and_fill_it(asked: tuple[str, int, int, dict[str, Any]]) -> None:
    strategy, lower, upper, params = asked

    cuts = slicing.cut(strategy, lower=lower, upper=upper, params=params)

    assert cuts[0].lower == lower
    assert cuts[-1].upper == upper
    assert [cut.upper for cut in cuts[:-1]] == [cut.lower for cut in cuts[1:]]
    assert all(cut.lower is not None and cut.upper is not None and cut.lower < cut.upper for cut in cuts)


@pytest.mark.contract("I3", "I4")
@settings(max_examples=60, deadline=None)
@given(requests())
def test_the_same_request_is_cut_and_signed_the_same(asked: tuple[str, int, int, dict[str, Any]]) -> None:
    strategy, lower, upper, params = asked

    def signed() -> list[str]:
        cuts = slicing.cut(strategy, lower=lower, upper=upper, params=params)
        return [keys.signature("s", "e", "HARVEST", expr_hash="x", spec=cut.spec()) for cut in cuts]

    first = signed()

    assert first == signed()
    assert len(set(first)) == len(first)


@pytest.mark.contract("I3")
def test_a_volume_is_kept_in_every_slice() -> None:
    hours = [[keys.instant(keys.moment(DAWN + hour * DAY // 24)), count] for hour, count in enumerate([5, 95, 10, 240])]
    params = {"max_items": 100, "estimate": hours}

    cuts = slicing.cut(slicing.VOLUME_BUDGET, lower=DAWN, upper=DAWN + DAY // 6, params=params)

    assert [cut.estimate for cut in cuts] == [100, 90, 80, 80]
    assert max(cut.estimate or 0 for cut in cuts) <= 100


@pytest.mark.contract("I3")
def test_a_hybrid_slice_is_no_longer_than_a_step_and_no_fuller_than_its_volume() -> None:
    params = {"max_items": 50, "step_seconds": 3600, "estimate": 1200}

    cuts = slicing.cut(slicing.HYBRID, lower=DAWN, upper=DAWN + DAY // 2, params=params)

    assert len(cuts) == 24
    assert all((cut.upper or 0) - (cut.lower or 0) <= DAY // 24 and (cut.estimate or 0) <= 50 for cut in cuts)


@pytest.mark.contract("I3")
def test_landmarks_without_an_order_begin_where_they_stand() -> None:
    cuts = slicing.cut(slicing.CURSOR_LANDMARK, lower=None, upper=None, params={"landmarks": ["aa", "mm", "zz"]})

    assert [(cut.first, cut.last, cut.start, cut.lower) for cut in cuts] == [
        ("aa", "mm", "token:aa", None),
        ("mm", "zz", "token:mm", None),
    ]


@pytest.mark.contract("I3", "S7")
@pytest.mark.parametrize(
    ("strategy", "params", "field"),
    [
        (slicing.TIME, {"step_seconds": 0}, "params.step_seconds"),
        (slicing.TIME, {"step_seconds": "1h"}, "params.step_seconds"),
        (slicing.TIME, {"step_seconds": float("nan")}, "params.step_seconds"),
        (slicing.TIME, {"step_seconds": 0.001}, "window"),
        (slicing.ID_RANGE, {"size": True}, "params.size"),
        (slicing.VOLUME_BUDGET, {"estimate": 5}, "params.max_items"),
        (slicing.VOLUME_BUDGET, {"max_items": 5}, "params.estimate"),
        (slicing.VOLUME_BUDGET, {"max_items": 5, "estimate": [["2026-01-01T00:00:00", 3]]}, "params"),
        (slicing.VOLUME_BUDGET, {"max_items": 5, "estimate": [["2026-01-01T00:00:00Z", -3]]}, "params.estimate"),
        (slicing.CURSOR_LANDMARK, {"landmarks": "aa"}, "params.landmarks"),
        ("MOON", {}, "strategy"),
    ],
)
def test_what_cannot_be_cut_is_named(strategy: str, params: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        slicing.cut(strategy, lower=DAWN, upper=DAWN + DAY, params=params)

    assert refused.value.field == field


@pytest.mark.contract("I10")
@settings(max_examples=60, deadline=None)
@given(spans, st.floats(0, 1), st.integers(0, 9))
def test_what_remains_of_an_unwieldy_slice_is_halved(span: tuple[int, int], covered: float, depth: int) -> None:
    lower, upper = span
    cut = slicing.of_time(lower, upper)
    reached = lower + int((upper - lower) * covered)

    decision = reslicing.decide(
        cut, code=errors.IngestReslice.code, covered=reached, after="page:2", has_next=True, depth=depth
    )

    if depth >= reslicing.DEEPEST or not reslicing.can_divide(cut, covered=reached, depth=depth):
        assert decision.word == reslicing.REMAINDER
        return
    first, second = decision.cuts
    assert first.lower == (reached if lower < reached < upper else lower)
    assert (first.upper, second.upper) == (second.lower, upper)
    assert decision.word == reslicing.BISECT


CUT = slicing.of_time(DAWN, DAWN + DAY)


@pytest.mark.contract("I7")
@pytest.mark.parametrize(
    ("code", "after", "has_next", "expected"),
    [
        (errors.IngestBudgetSpent.code, "page:4", True, ("remainder", ["page:4"])),
        (errors.IngestBudgetSpent.code, None, None, ("none", [])),
        (errors.IngestBudgetSpent.code, None, False, ("none", [])),
        (errors.IngestBatchFailed.code, "page:4", True, ("bisect", ["start", "start"])),
        (errors.IngestReslice.code, "page:4", True, ("bisect", ["start", "start"])),
    ],
)
def test_the_planner_has_three_words(code: str, after: str | None, has_next: bool | None, expected: object) -> None:
    decision = reslicing.decide(CUT, code=code, covered=None, after=after, has_next=has_next, depth=0)

    assert (decision.word, [cut.start for cut in decision.cuts]) == expected


def test_an_instant_and_its_number_are_one() -> None:
    at = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

    assert keys.moment(keys.number(at)) == at
    assert keys.number(at) == -1
    assert keys.instant(at.astimezone(datetime.now().astimezone().tzinfo)) == "1969-12-31T23:59:59.999999Z"


def test_a_cut_reads_itself_back() -> None:
    cut = Cut("time", "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z", DAWN, DAWN + DAY, 7, "page:2")

    assert slicing.read(cut.spec(), lower=DAWN, upper=DAWN + DAY, estimate=7) == cut
    assert slicing.divisible(slicing.of_time(0, timedelta(minutes=2) // timedelta(microseconds=1)))
    assert not slicing.divisible(slicing.of_ids(0, 1))
