"""Which lanes behind gates a worker looks into: nobody starves, nobody is forgotten, and nobody is asked in vain for ever."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from ferryman.kernel.doorbell import NoDoorbell
from ferryman.tasks.ports import Owners
from ferryman.tasks.store.gates import Asked, Looked
from ferryman.tasks.work.agreed import Agreed
from ferryman.tasks.work.crew import TaskCrew
from ferryman.tasks.work.gates import Gates
from ferryman.tasks.work.lanes import BARREN_SECONDS, LOOK_MAX, Lanes, named
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("T17")

ACME, BETA, DORA = ("mail", "acme"), ("mail", "beta"), ("mail", "dora")


def looked(
    asked: list[Asked], *, upto: str | None = None, waits: bool = True, opens: float | None = None
) -> list[Looked]:
    return [Looked(each.queue, each.tenant, upto, opens, waits) for each in asked]


def gates(*lanes: tuple[str, str]) -> Gates:
    made = Gates(Agreed())
    for lane in lanes:
        made.found(lane)
    return made


def test_a_lane_that_waits_for_a_slot_is_not_asked_again_until_one_is_free() -> None:
    known = gates(ACME)
    asked = known.share(10)

    assert known.passed(asked, looked(asked), [ACME]) is False
    assert known.share(10) == []

    known.freed("mail")
    assert known.share(10) == [Asked("mail", "acme", 10, "")]


def test_a_lane_whose_keys_were_cut_short_is_asked_again_at_once_while_that_brings_something() -> None:
    known = gates(ACME)
    asked = known.share(10)

    assert known.passed(asked, [Looked("mail", "acme", None, None, True, cut=True)], [ACME]) is True
    assert known.share(10) == asked
    assert known.passed(asked, [Looked("mail", "acme", None, None, True, cut=True)], []) is False


def test_a_slot_that_is_freed_while_a_turn_stands_at_the_gate_is_not_lost() -> None:
    known = gates(ACME)
    asked = known.share(10)

    known.freed("mail")

    assert known.passed(asked, looked(asked), []) is True


def test_a_lane_where_nothing_waits_is_forgotten() -> None:
    known = gates(ACME)
    asked = known.share(10)

    known.passed(asked, looked(asked, waits=False), [])
    known.freed("mail")

    assert known.share(10) == []


def test_a_lane_that_is_named_while_it_is_found_empty_is_kept() -> None:
    known = gates(ACME)
    asked = known.share(10)

    known.heard(ACME)

    assert known.passed(asked, looked(asked, waits=False), []) is True
    assert known.share(10) == [Asked("mail", "acme", 10, "")]


def test_a_lane_that_came_back_full_has_more() -> None:
    known = gates(ACME)
    asked = known.share(2)

    assert known.passed(asked, looked(asked, waits=False), [ACME, ACME]) is True


def test_who_got_something_stands_last_next_time() -> None:
    known = gates(ACME, BETA, DORA)
    for got, order in ((ACME, "beta dora acme"), (BETA, "dora acme beta"), (DORA, "acme beta dora")):
        asked = known.share(10)
        known.passed(asked, looked(asked), [got])
        known.freed("mail")
        assert [each.tenant for each in known.share(10)] == order.split()


def test_a_gate_that_somebody_else_stands_at_stays_wanted() -> None:
    known = gates(ACME)
    asked = known.share(10)

    assert known.passed(asked, [], []) is False
    assert known.waiting


def test_a_look_goes_on_behind_the_key_where_the_last_one_ended_until_a_whole_round_brings_nothing() -> None:
    known = gates(ACME)
    keys = []
    for upto, got in (("k50", [ACME]), ("k99", []), (None, []), ("k50", []), ("k99", []), (None, [])):
        [asked] = known.share(10)
        keys.append(asked.after)
        more = known.passed([asked], looked([asked], upto=upto), got)

    assert keys == ["", "k50", "k99", "", "k50", "k99"]
    assert more is False
    assert not known.waiting


def test_a_lane_whose_rate_is_spent_waits_for_its_time() -> None:
    known = gates(ACME)
    asked = known.share(1)

    assert known.passed(asked, looked(asked, opens=0.5), [ACME]) is False

    known.freed("mail")
    assert len(known.share(1)) == 1


def row(
    kind: str, queue: str, tenant: str = "*", *, weight: int = 1, open: bool = True, paused: bool = False
) -> dict[str, object]:
    return {"kind": kind, "queue": queue, "tenant": tenant, "weight": weight, "open": open, "paused": paused}


def lanes(*rows: dict[str, Any], queues: str = "mail slow") -> Lanes:
    known = Lanes(queues.split(), clock=lambda: 0.0)
    known.found(rows)
    return known


@pytest.fixture
def crew() -> TaskCrew:
    # A runner is not needed to stand at a gate.
    runner: Any = SimpleNamespace(run=None, hand_back=None, spoil=None, names=())
    lease, margin = timedelta(seconds=30), timedelta(seconds=5)
    return TaskCrew(runner, Owners(), NoDoorbell(), owner=uuid4(), queues=["mail"], lease=lease, margin=margin)


@pytest.mark.contract("K12")
@pytest.mark.parametrize("first", [0, 1])
async def test_the_slow_rate_of_one_tenant_does_not_hold_up_another(crew: TaskCrew, first: int) -> None:
    seen = asyncio.Event()
    crew.look = seen.set
    reports = [Looked("mail", tenant, None, opens, True) for tenant, opens in (("acme", 3600.0), ("beta", 0.01))]

    crew._come_back([reports[first], reports[1 - first]], busy=False)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await seen.wait()


async def test_who_finds_a_gate_busy_again_and_again_comes_less_often(crew: TaskCrew) -> None:
    looked = asyncio.Event()
    crew.look = looked.set
    pauses = []
    for busy in (True, True, True, True, True, False, True):
        pauses.append(crew._busy_seconds)
        crew._come_back((), busy=busy)

    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.01])
    async with asyncio.timeout(PATIENCE_SECONDS):
        await looked.wait()


def test_a_lane_that_is_not_open_goes_through_its_gate() -> None:
    known = lanes(row("queue", "mail", open=False), row("lane", "mail", "acme"), row("lane", "slow", "acme"))

    assert known.share(10) == [("slow", "acme", 10)]
    assert known.gates.share(10) == [Asked("mail", "acme", 10, "")]


def test_a_ring_for_a_lane_that_is_not_open_is_heard_at_its_gate() -> None:
    known = lanes(row("queue", "mail", "acme", open=False))

    known.heard([named("mail", "acme"), named("mail", "beta"), named("slow", "acme", keyed=True)])

    assert known.share(10) == [("mail", "beta", 10)]
    assert {(each.queue, each.tenant) for each in known.gates.share(10)} == {("mail", "acme"), ("slow", "acme")}


def test_a_paused_lane_is_not_asked() -> None:
    known = lanes(row("queue", "mail", open=False, paused=True), row("lane", "mail", "acme"))

    assert known.share(10) == []
    assert known.gates.share(10) == []


@pytest.mark.contract("T17")
def test_nothing_is_claimed_before_it_is_known_which_handlers_are_paused(crew: TaskCrew) -> None:
    crew._runner = SimpleNamespace(names=["one", "two"])
    crew.lanes.heard([named("mail", "acme")])  # a ring may come before the first look has

    before = list(crew._names)
    crew.lanes.found([row("name", "one")])

    assert (before, list(crew._names)) == ([], ["two"])


def test_a_ring_of_a_free_slot_wakes_only_those_who_wait_for_one() -> None:
    known = lanes(row("queue", "mail", open=False))
    known.unsure = False

    assert known.heard([named("mail", "", keyed=True)]) is False


def test_the_room_is_shared_by_weight_and_what_cannot_be_divided_is_owed() -> None:
    known = lanes(row("queue", "mail", weight=3), row("lane", "mail", "acme"), row("lane", "slow", "acme"))

    assert dict((queue, room) for queue, _, room in known.share(8)) == {"mail": 6, "slow": 2}
    alone = [known.share(1)[0][0] for _ in range(8)]
    assert alone.count("mail") == 6


def test_a_look_that_had_to_end_goes_on_behind_its_last_tenants() -> None:
    many = [row("lane", "mail", f"t{n:05}") for n in range(LOOK_MAX)]
    known = lanes(*many)

    assert known.afters == {"mail": f"t{LOOK_MAX - 1:05}", "slow": ""}

    known.found([])
    assert known.afters == {"mail": "", "slow": ""}


def test_a_lane_that_nobody_here_can_serve_is_left_alone_for_a_while_unless_it_is_named() -> None:
    now = 0.0
    known = Lanes(["mail"], clock=lambda: now)
    shown = [row("lane", "mail", "acme")]
    known.found(shown)
    known.claimed(known.share(10), [])

    known.found(shown)
    assert known.share(10) == []

    known.heard([named("mail", "acme")])
    assert known.claimed(known.share(10), []) is False

    now = BARREN_SECONDS * 4
    known.found(shown)
    assert known.share(10) == [("mail", "acme", 10)]
