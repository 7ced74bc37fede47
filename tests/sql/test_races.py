"""Two connections, one task: whoever comes second sees what the first has done, and there is one winner."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Database, Line
from ferryman.tasks import store
from ferryman.tasks.model import Outcome
from ferryman.tasks.rules import request
from ferryman.tasks.states import CANCELLED, FAILED, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant, state_of
from tests.patience import PATIENCE_SECONDS
from tests.sql.moves import EPOCH, LANE, LEASE, MARGIN, OWNER, SECOND, SOUND, outcome, turn

WAITING = """
select count(*) as count from pg_locks where not granted and pid = $1
"""


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


async def begin_and_wait(db: Database, second: Line, act: Any) -> "asyncio.Task[Any]":
    """Start an act on the second connection, and return when it waits for a lock that the first holds."""
    [row] = await second.fetch("select pg_backend_pid() as pid")
    running = asyncio.create_task(act)
    async with db.session() as look:
        while not running.done():
            [waits] = await look.fetch(WAITING, row["pid"])
            if waits["count"]:
                break
    return running


async def log_of(db: Database, task: UUID) -> list[tuple[str, str]]:
    async with db.session() as tx:
        rows = await tx.fetch("select from_state, to_state from ferryman.events where subject = $1 order by id", task)
    return [(row["from_state"], row["to_state"]) for row in rows]


async def settle_one(tx: Tx, told: Outcome) -> list[Any]:
    rows, _busy = await store.settle(tx, [told])
    return rows


async def planted(db: Database, *args: Any, **columns: Any) -> UUID:
    async with db.session() as tx:
        return await plant(tx, TASK, *args, **columns)


async def state(db: Database, task: UUID) -> str:
    async with db.session() as tx:
        return await state_of(tx, task)


@pytest.mark.contract("T14", "K4", "R4")
async def test_a_cancel_that_waited_for_a_claim_cancels_what_runs_now(db: Database, second: Line) -> None:
    task = await planted(db, READY)
    async with db.transaction() as first:
        await turn(first, lanes=[LANE])
        cancelling = await begin_and_wait(db, second, store.cancel(second, [task]))

    rows = await cancelling

    assert [row["from_state"] for row in rows] == [RUNNING]
    assert await log_of(db, task) == [("ready", "running"), ("running", "cancelled")]


@pytest.mark.contract("T14", "K4", "R4")
@pytest.mark.parametrize("by", ["turn", "settle"])
async def test_a_result_that_meets_a_cancel_is_stale_once_that_is_done(db: Database, second: Line, by: str) -> None:
    task = await planted(db, RUNNING, **SOUND[RUNNING])
    settle: Any = turn if by == "turn" else settle_one
    async with db.transaction() as first:
        await store.cancel(first, [task])
        meanwhile = await settle(second, outcome(task, SUCCEEDED))
    answer = await settle(second, outcome(task, SUCCEEDED))

    assert meanwhile == (([], []) if by == "turn" else [])
    assert answer == (([], [task]) if by == "turn" else [])
    assert await log_of(db, task) == [("running", "cancelled")]


@pytest.mark.contract("T14", "R4")
async def test_a_cancel_that_waited_for_a_result_finds_an_ended_task(db: Database, second: Line) -> None:
    task = await planted(db, RUNNING, **SOUND[RUNNING])
    async with db.transaction() as first:
        await turn(first, outcome(task, SUCCEEDED))
        cancelling = await begin_and_wait(db, second, store.cancel(second, [task]))

    assert await cancelling == []
    assert await log_of(db, task) == [("running", "succeeded")]


@pytest.mark.contract("K5", "K25", "R4")
@pytest.mark.parametrize("by", ["turn", "settle"])
async def test_a_row_that_somebody_writes_holds_up_no_other_and_is_named_as_busy(
    db: Database, second: Line, by: str
) -> None:
    locked, free = [await planted(db, RUNNING, **SOUND[RUNNING]) for _ in range(2)]
    told = [outcome(locked, SUCCEEDED), outcome(free, SUCCEEDED)]
    async with db.transaction() as first:
        await store.renew(first, [locked], [EPOCH], owner=OWNER, lease=LEASE, margin=MARGIN)
        stale: Any
        if by == "turn":
            _claimed, stale, busy = await store.turn(
                second, told, owner=OWNER, lanes=[], names=[], kinds=[], lease=LEASE, margin=MARGIN
            )
        else:
            rows, busy = await store.settle(second, told)
            stale = {each.id for each in told} - {row["id"] for row in rows} - busy

    assert (busy, stale) == ({locked}, set())
    assert (await state(db, free), await state(db, locked)) == (SUCCEEDED, RUNNING)
    await (turn(second, told[0]) if by == "turn" else store.settle(second, told[:1]))
    assert await state(db, locked) == SUCCEEDED


@pytest.mark.contract("W13", "K5", "R4")
async def test_a_reaper_leaves_a_task_that_is_being_renewed(db: Database, second: Line) -> None:
    task = await planted(db, RUNNING, **SOUND[RUNNING], started_at=timedelta(0))
    async with db.transaction() as first:
        await store.renew(first, [task], [EPOCH], owner=OWNER, lease=LEASE, margin=MARGIN)
        reaped, _busy = await store.settle(second, [outcome(task, FAILED)], lapsed=True)

    assert reaped == []
    assert await state(db, task) == RUNNING


@pytest.mark.contract("W13", "T7", "R4")
async def test_a_renewal_does_not_wait_for_the_reaper_and_is_refused_after_it(db: Database, second: Line) -> None:
    task = await planted(db, RUNNING, **SOUND[RUNNING])
    async with db.transaction() as first:
        await store.settle(first, [outcome(task, READY)], lapsed=True)
        meanwhile = await store.renew(second, [task], [EPOCH], owner=OWNER, lease=LEASE, margin=MARGIN)

    assert meanwhile == {task: False}
    assert await store.renew(second, [task], [EPOCH], owner=OWNER, lease=LEASE, margin=MARGIN) == {}


@pytest.mark.contract("W13", "K4", "R4")
async def test_two_reapers_reap_once(db: Database, second: Line) -> None:
    task = await planted(db, RUNNING, **SOUND[RUNNING])
    async with db.transaction() as first:
        await store.settle(first, [outcome(task, READY)], lapsed=True)
        meanwhile, _busy = await store.settle(second, [outcome(task, READY)], lapsed=True)
    afterwards, _busy = await store.settle(second, [outcome(task, READY)], lapsed=True)

    assert (meanwhile, afterwards) == ([], [])
    assert await log_of(db, task) == [("running", "ready")]


@pytest.mark.contract("T21", "R4")
async def test_an_expiry_that_waited_for_a_claim_leaves_what_runs_now(db: Database, second: Line) -> None:
    task = await planted(db, READY, ends_at=SECOND * 3600)
    async with db.transaction() as first:
        await turn(first, lanes=[LANE])
        await first.fetch("update ferryman.tasks set ends_at = ferryman.clock() where id = $1", task)
        expiring = await begin_and_wait(db, second, store.cancel(second, [task], expired=True))

    assert await expiring == []
    assert await state(db, task) == RUNNING


@pytest.mark.contract("T14", "K5", "R4")
async def test_a_claim_skips_a_task_that_is_being_cancelled(db: Database, second: Line) -> None:
    task = await planted(db, READY)
    async with db.transaction() as first:
        await store.cancel(first, [task])

        claimed, _stale = await turn(second, lanes=[LANE])

    assert claimed == []
    assert await state(db, task) == CANCELLED


@pytest.mark.contract("K5", "R4")
async def test_a_reclaim_passes_over_what_is_being_written_and_says_so(db: Database, second: Line) -> None:
    task, free = await planted(db, RUNNING, **SOUND[RUNNING]), await planted(db, RUNNING, **SOUND[RUNNING])
    async with db.transaction() as first:
        await turn(first, outcome(task, SUCCEEDED))
        during = await asyncio.wait_for(store.reclaim(second, owner=OWNER, held=[]), PATIENCE_SECONDS)

    assert (during, await store.reclaim(second, owner=OWNER, held=[])) == ((1, 1), (0, 0))
    assert [await state(db, each) for each in (task, free)] == [SUCCEEDED, READY]


@pytest.mark.contract("T12", "K11", "R4")
async def test_a_create_that_waited_for_the_same_key_makes_nothing(db: Database, second: Line) -> None:
    one, other = (
        request.draft(
            tenant="default", name="mail", payload="{}", defaults=request.Defaults(), idempotency_key="k"
        ).task
        for _ in range(2)
    )
    async with db.transaction() as first:
        await store.create(first, [one], ends_after=LEASE)
        creating = await begin_and_wait(db, second, store.create(second, [other], ends_after=LEASE))

    assert await creating == []
    assert [(hit, met.id) for _place, hit, met in await store.existing(second, [other])] == [
        ("idempotency_key", one.id)
    ]
