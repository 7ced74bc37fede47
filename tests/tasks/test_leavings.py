"""Ended schedules leave, and so do events that nobody will take and waits that are over (T20)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.app import wiring
from ferryman.kernel import invariants, watchdog
from ferryman.kernel.db import Row
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import watch
from ferryman.tasks.states import ACTIVE, CANCELLED, ENDED, PAUSED, READY, TASK
from ferryman.tasks.store import retention
from ferryman.testing import plant, travel
from tests.sql.standing import plant as plant_schedule

pytestmark = pytest.mark.contract("T20")

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WEEK = 7 * DAY
NOWHERE = UUID(int=0)
RULES = watch.leavings(kept=WEEK)


async def schedule(tx: Session, number: int, *, past: bool) -> None:
    id = UUID(int=number)
    [row] = await tx.fetch("select ferryman.clock() as now")
    await plant_schedule(tx, ENDED, id=id, ended_at=row["now"] - (WEEK + HOUR if past else WEEK - DAY))


async def signal(tx: Session, number: int, *, past: bool) -> None:
    task = await plant(tx, TASK, CANCELLED if past else READY, id=UUID(int=number))
    await tx.fetch(
        "insert into ferryman.task_signals (task, at, name) values ($1, now() - interval '1 year', 'go')", task
    )


async def wait(tx: Session, number: int, *, past: bool, epoch: int = 3) -> None:
    parked = {"rank": None, "wake_at": HOUR, "epoch": epoch + past}
    task = await plant(tx, TASK, READY, id=UUID(int=number), **parked)
    await tx.fetch(
        "insert into ferryman.task_waits (task, epoch, children, names) values ($1, $2, '{}', '{go}')", task, epoch
    )


class Leaving(NamedTuple):
    """One of the walks: how a row is planted, found and forgotten, and where those that are left are read."""

    domain: str
    plant: Callable[..., Awaitable[None]]
    find: Callable[..., Awaitable[Sequence[Row]]]
    forget: Callable[[Any, Sequence[Row]], Awaitable[int]]
    left: str


WALKS = [
    Leaving("schedule", schedule, partial(retention.schedules, kept=WEEK), retention.forget_schedules,
            "select id from ferryman.schedules"),
    Leaving("signal", signal, retention.signals, retention.forget_signals, "select task as id from ferryman.task_signals"),
    Leaving("wait", wait, retention.waits, retention.forget_waits, "select task as id from ferryman.task_waits"),
]  # fmt: skip
each_walk = pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.domain)


async def left(tx: Session, walk: Leaving) -> list[int]:
    return sorted(row["id"].int for row in await tx.fetch(walk.left))


async def place(tx: Session, walk: Leaving) -> int:
    [row] = await tx.fetch("select after_id from ferryman.retention where domain = $1", walk.domain)
    return int(row["after_id"].int)


@each_walk
async def test_what_is_past_leaves_and_nothing_else(tx: Session, walk: Leaving) -> None:
    for number in range(1, 7):
        await walk.plant(tx, number, past=number % 2 == 0)

    report = await watchdog.tick(tx, RULES)

    assert (report.acted(), await left(tx, walk)) == (3, [1, 3, 5])
    assert await invariants.check(tx, [each for each in wiring.invariants() if not each.deep]) == []


@each_walk
async def test_a_walk_goes_on_where_it_stopped_in_bounded_sets_and_rests(tx: Session, walk: Leaving) -> None:
    for number in range(1, 6):
        await walk.plant(tx, number, past=number in (2, 3))

    async def look(limit: int, span: int) -> tuple[int, int]:
        found = await walk.find(tx, limit, span=span, rest=HOUR)
        await walk.forget(tx, found)
        return len(found), await place(tx, walk)

    full, page, resting = await look(1, 5), await look(9, 2), await look(9, 9)
    await travel(tx, HOUR)
    end = await look(9, 9)

    assert (full, page, resting, end) == ((1, 2), (1, 4), (0, 4), (0, 0))
    assert await left(tx, walk) == [1, 4, 5]


@each_walk
async def test_each_walk_has_a_place_of_its_own(tx: Session, walk: Leaving) -> None:
    await walk.plant(tx, 1, past=True)
    await tx.fetch("update ferryman.retention set next_at = 'infinity' where domain <> $1", walk.domain)

    assert len(await walk.find(tx, 9, span=1, rest=HOUR)) == 1
    moved = await tx.fetch("select domain from ferryman.retention where after_id <> $1", NOWHERE)
    assert [row["domain"] for row in moved] == [walk.domain]


@each_walk
async def test_one_walks_at_a_time_and_a_row_that_somebody_holds_stays(db: Database, walk: Leaving) -> None:
    async with db.transaction() as tx:
        for number in (1, 2):
            await walk.plant(tx, number, past=True)

    async with db.transaction() as one, db.transaction() as other:
        found = await walk.find(one, 9, span=9, rest=HOUR)
        beside = await walk.find(other, 9, span=9, rest=HOUR)
        column, table = ("id" if walk.domain == "schedule" else "task"), walk.left.split()[-1]
        await other.fetch(f"select from {table} where {column} = $1 for update", UUID(int=1))
        gone = await walk.forget(one, found)

    assert (len(found), len(beside), gone) == (2, 0, 1)
    async with db.session() as tx:
        assert await left(tx, walk) == [1]


@pytest.mark.contract("T10")
@pytest.mark.parametrize("state", [ACTIVE, PAUSED])
async def test_a_schedule_that_has_not_ended_is_never_deleted_whoever_asks(tx: Session, state: Any) -> None:
    id = await plant_schedule(tx, state)

    assert await retention.forget_schedules(tx, [{"id": id}]) == 0


@pytest.mark.contract("T19")
async def test_an_event_for_a_live_task_is_kept_however_old(tx: Session) -> None:
    await signal(tx, 1, past=False)

    assert (await watchdog.tick(tx, RULES)).acted() == 0


@pytest.mark.contract("T19")
async def test_what_a_task_waits_for_again_stays(tx: Session) -> None:
    await wait(tx, 1, past=True)
    found = await retention.waits(tx, 9, span=9, rest=HOUR)
    await tx.fetch("update ferryman.task_waits set epoch = epoch + 1")  # it has parked anew

    assert (len(found), await retention.forget_waits(tx, found)) == (1, 0)


@pytest.mark.contract("T19")
async def test_what_an_ended_task_waited_for_leaves(tx: Session) -> None:
    task = await plant(tx, TASK, CANCELLED, epoch=3)
    await tx.fetch("insert into ferryman.task_waits (task, epoch, children, names) values ($1, 3, '{}', '{go}')", task)

    assert (await watchdog.tick(tx, RULES)).acted("T20-waits") == 1
