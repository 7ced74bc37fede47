"""Where a claim begins: from the front for a share of the time, behind what was claimed before for the rest."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel.looks import LAST, LONG_SECONDS, REST_SECONDS_MAX, SHARE
from ferryman.tasks.work.lanes import Lanes, named
from ferryman.tasks.work.places import MANY, Places

LANE = ("default", "acme")
ASKED = [(*LANE, MANY)]
NAMES = ["mail"]
FEW = [(*LANE, 3)]
QUICK, SLOW = 0.01, 1.0


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


def claim(places: Places, count: int, *, asked: Any = ASKED, seconds: float = QUICK, names: Any = NAMES) -> UUID:
    """Let a turn bring so many, and return the last of them."""
    tasks: list[Any] = [Task() for _ in range(count)]
    places.claimed(asked, places.behind(asked, names), tasks, names=names, seconds=seconds)
    last: UUID = tasks[-1].id
    return last


def looked(*, seconds: float = QUICK, asked: Any = ASKED) -> tuple[Places, Clock, UUID]:
    """Places after as many looks from the front as it takes to believe how long they are, and what the last brought."""
    clock = Clock()
    places = Places(clock)
    for _ in range(LAST):
        assert places.behind(asked, NAMES) == [None]
        last = claim(places, asked[0][2], asked=asked, seconds=seconds)
    return places, clock, last


@pytest.mark.contract("P13")
def test_after_a_look_from_the_front_claims_of_many_begin_behind_the_last_one() -> None:
    places, _, first = looked()
    assert places.behind(ASKED, NAMES) == [first]

    second = claim(places, MANY)
    assert places.behind(ASKED, NAMES) == [second]


@pytest.mark.contract("P13")
@pytest.mark.parametrize(("seconds", "pause"), [(QUICK, SHARE * QUICK), (60.0, REST_SECONDS_MAX)])
def test_looks_from_the_front_take_a_share_of_the_time(seconds: float, pause: float) -> None:
    places, clock, _ = looked(seconds=seconds)

    clock.now += pause * 0.9
    again = claim(places, MANY)  # from behind: it does not put off the next look
    assert places.behind(ASKED, NAMES) == [again]

    clock.now += pause * 0.2
    assert places.behind(ASKED, NAMES) == [None]


@pytest.mark.contract("P13")
def test_a_claim_from_behind_does_not_begin_a_new_time_when_another_has_ended_it() -> None:
    places, _, last = looked()
    behind = places.behind(ASKED, NAMES)  # two turns are under way, both from there
    assert behind == [last]
    places.claimed(ASKED, behind, [], names=NAMES, seconds=QUICK)
    tasks: list[Any] = [Task() for _ in range(MANY)]

    places.claimed(ASKED, behind, tasks, names=NAMES, seconds=QUICK)

    assert places.behind(ASKED, NAMES) == [None]


def test_who_takes_a_few_at_a_time_keeps_the_exact_order() -> None:
    few = [(*LANE, MANY - 1)]
    places, _, _ = looked(asked=few)
    assert places.behind(few, NAMES) == [None]

    places, _, _ = looked()
    assert places.behind(few, NAMES) == [None]


def test_a_claim_for_other_handlers_looks_from_the_front() -> None:
    places, _, _ = looked()

    assert places.behind(ASKED, ["mail", "print"]) == [None]


@pytest.mark.contract("K2")
def test_a_lane_that_brought_too_little_from_behind_is_looked_into_from_the_front_before_it_is_forgotten() -> None:
    (places, _, last), lanes = looked(), Lanes(["default"])
    lanes.unsure = False
    lanes.heard([named(*LANE)])
    lanes.claimed(lanes.share(MANY), [LANE] * MANY)
    asked = lanes.share(MANY)
    assert places.behind(asked, NAMES) == [last]

    unsure = places.claimed(asked, places.behind(asked, NAMES), [], names=NAMES, seconds=QUICK)

    assert lanes.claimed(asked, [], unsure=unsure) is True
    assert places.behind(lanes.share(MANY), NAMES) == [None]


@pytest.mark.contract("P13")
def test_where_walks_are_long_also_claims_of_a_few_begin_behind() -> None:
    places, clock, last = looked(asked=FEW, seconds=SLOW)
    assert places.behind(FEW, NAMES) == [last]

    again = claim(places, 1, asked=FEW)  # there is little to do: the place stays
    assert places.behind(FEW, NAMES) == [again]
    assert not places.claimed(FEW, [again], [], names=NAMES, seconds=QUICK)
    assert places.behind(FEW, NAMES) == [again]

    clock.now += REST_SECONDS_MAX
    assert places.behind(FEW, NAMES) == [None]


@pytest.mark.contract("P13")
def test_where_a_walk_has_become_short_again_the_exact_order_is_back() -> None:
    places, clock, last = looked(asked=FEW, seconds=SLOW)
    assert places.behind(FEW, NAMES) == [last]

    clock.now += REST_SECONDS_MAX
    claim(places, 3, asked=FEW)

    assert places.behind(FEW, NAMES) == [None]


@pytest.mark.contract("P13")
def test_where_everything_is_slow_claims_of_a_few_keep_the_exact_order() -> None:
    places, _, last = looked(asked=FEW, seconds=SLOW)
    assert places.behind(FEW, NAMES) == [last]  # it cannot tell yet

    unsure = places.claimed(FEW, [last], [], names=NAMES, seconds=SLOW - LONG_SECONDS / 2)

    assert unsure == {LANE}
    assert places.behind(FEW, NAMES) == [None]


@pytest.mark.contract("P13")
def test_looks_for_lanes_that_nobody_named_take_a_share_of_the_time() -> None:
    clock = Clock()
    places = Places(clock)
    for _ in range(LAST):
        assert places.may_look()
        places.looked(SLOW)
    assert not places.may_look()

    clock.now += REST_SECONDS_MAX
    assert places.may_look()


@pytest.mark.contract("K2")
def test_looks_for_lanes_are_not_put_off_because_the_machine_is_slow() -> None:
    clock = Clock()
    places = Places(clock)
    for _ in range(LAST):
        places.claimed(ASKED, [None], [], names=NAMES, seconds=SLOW)
        places.looked(SLOW)

    clock.now += SHARE * SLOW
    assert places.may_look()
