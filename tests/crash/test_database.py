"""K24: the database goes away under load and comes back; nothing acknowledged is lost, nobody has to be started again."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from ferryman import Ferryman
from tests.crash import cargo, judge, test_turns
from tests.crash.conftest import Launch
from tests.crash.sea import Sea
from tests.crash.yard import LEASE_SECONDS, Line, Ship, until
from tests.patience import PATIENCE_SECONDS

KEYS = 300
PLACES = 8  # of a worker (yard.TERMS)
# How the database goes: as by a loss of power, by an orderly restart, and by a hasty one.
GOES = {"killed": signal.SIGKILL, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


@pytest.fixture
async def sea(tmp_path: Path) -> AsyncIterator[Sea]:
    made = Sea(tmp_path / "sea")
    try:
        yield await made.begin()
    finally:
        made.end()


@pytest.fixture
def enough(tmp_path: Path) -> Path:
    """A file that tells the producer to go on no longer: how fast it is must not decide what a database does under load."""
    return tmp_path / "enough"


async def acknowledged(producer: Ship, more: int) -> Line:
    """Wait until so many more were acknowledged."""
    return await producer.seen("ok", count=len(producer.lines("ok")) + more)


async def at_work(ship: Launch, sea: Sea) -> list[Ship]:
    """Start workers, and wait until they work: whoever opens an app while its database goes away is told so."""
    workers = [ship(sea.url, agents=True).start() for _ in range(2)]
    for each in workers:
        await each.seen("working")
    return workers


async def judged(sea: Sea, producer: Ship, workers: list[Ship]) -> None:
    """Everything acknowledged ended once; each process is the one that was started, and was never refused for good."""
    lines = [line for each in workers for line in each.lines()]
    acked = {line["key"]: line["task"] for line in producer.lines("ok")}
    await judge.judge(sea.url, acked.values(), lines)
    rows = await judge.read(sea.url, "select id::text, idempotency_key as key from ferryman.tasks")
    assert sorted((row["key"], row["id"]) for row in rows) == sorted(acked.items())
    refused = {(line["code"], line["retryable"]) for line in producer.lines("refused")}
    assert refused <= {("DATABASE_UNAVAILABLE", True)}
    for each in [producer, *workers]:
        assert len(each.lines("born")) == 1
        assert "Traceback" not in each.output(), each.output()
    assert all(each.alive() for each in workers)
    await each_works_on(sea, workers)
    assert await cargo.broken(sea.url) == []


async def each_works_on(sea: Sea, workers: list[Ship], *, agents: bool = True) -> None:
    """Give them more to hold than all but one can: whoever lived on and claims nothing would leave some of it in line.

    So it is with tasks, and with turns, which another pump claims, where they have `agents`.
    """
    gate = workers[0].history_file.parent / "gate"
    count = PLACES * (len(workers) - 1) + 1
    tasks = set(await cargo.load(sea.url, count, gate=str(gate)))
    turns = set(await test_turns.send(sea.url, count, f"1 {gate}", profile="oar")) if agents else set()

    def begun(worker: Ship) -> bool:
        started = {line.get("task") for line in worker.lines("start")}
        pulled = {line["turn"] for line in worker.lines("stroke")}
        return not tasks.isdisjoint(started) and (not agents or not turns.isdisjoint(pulled))

    for each in workers:
        await until(partial(begun, each), "each of them to begin what it can after all this", also=each.output)
    gate.touch()
    await judge.all_ended(sea.url)
    await test_turns.all_ended(sea.url)


@pytest.mark.contract("K24", "K1")
@pytest.mark.parametrize("goes", GOES)
async def test_a_database_killed_under_load_loses_nothing_and_needs_nobody(
    goes: str, sea: Sea, ship: Launch, enough: Path
) -> None:
    workers = await at_work(ship, sea)
    producer = ship(sea.url, role="producer", count=KEYS, until=str(enough)).start()

    for _ in range(3):
        await acknowledged(producer, KEYS // 5)
        await sea.kill(GOES[goes])
        await asyncio.to_thread(sea.start)
    await acknowledged(producer, 1)
    enough.touch()
    await producer.seen("stopped")
    await judge.all_ended(sea.url)

    assert sea.kills == 3
    await judged(sea, producer, workers)  # how soon the first succeeds, chaos measures (R3)


@pytest.mark.contract("K24")
async def test_killed_backends_take_nothing_with_them(sea: Sea, ship: Launch, enough: Path) -> None:
    workers = await at_work(ship, sea)
    producer = ship(sea.url, role="producer", count=KEYS, until=str(enough)).start()

    for _ in range(2):
        await acknowledged(producer, KEYS // 4)
        await sea.kill_a_backend()
    await acknowledged(producer, 1)
    enough.touch()
    await producer.seen("stopped")
    await judge.all_ended(sea.url)

    assert sea.kills == 2
    await judged(sea, producer, workers)


@pytest.mark.contract("K24")
async def test_a_storm_of_terminated_connections_is_weathered(sea: Sea, ship: Launch, enough: Path) -> None:
    workers = await at_work(ship, sea)
    producer = ship(sea.url, role="producer", count=KEYS, until=str(enough)).start()

    terminated = 0
    for _ in range(20):
        await acknowledged(producer, 10)
        terminated += await sea.terminate_all()
    enough.touch()
    await producer.seen("stopped")
    await judge.all_ended(sea.url)

    assert terminated >= 100
    await judged(sea, producer, workers)


@pytest.mark.contract("K24", "W13")
async def test_after_an_outage_living_workers_are_heard_before_their_leases_are_judged(
    sea: Sea, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(sea.url, 4, gate=str(gate))
    holder = ship(sea.url).start()
    await holder.seen("start", count=4)
    other = ship(sea.url).start()
    await other.seen("working")
    await a_grace_may_be_given(sea.url)

    await sea.kill()
    await asyncio.sleep(LEASE_SECONDS * 1.5)  # the outage itself, in which every lease ends
    await asyncio.to_thread(sea.start)
    await renewed(sea.url, 4 + await renewals(sea.url))  # past the grace period
    gate.touch()
    await judge.all_ended(sea.url)

    await judge.judge(sea.url, held, [*holder.lines(), *other.lines()])
    assert other.lines("start") == []
    rows = await judge.read(sea.url, "select distinct epoch, attempt from ferryman.tasks")
    assert [tuple(row) for row in rows] == [(1, 1)]


@pytest.mark.contract("K24", "T18")
async def test_whoever_waits_for_a_result_gets_it_after_the_database_was_started_anew(sea: Sea) -> None:
    app, go = Ferryman(sea.url, worker={"poll": "0.1s", "lease": "60s"}), asyncio.Event()

    @app.task
    async def held() -> str:
        await go.wait()
        return "done"

    async with app, app.worker():
        waiting = [
            asyncio.ensure_future((await app.tasks.create(held)).result(timeout=PATIENCE_SECONDS)) for _ in range(20)
        ]
        await sea.kill()
        go.set()
        await asyncio.to_thread(sea.start)

        assert await asyncio.gather(*waiting) == ["done"] * 20
    assert await cargo.broken(sea.url) == []


@pytest.mark.contract("K24")
async def test_statements_that_time_out_are_repeated_until_they_pass(database_url: str, ship: Launch) -> None:
    held = await cargo.load(database_url, 30, hold=0.2)
    # The worker's statements alone: whoever judges repeats nothing.
    worker = ship(f"{database_url}&statement_timeout=200ms").start(FERRYMAN_WORKER__LEASE="300s")
    await worker.seen("start", count=8)

    blocker = await asyncpg.connect(database_url)
    async with blocker.transaction():
        await blocker.execute("lock table ferryman.tasks in access exclusive mode")
        await until(lambda: "cannot be used" in worker.output(), "a statement that timed out", also=worker.output)
        await until(lambda: "could not be renewed" in worker.output() or len(worker.lines("end")) >= 8, "all to wait")
    await blocker.close()
    await judge.all_ended(database_url)

    await judge.judge(database_url, held, worker.lines())
    assert len(worker.lines("start")) == len(held)
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K24", "W13")
@pytest.mark.parametrize("mode", ["access exclusive", "share"])  # VACUUM FULL, CLUSTER; an index made in haste
async def test_a_table_that_was_locked_for_longer_than_a_lease_costs_a_task_no_more_than_an_attempt(
    mode: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, 4, gate=str(gate))
    holder = ship(database_url).start()
    await holder.seen("start", count=4)
    other = ship(database_url).start()
    await other.seen("working")

    blocker = await asyncpg.connect(database_url)
    async with blocker.transaction():
        await blocker.execute(f"lock table ferryman.tasks in {mode} mode")
        await asyncio.sleep(2 * LEASE_SECONDS)  # the lock itself: every lease ends under it
    await blocker.close()
    gate.touch()
    await judge.all_ended(database_url)

    await judge.judge(database_url, held, [*holder.lines(), *other.lines()])
    rows = await judge.read(database_url, "select max(attempt) as attempts from ferryman.tasks")
    assert rows[0]["attempts"] <= 2


@pytest.mark.contract("K24", "K5")
async def test_handlers_that_hold_every_connection_of_the_pool_starve_nobody(database_url: str) -> None:
    free, held = asyncio.Event(), asyncio.Semaphore(0)
    app = Ferryman(database_url, pool={"size": 2}, worker={"lease": "2s", "poll": "0.1s", "lease_sweep_seconds": 0.2})

    @app.task
    async def hog() -> None:
        async with app.database.session():
            held.release()
            await free.wait()

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app, cargo.client(database_url) as client:
        client.declare("hog")
        client.declare("quick")
        async with app.worker():
            hogs = await client.tasks.create_many("hog", [{}, {}])
            await asyncio.gather(*(held.acquire() for _ in hogs))
            others = await client.tasks.create_many("quick", [{"n": n} for n in range(50)])
            assert [await each.result(timeout=PATIENCE_SECONDS) for each in others] == list(range(50))
            # Two leases long they hold all there is, and are renewed all the same.
            await renewed(database_url, 7)
            free.set()
            assert [await each.result(timeout=PATIENCE_SECONDS) for each in hogs] == [None, None]

    rows = await judge.read(database_url, "select distinct epoch, attempt from ferryman.tasks")
    assert [tuple(row) for row in rows] == [(1, 1)]
    assert await cargo.broken(database_url) == []


async def a_grace_may_be_given(url: str) -> None:
    """Wait until watchdogs have ticked for a lease after the last one: the first worker of a new database gives one."""
    query = "select ticked_at >= greatest(steady_since, grace_until) + $1::interval from ferryman.watchdog"
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await connection.fetchval(query, timedelta(seconds=LEASE_SECONDS)):  # noqa: ASYNC110 - the sign is a row
                await asyncio.sleep(0.01)
    finally:
        await connection.close()


async def renewals(url: str) -> int:
    """Return how often that lease was renewed that was renewed least."""
    query = "select min(lease_count) as least from ferryman.tasks where state = 'running'"
    [row] = await judge.read(url, query)
    return int(row["least"])


async def renewed(url: str, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await renewals(url) < count:  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.1)
