"""Every write of a run compares owner, fence and state: a holder that is not one any more touches nothing (K4, I5)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.ingest import watch
from ferryman.ingest.model import Claimed, Outcome, Verdict
from ferryman.ingest.rules.ending import handed_back
from ferryman.ingest.states import RunState, TaskState
from ferryman.ingest.store import batches, tasks
from ferryman.ingest.store.batches import Birth, Finished
from ferryman.ingest.work.settle import settle
from ferryman.kernel import ids, watchdog
from ferryman.kernel.db import Tx
from tests.ingest.harbour import DAWN, HOUR, Harbour, Server, harbour

MINUTE = timedelta(minutes=1)
END = Verdict(TaskState.SUCCEEDED, RunState.SUCCEEDED)
DONE = Finished("page:2", has_next=True, records=3, requests=1, watermark=None, covered=None, stats={})
TABLES = ("task", "run", "batch", "slice", "source", "cursor", "cursor_event", "quarantine")

Act = Callable[[Tx, Claimed, UUID, UUID], Awaitable[Any]]


async def begin(tx: Tx, task: Claimed, owner: UUID, _batch: UUID) -> Any:
    return await batches.begin(tx, task, Birth(ids.new_id(), 2, "page:2", "two", "{}"), owner=owner, patience=MINUTE)


async def turn(tx: Tx, task: Claimed, owner: UUID, batch: UUID) -> Any:
    following = Birth(ids.new_id(), 2, "page:2", "two", "{}")
    done = replace(DONE, covered=2**62)  # no further than to the end of its slice
    return await batches.turn(tx, task, done, owner=owner, id=batch, patience=MINUTE, following=following)


ACTS: dict[str, Act] = {
    "begin": begin,
    "turn": turn,
    "last": lambda tx, task, owner, batch: batches.turn(tx, task, DONE, owner=owner, id=batch, patience=MINUTE),
    "fail": lambda tx, task, owner, batch: batches.fail(
        tx, task, owner=owner, id=batch, requests=1, reason="x", stats={}
    ),
    "renew": lambda tx, task, owner, _: tasks.renew(
        tx, [task.id], [task.epoch], owner=owner, lease=MINUTE, margin=MINUTE
    ),
    "settle": lambda tx, task, owner, _: settle(
        tx, Outcome(task.id, task.epoch, owner, END, covered=task.cut.upper), queued_max=50
    ),
    "execute": lambda tx, task, owner, _: tasks.execute(tx, task, owner=owner),
}


async def everything(here: Harbour) -> list[Any]:
    return [await here.fetch(f"select t::text from ferryman.ingest_{table} as t order by 1") for table in TABLES]


async def begun(here: Harbour, *, patience: timedelta = MINUTE) -> tuple[Claimed, UUID, UUID]:
    """Return a task that runs, who holds it, and its open batch, which may take so long."""
    await here.plan(since=DAWN, until=DAWN + HOUR)
    ship = here.ship()
    [task] = await ship.claim()
    batch = ids.new_id()
    async with here.app.database.session() as tx:
        await tasks.execute(tx, task, owner=ship.owner)
        await batches.begin(tx, task, Birth(batch, 1, "start", "one", "{}"), owner=ship.owner, patience=patience)
    return task, ship.owner, batch


@pytest.mark.contract("K4", "I5", "I6")
async def test_a_stale_holder_touches_nothing(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        before = await everything(here)
        stale = [
            (replace(task, epoch=task.epoch + 1), owner),
            (replace(task, epoch=task.epoch - 1), owner),
            (task, ids.boot_id()),
        ]
        for name, act in ACTS.items():
            for held, by in stale:
                async with here.app.database.session() as tx:
                    assert not await act(tx, held, by, batch), name
        assert await everything(here) == before


@pytest.mark.contract("K4", "I1")
async def test_what_has_ended_is_touched_by_nobody(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        async with here.app.database.transaction() as tx:
            assert await ACTS["settle"](tx, task, owner, batch)
        before = await everything(here)
        for name, act in ACTS.items():
            async with here.app.database.session() as session:
                assert not await act(session, task, owner, batch), name
        assert await everything(here) == before
        await here.sound()


@pytest.mark.contract("K24", "I6")
async def test_what_is_said_again_because_no_answer_came_changes_nothing(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        before = await everything(here)
        async with here.app.database.session() as tx:
            again = await tasks.execute(tx, task, owner=owner)
            there = await batches.begin(tx, task, Birth(batch, 1, "start", "one", "{}"), owner=owner, patience=MINUTE)
        assert again is not None
        assert there is not None
        assert there["made"] == batch
        assert await everything(here) == before


@pytest.mark.contract("I5")
async def test_a_batch_is_not_begun_when_the_lease_has_passed(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        await here.travel(MINUTE)
        async with here.app.database.session() as tx:
            assert await begin(tx, task, owner, batch) is None


async def two_begun(here: Harbour) -> list[tuple[Claimed, UUID, UUID]]:
    """Return two tasks that run beside each other, each in its second attempt."""
    await here.plan(since=DAWN, until=DAWN + 2 * HOUR)
    ships = [here.ship(), here.ship()]
    for ship in ships:
        [task] = await ship.claim()
        await ship.settle(ship.runner.hand_back(task))
    made: list[tuple[Claimed, UUID, UUID]] = []
    for ship in ships:
        [task] = await ship.claim()
        batch = ids.new_id()
        async with here.app.database.session() as tx:
            await tasks.execute(tx, task, owner=ship.owner)
            birth = Birth(batch, 1, "start", str(task.id), "{}")
            await batches.begin(tx, task, birth, owner=ship.owner, patience=MINUTE / 2)
        made.append((task, ship.owner, batch))
    return made


async def of(here: Harbour, task: Claimed) -> list[Any]:
    return [
        await here.fetch(f"select t::text from ferryman.ingest_{table} as t where {column} = $1 order by 1", task.id)
        for table, column in (("task", "id"), ("run", "task_id"), ("batch", "task_id"), ("slice", "id"))
    ]


@pytest.mark.contract("I1", "I6", "K6")
@pytest.mark.parametrize("name", ["settle", "turn", "fail", "renew"])
async def test_a_write_touches_its_own_rows_alone(database_url: str, name: str) -> None:
    async with harbour(database_url, Server()) as here:
        (mine, owner, batch), (other, _, _) = await two_begun(here)
        first_runs = "select r::text from ferryman.ingest_run as r where attempt = 1 order by 1"
        before, ended = await of(here, other), await here.fetch(first_runs)

        async with here.app.database.transaction() as tx:
            assert await ACTS[name](tx, mine, owner, batch)

        assert await of(here, other) == before
        assert await here.fetch(first_runs) == ended
        await here.sound()


@pytest.mark.contract("I1", "I7", "K6")
async def test_an_end_leaves_a_run_that_has_ended_and_a_slice_that_it_does_not_cover(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, _ = await begun(here)
        ended = "set status = 'PARTIAL', leased_until = null, finished_at = ferryman.clock()"
        await here.fetch(f"update ferryman.ingest_run {ended} where id = $1", task.run_id)  # by hand, and it alone
        _, run, _, slice = await of(here, task)

        async with here.app.database.transaction() as tx:
            assert await settle(tx, Outcome(task.id, task.epoch, owner, handed_back()), queued_max=50)

        assert await here.states("task") == ["QUEUED"]
        assert (await of(here, task))[1::2] == [run, slice]


@pytest.mark.contract("W15", "I5")
async def test_a_neighbour_that_is_late_costs_nobody_else_its_lease(database_url: str) -> None:
    async with harbour(database_url, Server()) as here:
        (mine, owner, batch), (_, _, _) = await two_begun(here)
        async with here.app.database.session() as tx:
            await ACTS["last"](tx, mine, owner, batch)
        await here.travel(MINUTE * 0.6)
        lost = Outcome(mine.id, mine.epoch, owner, Verdict(TaskState.QUEUED, RunState.FAILED))
        async with here.app.database.transaction() as tx:
            assert await tasks.settle(tx, lost, lapsed=True) is None

        assert (await here.tick()).acted("W15") == 1
        assert sorted(await here.states("task")) == ["EXECUTING", "QUEUED"]
        await here.sound()


@pytest.mark.contract("K5", "W15")
async def test_what_a_dead_executor_held_is_begun_anew_although_the_clock_was_set_back(database_url: str) -> None:
    """Its batch may take an hour: it is the lease that ends."""
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here, patience=HOUR)
        rule = watch.set_back(every=MINUTE, lease=MINUTE)

        async def found() -> int:
            async with here.app.database.session() as tx:
                return (await watchdog.tick(tx, [rule])).outcomes[0].found

        before = await found()
        await here.travel(-HOUR)
        then = [await found(), await found()]
        [[same]] = await here.fetch(
            "select task.leased_until = run.leased_until from ferryman.ingest_task as task"
            " join ferryman.ingest_run as run on run.task_id = task.id"
        )
        async with here.app.database.session() as tx:
            still = await begin(tx, task, owner, batch)
        await here.travel(MINUTE * 1.1)

        assert (before, then, same, still is not None) == (0, [1, 0], True, True)
        assert (await here.tick()).acted("W15") == 1
        assert await here.states("task") == ["QUEUED"]
        await here.sound()
