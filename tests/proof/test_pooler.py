"""K24: through a real PgBouncer in transaction mode, every server connection shared by all (chaos has it too: `--pooler`)."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from chaos.pooler import POOL_SIZE, Pooler
from ferryman import Ferryman
from ferryman.kernel.pool import Line
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.ingest.harbour import prepare
from tests.proof.conftest import Tell
from tests.proof.errands import Gate, built, everything, written_once
from tests.surfaces import ferry

# A sink that may find its table without any record of a page has three statements, under one note.
PREPARED = """
select regexp_replace(name, '_(look|fresh|known)$', '') as name from pg_prepared_statements where name ~ '^ferryman_page_'
"""
HOURS = 6
# So long is a table locked, and so long no statement of ours waits: a line gives up a lock after 10 s.
LOCKED_SECONDS, WAITS_SECONDS = 27.0, 12.0
JOBS = 400
# What is locked, and where a statement meets it: before it begins, and in its midst.
LOCKS = {
    "tasks": "select 'ferryman.tasks' as name",
    "the days of the log": "select relid::text as name from pg_partition_tree('ferryman.events') where isleaf",
}
WAITING = """
select extract(epoch from clock_timestamp() - query_start)::float8 as seconds
from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""
CLAIMS = """
select count(*) filter (where to_state = 'running') as claims,
       count(*) filter (where from_state = 'running' and to_state = 'ready' and reason_code is not null) as lost
from ferryman.events
where kind = 'task'
"""
# Whether a server that had both is left with the statements and with the note of them, and by what pages are then refused.
LEFT: dict[str, tuple[bool, bool, set[str | None]]] = {
    "deallocate all": (False, True, {"26000"}),
    "reset all": (True, False, set()),
    "deallocate all; reset all": (False, False, set()),
}


@asynccontextmanager
async def pooled(url: str, folder: Path) -> AsyncIterator[str]:
    """Put a pooler before a database."""
    pooler = Pooler(folder / "pooler", rotates=True)
    try:
        address = pooler.start(url)
        async with every_server(address):
            pass  # from now on there are as many as there can be
        yield address
    finally:
        pooler.stop()


@pytest.mark.contract("K24", "K2")
async def test_everything_works_through_a_pooler_that_gives_each_transaction_another_server(
    database_url: str, ship: Launch, ground: Path, tell: Tell
) -> None:
    async with pooled(database_url, ground) as url:
        held = await cargo.load(url, 100, hold=0.02)
        ships = [ship(url).start(FERRYMAN_LISTEN_URL=database_url) for _ in range(2)]
        await ships[0].seen("start")
        async with Ferryman(url, listen_url=database_url) as app:
            app.declare("job", backoff=0.05)
            named = await asyncio.gather(
                *(app.tasks.create("job", {"key": f"n{n}"}, idempotency_key=f"n{n // 2}-{n % 2}") for n in range(40))
            )
            assert [await each.result(timeout=60) for each in named] == [f"n{n}" for n in range(40)]
        await judge.all_ended(database_url)
        doctor = await asyncio.to_thread(ferry.run, "doctor", "--json", url=url)
        servers = await judge.read(
            database_url,
            "select count(*) as n from pg_stat_activity"
            " where datname = current_database() and application_name like 'ferryman%'",
        )

    lines = [line for each in ships for line in each.lines()]
    await judge.judge(database_url, [*held, *(str(each.id) for each in named)], lines)
    readings = {each["name"]: each for each in doctor.json["readings"]}
    assert readings["pooler"]["verdict"] == "note"
    assert all("Traceback" not in each.output() for each in ships)
    assert await cargo.broken(database_url) == []
    tell(f"PgBouncer: 140 tasks by two workers; {servers[0]['n']} connections of the pooler and ours")


@asynccontextmanager
async def every_server(url: str) -> AsyncIterator[list[Any]]:
    """Hold all server connections of the pooler at once, each in a transaction."""
    async with AsyncExitStack() as stack:
        held = []
        for _ in range(POOL_SIZE):
            client = await asyncpg.connect(url, statement_cache_size=0)
            stack.push_async_callback(client.close)
            await client.execute("begin")
            stack.push_async_callback(client.execute, "commit")
            held.append(client)
        yield held


async def kept(client: Any, names: set[str]) -> tuple[bool, bool]:
    """Tell whether a server has the statements of a sink, and whether it has the note of them."""
    there = {row["name"] for row in await client.fetch(PREPARED)}
    notes = [await client.fetchval("select current_setting($1, true)", f"ferryman_pages.{name}") for name in names]
    return bool(there), "prepared" in notes


