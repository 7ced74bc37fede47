"""A task that somebody holds, and that a firing is to cancel, holds up its own schedule and no other (T10)."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from ferryman.kernel import ids, invariants
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database
from ferryman.tasks import store
from ferryman.tasks.store import schedules
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from ferryman.tasks.work.due import Sweep
from ferryman.tasks.work.scheduler import Scheduler
from tests.patience import PATIENCE_SECONDS
from tests.tasks.clockwork import many, scheduling

pytestmark = [pytest.mark.contract("T10", "W23"), pytest.mark.usefixtures("endless_waits")]

FIRST = "id = (select id from ferryman.tasks where schedule is not null order by schedule limit 1)"
CHILD = """
with parent as (select id, schedule from ferryman.tasks where schedule is not null order by schedule limit 1),
child as (
    insert into ferryman.tasks (id, tenant, queue, name, payload, priority, timeout_ms, max_retries, callback, callback_ref,
                                due_at, ends_at, state, rank, created_at, updated_at)
    select 'ffffffff-ffff-7fff-bfff-ffffffffffff', 'default', 'default', 'report', '{}', 0, 1000, 1, 'child', parent.id::text,
           now, now + interval '1 day', 'ready', now, now, now
    from parent, ferryman.clock() as now
    returning id, created_at
)
insert into ferryman.task_steps (task, kind, name, nth, state, child, at)
select parent.id, 'child', 'report', 1, 'open', child.id, child.created_at from parent, child
"""


async def fired(scheduler: Scheduler, db: Database, count: int, **columns: str) -> None:
    """Plant schedules, let each fire, and let all of them be due again."""
    await many(db, count, **columns)
    while await scheduler.once():
        continue
    async with db.session() as tx:
        await tx.fetch("update ferryman.schedules set next_run_at = ferryman.clock() - interval '1 s'")


@asynccontextmanager
async def held(db: Database, which: str) -> AsyncIterator[None]:
    """Be somebody who holds a task."""
    async with db.transaction() as stranger:
        assert len(await stranger.fetch(f"select id from ferryman.tasks where {which} for update")) == 1
        yield


async def times(db: Database) -> dict[UUID, int]:
    """Return how often each schedule has fired."""
    async with db.session() as tx:
        return {
            row["id"]: row["fired"] for row in await tx.fetch("select id, fired from ferryman.schedules order by id")
        }


async def until_fired(scheduler: Scheduler, db: Database, wanted: list[int]) -> None:
    """Go on firing until the schedules have fired so often."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while list((await times(db)).values()) != wanted:
        assert time.monotonic() < deadline, await times(db)
        await scheduler.once()


async def test_a_previous_task_that_somebody_holds_holds_up_one_schedule_and_no_other(
    db: Database, database_url: str
) -> None:
    async with scheduling(database_url) as (scheduler, _line):
        await fired(scheduler, db, 20, overlap="cancel_previous")
        async with held(db, FIRST):
            assert await scheduler.once() == 19
            assert list((await times(db)).values()) == [1, *[2] * 19]
        await until_fired(scheduler, db, [2] * 20)
        assert await scheduler.once() == 0

    async with db.session() as tx:
        rows = await tx.fetch("select state, count(*) as n from ferryman.tasks group by 1 order by 1")
        assert [tuple(row) for row in rows] == [("cancelled", 20), ("ready", 20)]  # type: ignore[arg-type]
        assert await invariants.check(tx, [*TASK_INVARIANTS, *SCHEDULE_INVARIANTS]) == []


async def test_a_child_of_a_previous_task_that_somebody_holds_holds_up_one_schedule_and_no_other(
    db: Database, database_url: str
) -> None:
    async with scheduling(database_url) as (scheduler, _line):
        await fired(scheduler, db, 4, overlap="cancel_previous")
        async with db.session() as tx:
            await tx.fetch(CHILD)
        async with held(db, "callback is not null"):
            await until_fired(scheduler, db, [1, 2, 2, 2])


async def test_a_sweep_does_not_stand_still_for_a_schedule_whose_previous_task_is_held(
    db: Database, database_url: str
) -> None:
    async with scheduling(database_url) as (scheduler, line):
        await fired(scheduler, db, 1, overlap="cancel_previous")
        sweep = Sweep(line, NoDoorbell(), poll=1.0, scheduler=scheduler)
        async with held(db, FIRST):
            await sweep.once()
            rests = await sweep.once()
            assert rests == 1.0  # what is left alone does not make it look all the time


@pytest.mark.parametrize(("overlap", "ended"), [("cancel_previous", True), ("allow", False)])
async def test_a_task_that_is_not_to_be_cancelled_may_be_held_by_anybody(
    db: Database, database_url: str, overlap: str, ended: bool
) -> None:
    async with scheduling(database_url) as (scheduler, _line):
        await fired(scheduler, db, 1, overlap=overlap)
        async with db.session() as tx:
            rows = await tx.fetch("select id from ferryman.tasks")
            if ended:
                await store.cancel(tx, [row["id"] for row in rows])
        await many(db, 1, overlap="cancel_previous")
        async with held(db, "true"):
            assert await scheduler.once() == 2


async def test_what_is_to_be_cancelled_is_held_and_nothing_else(db: Database, database_url: str) -> None:
    async with scheduling(database_url) as (scheduler, line):
        await fired(scheduler, db, 2, overlap="cancel_previous")
        [one, other] = await times(db)

        async with line.transaction() as tx, db.session() as stranger:
            assert await schedules.previous(tx, [one]) == set()
            rows = await stranger.fetch("select schedule from ferryman.tasks for update skip locked")

    assert [row["schedule"] for row in rows] == [other]


async def test_a_schedule_that_was_waited_for_is_put_aside_as_one_that_has_never_failed(database_url: str) -> None:
    async with scheduling(database_url) as (scheduler, _line):
        waited, failed = ids.new_id(), ids.new_id()
        for _ in range(20):
            scheduler._put_off(waited)

        for id in (waited, failed):
            scheduler._leave(id, ValueError("it cannot be fired"))

        assert scheduler._aside[waited].tries == scheduler._aside[failed].tries == 1
