"""Where a claim begins: from the front for a share of the time, behind what was claimed before for the rest."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.tasks.work.lanes import Lanes, named
from ferryman.tasks.work.places import MANY, PAUSE_SECONDS_MAX, SHARE, Places

LANE = ("default", "acme")
ASKED = [(*LANE, MANY)]
NAMES = ["mail"]


class Clock:
    """A time that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Task:
    """As much of a claimed task as is looked at."""

    def __init__(self, lane: tuple[str, str] = LANE) -> None:
        self.id = uuid4()
        self.queue, self.tenant = lane


def claim(places: Places, count: int, *, asked: Any = ASKED, seconds: float = 0.1, names: Any = NAMES) -> UUID:
    """Let a turn bring so many, and return the last of them."""
    tasks: list[Any] = [Task() for _ in range(count)]
    places.claimed(asked, places.behind(asked, names), tasks, names=names, seconds=seconds)
    last: UUID = tasks[-1].id
    return last


@pytest.mark.contract("P13")
def test_after_a_look_from_the_front_claims_of_many_begin_behind_the_last_one() -> None:
    places = Places(Clock())

    first = claim(places, MANY)
    assert places.behind(ASKED, NAMES) == [first]

    second = claim(places, MANY)
    assert places.behind(ASKED, NAMES) == [second]


@pytest.mark.contract("P13")
@pytest.mark.parametrize(("seconds", "pause"), [(0.1, SHARE * 0.1), (60.0, PAUSE_SECONDS_MAX)])
def test_looks_from_the_front_take_a_share_of_the_time(seconds: float, pause: float) -> None:
    clock = Clock()
    places = Places(clock)
    claim(places, MANY, seconds=seconds)

    clock.now += pause * 0.9
    again = claim(places, MANY, seconds=seconds)  # from behind: it does not put off the next look
    assert places.behind(ASKED, NAMES) == [again]

    clock.now += pause * 0.2
    assert places.behind(ASKED, NAMES) == [None]


@pytest.mark.contract("P13")
def test_a_claim_from_behind_does_not_begin_a_new_time_when_another_has_ended_it() -> None:
    places = Places(Clock())
    claim(places, MANY)
    behind = places.behind(ASKED, NAMES)  # two turns are under way, both from there
    places.claimed(ASKED, behind, [], names=NAMES, seconds=0.1)
    tasks: list[Any] = [Task() for _ in range(MANY)]

    places.claimed(ASKED, behind, tasks, names=NAMES, seconds=0.1)

    assert places.behind(ASKED, NAMES) == [None]


def test_who_takes_a_few_at_a_time_keeps_the_exact_order() -> None:
    places = Places(Clock())
    few = [(*LANE, MANY - 1)]
    claim(places, MANY - 1, asked=few)
    assert places.behind(few, NAMES) == [None]

    claim(places, MANY)
    assert places.behind(few, NAMES) == [None]


def test_a_claim_for_other_handlers_looks_from_the_front() -> None:
    places = Places(Clock())
    claim(places, MANY)

    assert places.behind(ASKED, ["mail", "print"]) == [None]


@pytest.mark.contract("K2")
def test_a_lane_that_brought_too_little_from_behind_is_looked_into_from_the_front_before_it_is_forgotten() -> None:
    places, lanes = Places(Clock()), Lanes(["default"])
    lanes.unsure = False
    lanes.heard([named(*LANE)])
    lanes.claimed(lanes.share(MANY), [LANE] * MANY)
    claim(places, MANY)
    asked = lanes.share(MANY)

    unsure = places.claimed(asked, places.behind(asked, NAMES), [], names=NAMES, seconds=0.1)

    assert lanes.claimed(asked, [], unsure=unsure) is True
    assert places.behind(lanes.share(MANY), NAMES) == [None]


@pytest.mark.contract("P13")
def test_looks_for_lanes_that_nobody_named_take_a_share_of_the_time() -> None:
    clock = Clock()
    places = Places(clock)
    assert places.may_look()

    places.looked(0.1)
    assert not places.may_look()

    clock.now += SHARE * 0.1 + 0.001
    assert places.may_look()
