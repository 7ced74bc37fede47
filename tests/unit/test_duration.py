"""Lengths of time as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.kernel import duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (30, 30),
        (0.5, 0.5),
        (-1, -1),
        (timedelta(minutes=1), 60),
        ("30", 30),
        (" 2.5 ", 2.5),
        ("-1", -1),
        ("30s", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("2 h", 7200),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("7d", 604800),
        ("2w", 1209600),
        ("PT30S", 30),
        ("PT1.5S", 1.5),
        ("PT5M", 300),
        ("P7D", 604800),
        ("P1W", 604800),
        ("P1DT2H3M4S", 93784),
    ],
)
def test_numbers_short_texts_and_iso_texts_are_read(written: object, seconds: float) -> None:
    assert duration.parse(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "bad",
    [
        *["", "soon", "5 minutes", "5x", "s", "P", "PT", "P1DT", "P1M", "1e3", "-5s", "٣s"],
        *["9" * 400, "9" * 12 + "d", 10**400, float("nan"), float("inf"), True, None, [1], b"1s"],
    ],
)
def test_anything_else_is_refused_with_what_was_expected(bad: object) -> None:
    with pytest.raises(ValueError, match=r'^seconds, or a text like "30s"'):
        duration.parse(bad)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (1, "1s"), (90, "90s"), (60, "1m"), (7200, "2h"), (604800, "7d"), (0.25, "0.25s")],
)
def test_a_length_is_shown_in_its_largest_whole_unit(seconds: float, shown: str) -> None:
    assert duration.show(timedelta(seconds=seconds)) == shown


@given(st.timedeltas(timedelta(0), timedelta(days=1000)))
def test_what_is_shown_reads_back_the_same(length: timedelta) -> None:
    assert duration.parse(duration.show(length)) == length
