"""How much of the time looks may take (P13): a share that shrinks as their walk over what is dead gets longer."""

import pytest

from ferryman.kernel.looks import LAST, LONG_SECONDS, REST_SECONDS, REST_SECONDS_MAX, SHARE, Pace

pytestmark = pytest.mark.contract("P13")


def paced(seconds: float, *, behind: float | None = None) -> Pace:
    """A pace of looks that all take the same."""
    pace = Pace()
    for _ in range(LAST):
        pace.looked(seconds)
        if behind is not None:
            pace.looked(behind, behind=True)
    return pace


def test_a_look_that_takes_a_moment_is_not_put_off_for_longer_than_a_few_of_them() -> None:
    assert paced(0.005).rest() == pytest.approx(SHARE * 0.005, rel=0.2)


def test_the_longer_the_walk_the_smaller_is_the_share_of_the_time() -> None:
    shares = [seconds / (seconds + paced(seconds).rest()) for seconds in (0.001, 0.01, 0.05, 0.1, 0.2, 0.23)]

    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.1
    assert shares[-1] < 0.025


@pytest.mark.parametrize(("takes", "rests"), [(0.5, REST_SECONDS), (5.0, SHARE * 5.0), (3600.0, REST_SECONDS_MAX)])
def test_what_only_such_a_look_can_find_waits_some_seconds_or_for_the_share_of_a_long_one(
    takes: float, rests: float
) -> None:
    assert paced(takes).rest() == rests


def test_what_takes_as_long_without_a_walk_is_none() -> None:
    slow = paced(0.5, behind=0.49)

    assert not slow.long
    assert slow.rest() == pytest.approx(SHARE * 0.5, rel=0.3)


def test_of_the_last_looks_the_shortest_counts() -> None:
    pace = paced(0.01)
    pace.looked(30.0)

    assert pace.rest() < 1.0
    assert not pace.long

    pace.looked(30.0)
    assert pace.rest() == REST_SECONDS_MAX
    assert pace.long


def test_a_walk_is_long_from_where_its_share_is_halved() -> None:
    assert not paced(LONG_SECONDS).long
    assert paced(LONG_SECONDS * 1.01).long
