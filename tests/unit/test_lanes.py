"""Which lanes a worker looks into: a ring that comes while a turn is under way is not lost with it."""

import math

import pytest

from ferryman.tasks.work.lanes import KNOWN_MAX, Lanes, named

LANE = ("default", "acme")


def heard(*lanes: tuple[str, str]) -> Lanes:
    known = Lanes(["default"])
    known.unsure = False
    known.heard([named(*lane) for lane in lanes])
    return known


@pytest.mark.contract("K2")
def test_a_lane_that_came_back_empty_is_forgotten() -> None:
    lanes = heard(LANE)
    asked = lanes.share(10)

    assert lanes.claimed(asked, []) is False
    assert lanes.share(10) == []


@pytest.mark.contract("K2")
def test_a_lane_named_while_a_turn_looks_into_it_is_looked_into_again() -> None:
    lanes = heard(LANE)
    asked = lanes.share(10)

    lanes.heard([named(*LANE)])

    assert lanes.claimed(asked, []) is True
    assert lanes.share(10) == [(*LANE, 10)]


@pytest.mark.contract("K2", "R6")
def test_a_lane_that_bore_nothing_is_looked_into_when_it_is_named_also_among_too_many() -> None:
    lanes = heard(*(("default", f"nobody-{n}") for n in range(KNOWN_MAX)))
    lanes._barren[LANE] = (math.inf, 1.0)

    lanes.heard([named(*LANE)])

    lanes.found([{"kind": "lane", "queue": LANE[0], "tenant": LANE[1]}])
    assert (*LANE, 1) in lanes.share(KNOWN_MAX + 1)


@pytest.mark.contract("K2", "R6")
def test_when_lanes_are_named_without_end_the_index_says_which_there_are() -> None:
    lanes = heard(*(("default", f"nobody-{n}") for n in range(KNOWN_MAX)))
    before = lanes.unsure

    lanes.heard([named(*LANE)])

    assert (before, lanes.unsure) == (False, True)
    assert len(lanes.share(2 * KNOWN_MAX)) == KNOWN_MAX
    lanes.found([{"kind": "lane", "queue": LANE[0], "tenant": LANE[1]}])
    assert (*LANE, 1) in lanes.share(KNOWN_MAX + 1)


@pytest.mark.contract("K2")
def test_a_lane_found_while_it_is_known_keeps_what_was_heard_of_it() -> None:
    lanes = heard(LANE)
    asked = lanes.share(10)
    lanes.heard([named(*LANE)])

    lanes.found([{"kind": "lane", "queue": LANE[0], "tenant": LANE[1]}])

    assert lanes.claimed(asked, []) is True
