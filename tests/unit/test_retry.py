"""Delays between tries (K18, T5)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.kernel import errors, retry
from ferryman.kernel.retry import Backoff

attempts = st.integers(1, 10_000)
chances = st.floats(0, 1, exclude_max=True)
shares = st.floats(0, 1)
waits = st.timedeltas(timedelta(0), timedelta(days=2))


@st.composite
def exponentials(draw: st.DrawFn, jitter: st.SearchStrategy[float] = shares) -> Backoff:
    base, cap = sorted([draw(waits), draw(waits)])
    return Backoff(base=base, factor=draw(st.floats(1, 1000)), cap=cap, jitter=draw(jitter))


fixed = st.builds(lambda wait, jitter: Backoff.fixed(wait, jitter=jitter), waits, shares)
listed = st.builds(
    lambda delays, jitter: Backoff.listed(delays, jitter=jitter),
    st.lists(waits, min_size=1, max_size=8),
    shares,
)
backoffs = st.one_of(exponentials(), fixed, listed)


def seconds(*numbers: float) -> list[timedelta]:
    return [timedelta(seconds=number) for number in numbers]


@pytest.mark.contract("T5")
def test_the_default_is_one_second_doubled_up_to_a_minute() -> None:
    delays = [retry.DEFAULT.delay(attempt, random=lambda: 0.0) for attempt in range(1, 9)]

    assert delays == seconds(1, 2, 4, 8, 16, 32, 60, 60)


@pytest.mark.contract("K18")
def test_jitter_only_adds_up_to_its_share() -> None:
    assert retry.DEFAULT.delay(1, random=lambda: 0.0) == timedelta(seconds=1)
    assert retry.DEFAULT.delay(1, random=lambda: 0.5) == timedelta(seconds=1.05)
    assert retry.DEFAULT.delay(1, random=lambda: 1.0) == timedelta(seconds=1.1)


@pytest.mark.contract("T5")
def test_a_fixed_backoff_always_waits_the_same() -> None:
    backoff = Backoff.fixed(timedelta(seconds=5), jitter=0)

    assert [backoff.delay(attempt) for attempt in (1, 2, 10_000)] == seconds(5, 5, 5)


@pytest.mark.contract("T5")
def test_a_list_is_followed_and_its_last_delay_stays() -> None:
    backoff = Backoff.listed(seconds(2, 30, 4), jitter=0)

    assert [backoff.delay(attempt) for attempt in (1, 2, 3, 4, 10_000)] == seconds(2, 30, 4, 4, 4)


@pytest.mark.contract("K18")
@given(exponentials(jitter=st.just(0.1)), attempts, chances)
def test_a_delay_is_never_below_the_base_nor_above_the_cap_and_its_jitter(
    backoff: Backoff, attempt: int, drawn: float
) -> None:
    delay = backoff.delay(attempt, random=lambda: drawn)

    assert backoff.base <= delay <= backoff.cap * 1.1


@given(backoffs, attempts)
def test_any_backoff_keeps_its_bounds_with_the_real_random(backoff: Backoff, attempt: int) -> None:
    assert backoff.base <= backoff.delay(attempt) <= backoff.cap * (1 + backoff.jitter)


@given(exponentials(), st.integers(1, 9_999))
def test_without_jitter_an_exponential_never_shrinks(backoff: Backoff, attempt: int) -> None:
    first = backoff.delay(attempt, random=lambda: 0.0)

    assert first <= backoff.delay(attempt + 1, random=lambda: 0.0)


@pytest.mark.parametrize("attempt", [10_000, 10**9, 2**63])
def test_a_very_late_attempt_does_not_overflow(attempt: int) -> None:
    backoff = Backoff(timedelta(microseconds=1), 1000, retry.LONGEST, 0)

    assert backoff.delay(attempt) == retry.LONGEST


@given(backoffs)
def test_what_is_stored_reads_back_the_same(backoff: Backoff) -> None:
    again = Backoff.parse(json.loads(json.dumps(backoff.as_json())))

    assert again.as_json() == backoff.as_json()
    for attempt in (1, 2, 3, 50):
        assert again.delay(attempt, random=lambda: 0.0) == backoff.delay(attempt, random=lambda: 0.0)


def test_short_forms_are_read() -> None:
    assert Backoff.parse(None) == retry.DEFAULT
    assert Backoff.parse(retry.DEFAULT) is retry.DEFAULT
    assert Backoff.parse(5) == Backoff.fixed(timedelta(seconds=5))
    assert Backoff.parse(timedelta(seconds=5)) == Backoff.fixed(timedelta(seconds=5))
    assert Backoff.parse([1, 2.5]) == Backoff.listed(seconds(1, 2.5))
    assert Backoff.parse({}) == retry.DEFAULT
    assert Backoff.parse({"base_seconds": 90}).cap == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (-1, "backoff"),
        (float("nan"), "backoff"),
        (float("inf"), "backoff"),
        (True, "backoff"),
        ("soon", "backoff"),
        (1e12, "backoff"),
        ([], "backoff.delays"),
        ([1] * 1001, "backoff.delays"),
        ([1, -2], "backoff.delays[1]"),
        ([1, "2"], "backoff.delays[1]"),
        ({"kind": "linear"}, "backoff.kind"),
        ({"kind": "list", "delays_seconds": "12"}, "backoff.delays"),
        ({"kind": "list", "delays_seconds": 3}, "backoff.delays"),
        ({"kind": "fixed", "factor": 2}, "backoff.factor"),
        ({"base_seconds": None}, "backoff.base"),
        ({"base_seconds": 10, "cap_seconds": 1}, "backoff.cap"),
        ({"factor": 0.5}, "backoff.factor"),
        ({"factor": float("nan")}, "backoff.factor"),
        ({"jitter": -0.1}, "backoff.jitter"),
        ({"jitter": 2}, "backoff.jitter"),
        ({"cap": 5}, "backoff.cap"),
    ],
)
def test_a_silly_value_is_refused_by_name(bad: Any, field: str) -> None:
    with pytest.raises(errors.TaskInvalidRequest) as refused:
        Backoff.parse(bad)

    assert refused.value.details == {"field": field}
    assert refused.value.message.startswith(f"{field}: expected ")


def test_a_negative_base_or_delay_cannot_be_made() -> None:
    with pytest.raises(errors.TaskInvalidRequest, match=r"backoff\.base"):
        Backoff(base=timedelta(seconds=-1))
    with pytest.raises(errors.TaskInvalidRequest, match=r"backoff\.delays\[0\]"):
        Backoff(delays=(timedelta(seconds=-1),))


def test_attempts_begin_at_one() -> None:
    with pytest.raises(ValueError, match="attempt begins at 1, got 0"):
        retry.DEFAULT.delay(0)