@pytest.mark.contract("K24", "I6")
@pytest.mark.parametrize("said", LEFT)
async def test_windows_turns_and_batches_end_right_whatever_another_client_leaves_of_what_servers_have_prepared(
    said: str, database_url: str, ground: Path, tell: Tell
) -> None:
    statements, notes, refused = LEFT[said]
    gate = Gate()
    async with pooled(database_url, ground) as url:
        app, sink = built(url, database_url, gate, hours=HOURS)
        async with app:
            await prepare(app.database)
            async with app.worker():
                for hour in (0, 1, 2):
                    await everything(app, hour)
                gate.close()
                async with asyncio.TaskGroup() as group:
                    group.create_task(everything(app, 3))
                    await gate.reached()
                    async with every_server(url) as servers:
                        names = {row["name"] for each in servers for row in await each.fetch(PREPARED)}
                        before = [await kept(each, names) for each in servers]
                        for each in servers:
                            await each.execute(said)
                        after = [await kept(each, names) for each in servers]
                    gate.open()
                for hour in (4, 5):
                    await everything(app, hour)

    assert before.count((True, True)) > POOL_SIZE / 4
    assert {after[n] for n, each in enumerate(before) if each == (True, True)} == {(statements, notes)}
    assert set(sink.refusals) == refused
    await written_once(database_url, hours=HOURS)
    tell(
        f"PgBouncer, {said}: {before.count((True, True))} of {len(before)} servers had a statement of the sink;"
        f" {len(sink.refusals)} of 3 windows were then refused the short way, and took the longer one"
    )


LEVELS = {"serializable": "serializable", "repeatable": "repeatable read"}


@pytest.mark.contract("K24")
@pytest.mark.parametrize("level", LEVELS)
async def test_work_is_read_committed_through_a_pooler_whatever_the_default_is(
    level: str, database_url: str, ground: Path, caplog: pytest.LogCaptureFixture
) -> None:
    direct = await asyncpg.connect(database_url)
    name = urlsplit(database_url).path.removeprefix("/")
    await direct.execute(f"alter database {name} set default_transaction_isolation = '{LEVELS[level]}'")
    await direct.close()
    runs: list[int] = []
    async with pooled(database_url, ground) as url, crew(url, database_url, runs) as app, crew(url, database_url, runs):
        async with app.database.session() as session:
            shown = [*await session.fetch("show transaction_isolation")]
        async with app.database.transaction() as tx:
            shown += await tx.fetch("show transaction_isolation")
        line = Line(url)
        shown += await line.fetch("show transaction_isolation")
        async with line.transaction() as tx:
            shown += await tx.fetch("show transaction_isolation")
        await line.close()
        made = await app.tasks.create_many("job", [{"n": n} for n in range(JOBS)])
        assert await asyncio.gather(*(each.result(timeout=120) for each in made)) == list(range(JOBS))
        doctor = await asyncio.to_thread(ferry.run, "doctor", "--json", url=url)

    assert [row["transaction_isolation"] for row in shown] == ["read committed"] * 4
    assert sorted(runs) == list(range(JOBS))
    assert [each.getMessage() for each in caplog.records if "serialize" in each.getMessage()] == []
    assert {each["name"]: each["verdict"] for each in doctor.json["readings"]}["isolation"] == "note"
    assert await cargo.broken(database_url) == []


async def waited(url: str, seconds: float) -> list[float]:
    """Let so much time pass; return for each statement that waits for a lock then how long it has."""
    await asyncio.sleep(seconds)  # what nobody gives up shows only in time
    return [row["seconds"] for row in await judge.read(url, WAITING)]


@asynccontextmanager
async def crew(url: str, listen_url: str, runs: list[int]) -> AsyncIterator[Ferryman]:
    """Run a worker of a job; what it runs is written down."""
    app = Ferryman(url, listen_url=listen_url, worker={"poll": "0.1s", "lease": "40s", "concurrency": 10})

    @app.task
    async def job(n: int) -> int:
        runs.append(n)
        await asyncio.sleep(0.1)
        return n

    async with app, app.worker():
        yield app


@pytest.mark.contract("K24", "K5")
@pytest.mark.parametrize("what", LOCKS)
async def test_a_table_that_somebody_locks_leaves_no_statement_waiting_and_no_claim_that_nobody_holds(
    what: str, database_url: str, ground: Path, tell: Tell
) -> None:
    runs: list[int] = []
    async with pooled(database_url, ground) as url, crew(url, database_url, runs) as app, crew(url, database_url, runs):
        made = await app.tasks.create_many("job", [{"n": n} for n in range(JOBS)])
        await made[0].result(timeout=60)

        locker = await asyncpg.connect(database_url)
        async with locker.transaction():
            for row in await locker.fetch(LOCKS[what]):
                await locker.execute(f"lock table {row['name']} in access exclusive mode")
            waiting = await waited(database_url, LOCKED_SECONDS)
        await locker.close()
        freed = time.monotonic()

        assert await asyncio.gather(*(each.result(timeout=120) for each in made)) == list(range(JOBS))
        seconds = time.monotonic() - freed
    [told] = await judge.read(database_url, CLAIMS)
    tell(
        f"PgBouncer, {what} locked for {LOCKED_SECONDS:g} s: {len(waiting)} statements waited at its end, the oldest for"
        f" {max(waiting, default=0):.1f} s; {told['claims'] - len(runs)} of {told['claims']} claims were nobody's, and"
        f" {told['lost']} attempts were lost; all ended {seconds:.1f} s later"
    )
    assert max(waiting, default=0) < WAITS_SECONDS
    assert (told["claims"], told["lost"], len(runs)) == (JOBS, 0, JOBS)
    assert await cargo.broken(database_url) == []
