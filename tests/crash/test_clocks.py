"""K5: the database's clock jumps while a worker holds work, ahead and back: each task ends once, and the worker goes on.

Some tests move the one function that statements ask for the time, and nothing else: the watchdog's ticks are wall time, and to
them no time has passed. Others put into the tables what a step of the wall leaves behind: ticks, graces and leases.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from ferryman import Ferryman, Handle
from ferryman.kernel.pool import Database
from ferryman.testing import travel
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.patience import PATIENCE_SECONDS

HELD = 4


class Held(NamedTuple):
    """Tasks in the hands of a worker, until they are let go."""

    app: Ferryman
    tasks: Sequence[Handle]
    begun: asyncio.Semaphore
    go: asyncio.Event


@asynccontextmanager
async def holding(url: str) -> AsyncIterator[Held]:
    """Let a worker of this process hold tasks, and wait until it has begun all of them."""
    app = Ferryman(url, worker={"poll": "50ms", "lease": "2s", "lease_sweep_seconds": 0.1}, tasks={"max_retries": 5})
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    @app.task(backoff=0.05)
    async def held(n: int) -> int:
        begun.release()
        await go.wait()
        return n

    async with app, app.worker():
        tasks = await app.tasks.create_many(held, [{"n": n} for n in range(HELD)])
        for _ in tasks:
            await begun.acquire()
        yield Held(app, tasks, begun, go)


async def jumped(url: str, by: timedelta) -> list[tuple[str, int]]:
    """Let the clock jump while a worker holds work; wait for its end, and return states and attempts."""
    async with holding(url) as (app, tasks, begun, go):
        async with app.database.session() as tx:
            await travel(tx, by)
        if by > timedelta(0):
            for _ in tasks:  # every lease has ended, so every task is begun anew
                await begun.acquire()
        else:
            await renewed(url)
        go.set()
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in tasks] == list(range(HELD))
    rows = await judge.read(url, "select state, attempt from ferryman.tasks order by id")
    return [(row["state"], row["attempt"]) for row in rows]


async def renewed(url: str) -> None:
    """Wait until every lease was renewed by the new time."""
    query = "select count(*) as n from ferryman.tasks where leased_until < ferryman.clock() + interval '3 s'"
    await judge.nothing_of(url, f"{query} having count(*) < $1", HELD)


@pytest.mark.contract("K5", "K4", "R2")
@pytest.mark.parametrize(
    ("by", "attempts"), [(timedelta(hours=1), 2), (timedelta(hours=-1), 1)], ids=["an hour ahead", "an hour back"]
)
async def test_a_clock_that_jumps_ends_no_task_twice(database_url: str, by: timedelta, attempts: int) -> None:
    found = await asyncio.wait_for(jumped(database_url, by), PATIENCE_SECONDS)

    assert found == [("succeeded", attempts)] * HELD
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K5", "R2")
async def test_what_a_dead_worker_held_is_begun_anew_although_the_clock_was_set_back(
    database_url: str, db: Database, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, HELD, gate=str(gate))
    dead = ship(database_url).start()
    await dead.seen("start", count=HELD)
    dead.kill()
    async with db.session() as tx:
        await travel(tx, timedelta(hours=-1))
    gate.touch()

    other = ship(database_url).start(FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS="0.3")
    await judge.all_ended(database_url)

    assert len(other.lines("start")) == HELD
    await judge.judge(database_url, held, [*dead.lines(), *other.lines()])
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("T10", "T11", "R2")
async def test_a_clock_that_jumps_under_workers_fires_every_time_of_a_schedule_once(database_url: str) -> None:
    app = Ferryman(database_url, worker={"poll": "50ms", "lease": "60s"})

    @app.task
    async def hourly() -> None: ...

    async with asyncio.timeout(PATIENCE_SECONDS), app, app.worker(), app.worker():
        made = await app.schedules.create(hourly, every=3600)
        first = made.schedule.next_run_at
        assert first is not None
        found = []
        for hours in (1, -1, 1, -3, 3, 1, -1):
            async with app.database.session() as tx:
                await travel(tx, timedelta(hours=hours))
            await swept(app)
            found.append([each.fire_time for each in await made.firings()])

    second = first + timedelta(hours=1)
    assert found == [[first]] * 5 + [[second, first]] * 2
    assert await cargo.broken(database_url) == []


async def swept(app: Ferryman) -> None:
    """Wait until what is due now was looked for twice, so once as a whole, and until nothing is due and all has ended."""
    for _ in range(2):
        async with app.database.session() as tx:
            [row] = await tx.fetch("select ferryman.clock() + interval '50 ms' as soon")
        await (await app.tasks.create("hourly", at=row["soon"])).result()
    query = (
        "select id from ferryman.tasks where finished_at is null"
        " union all select id from ferryman.schedules where next_run_at <= ferryman.clock()"
    )
    async with app.database.session() as tx:
        while await tx.fetch(query):  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.05)


# The clock of a server cannot be set in a test. This is what one that went an hour ahead leaves when it is right again: a tick,
# the grace that the jump gave, and leases that were given or renewed meanwhile.
LEFT = (
    "update ferryman.watchdog set ticked_at = clock_timestamp() + interval '1 hour',"
    " grace_until = clock_timestamp() + interval '1 hour 2 s'",
    "update ferryman.tasks set leased_until = leased_until + interval '1 hour'",
)


@pytest.mark.contract("K5", "K24", "R2")
async def test_what_a_dead_worker_held_is_begun_anew_although_the_clock_went_ahead_and_back(
    database_url: str, db: Database, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, HELD, gate=str(gate))
    dead = ship(database_url).start()
    await dead.seen("start", count=HELD)
    dead.kill()
    async with db.session() as tx:
        for each in LEFT:
            await tx.fetch(each)
    gate.touch()

    other = ship(database_url).start(FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS="0.3")
    await judge.all_ended(database_url)

    assert len(other.lines("start")) == HELD
    await judge.judge(database_url, held, [*dead.lines(), *other.lines()])
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K5", "K24", "K4", "R2")
async def test_a_living_worker_keeps_its_work_when_the_clock_goes_ahead_and_back(database_url: str) -> None:
    async with holding(database_url) as (app, tasks, _, go):
        async with app.database.session() as tx:
            for each in LEFT:
                await tx.fetch(each)
        await renewed(database_url)
        await put_right(database_url)
        go.set()
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in tasks] == list(range(HELD))
    rows = await judge.read(database_url, "select state, attempt from ferryman.tasks")
    assert {(row["state"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    assert await cargo.broken(database_url) == []


async def put_right(url: str) -> None:
    """Wait until a watchdog has ticked by the time that is right."""
    query = "select from ferryman.watchdog where greatest(ticked_at, grace_until) < clock_timestamp()"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await judge.read(url, query):  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.05)


@pytest.mark.contract("K24", "K10")
async def test_a_transaction_that_a_stranger_leaves_open_holds_up_no_work(database_url: str) -> None:
    app = Ferryman(database_url, worker={"poll": "50ms", "lease": "60s"})

    @app.task
    async def echo(n: int) -> int:
        return n

    async with app, app.worker(), app.database.transaction() as stranger:
        # It has a number and a snapshot, as old as the rest of this test: readers of the log wait for it, work does not.
        await stranger.fetch("create table public.scratch (n integer)")
        made = await app.tasks.create_many(echo, [{"n": n} for n in range(200)])
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in made] == list(range(200))
        one = await app.tasks.create(echo, n=7)
        assert await one.result(timeout=PATIENCE_SECONDS) == 7
    assert await cargo.broken(database_url) == []
