"""K24, W23: whose process stands still in the middle of a statement loses its connection, and nobody else does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from ferryman.ingest.work.crew import Terms
from ferryman.ingest.work.executor import pool_of_runs
from ferryman.kernel import errors, watchdog
from ferryman.kernel.db import SCHEMA
from ferryman.kernel.pool import LINE_SETTINGS, Database, Line
from tests.patience import PATIENCE_SECONDS
from tests.watchdog.ward import HOUR

NONE = timedelta(0)
WAITS = "select from pg_stat_activity where pid = $1 and wait_event = $2"
LIVES = "select pid from pg_stat_activity where pid = any($1)"
PART = 10_000
STATEMENT = "select count(*) + $1::integer from patients"


async def stand_still(connection: Any) -> int:
    """Let a statement be parsed, and say nothing more; give the server's process."""
    await connection.prepare(STATEMENT)
    pid: int = connection.get_server_pid()
    return pid


async def until_waiting(looking: Line, pid: int, what: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await looking.fetch(WAITS, pid, what):
            pass


async def living(looking: Line, *pids: int) -> set[int]:
    return {row["pid"] for row in await looking.fetch(LIVES, list(pids))}


async def until_gone(looking: Line, pid: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await living(looking, pid):
            pass


@asynccontextmanager
async def begun(part: Line | Database) -> AsyncIterator[Any]:
    """Give the connection of a transaction, which may be ended meanwhile."""
    with suppress(errors.DatabaseUnavailable):
        async with part.transaction() as session:
            yield session._connection


@asynccontextmanager
async def connected(url: str, **settings: str) -> AsyncIterator[Any]:
    patient = {"idle_in_transaction_session_timeout": "0"}
    connection = await asyncpg.connect(url, server_settings=LINE_SETTINGS | patient | settings)
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def unread(url: str) -> AsyncIterator[int]:
    """Ask for more than fits on the way, in a transaction, and read nothing of it."""
    async with connected(url) as connection:
        await connection.execute("begin")
        statement = await connection.prepare("select repeat('x', 1000) from generate_series(1, 50000)")
        connection._transport.pause_reading()
        asked = asyncio.create_task(statement.fetch())
        yield connection.get_server_pid()
        connection.terminate()
        await asyncio.gather(asked, return_exceptions=True)


@pytest.mark.contract("K24", "W23")
@pytest.mark.parametrize(
    ("ends", "gone"), [("machinery", {"inside"}), ("runs", {"run"}), ("others", {"alone", "pool", "unread"})]
)
async def test_inside_a_transaction_of_the_machinery_it_is_ended_soon_and_elsewhere_later(
    ends: str, gone: set[str], database_url: str, ward: Database, line: Line
) -> None:
    inside, alone = Line(database_url), Line(database_url)
    runs = pool_of_runs(database_url, SCHEMA, Terms(1, 1, 1, HOUR, HOUR, HOUR, 1, HOUR))
    await runs.open()
    async with AsyncExitStack() as stack:
        for each in (inside, alone, runs):
            stack.push_async_callback(each.close)
        stood = {"alone": await stand_still((await alone.open())._connection)}
        parts: dict[str, Line | Database] = {"inside": inside, "pool": ward, "run": runs}
        for name, part in parts.items():
            stood[name] = await stand_still(await stack.enter_async_context(begun(part)))
        for pid in stood.values():
            await until_waiting(line, pid, "ClientRead")
        stood["unread"] = await stack.enter_async_context(unread(database_url))
        await until_waiting(line, stood["unread"], "ClientWrite")
        rule = watchdog.standing_still(every=HOUR, **{"machinery": HOUR, "runs": HOUR, "others": HOUR, ends: NONE})

        found = await rule.find(line, 1)
        rest = await rule.find(line, 9)

        assert len(found) == 1
        assert {row["id"] for row in [*found, *rest]} == {stood[name] for name in gone}
        for name in gone:
            await until_gone(line, stood[name])


@pytest.mark.contract("K24", "I5")
async def test_a_page_that_is_long_on_its_way_comes_through(
    database_url: str, ward: Database, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = pool_of_runs(database_url, SCHEMA, Terms(1, 1, 1, HOUR, HOUR, HOUR, 1, HOUR))
    await runs.open()
    rest, under_way = bytearray(), asyncio.Event()
    async with runs.transaction() as tx:
        transport = tx._connection._con._transport
        write = transport.write

        def write_some(data: bytes) -> None:
            write(data[:PART])
            if len(data) > PART:
                rest.extend(data[PART:])
                under_way.set()

        monkeypatch.setattr(transport, "write", write_some)
        sent = asyncio.create_task(tx.fetch("select length($1::text) as length", "x" * 2 * PART))
        await under_way.wait()
        await until_waiting(line, tx._connection.get_server_pid(), "ClientRead")

        found = await watchdog.standing_still(every=HOUR, machinery=NONE, runs=HOUR).find(line, 100)

        write(bytes(rest))
        assert ([row["length"] for row in await sent], list(found)) == ([2 * PART], [])
    await runs.close()


@pytest.mark.contract("K24")
async def test_nobody_is_ended_who_thinks_works_copies_or_is_a_stranger(
    database_url: str, empty_database_url: str, ward: Database, line: Line
) -> None:
    async with AsyncExitStack() as stack:
        thinks, works, copies, stranger = [
            await stack.enter_async_context(connected(database_url, application_name=name))
            for name in ("ferryman", "ferryman", "ferryman", "psql")
        ]
        elsewhere = await stack.enter_async_context(connected(empty_database_url))
        await elsewhere.execute("create table patients ()")
        for each in (thinks, copies, stranger, elsewhere):
            await each.execute("begin")
        await works.execute("begin; select pg_advisory_xact_lock(1)")
        reading, go_on = asyncio.Event(), asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            yield b"1\n"
            reading.set()
            await go_on.wait()

        copying = asyncio.create_task(copies.copy_to_table("patients", source=source(), columns=["id"]))
        await reading.wait()
        waits = await stack.enter_async_context(connected(database_url))
        await waits.execute("begin")
        waiting = asyncio.create_task(waits.execute("select pg_advisory_xact_lock(1)"))
        await stand_still(stranger)
        await stand_still(elsewhere)
        for each in (thinks, copies, stranger, elsewhere):
            await until_waiting(line, each.get_server_pid(), "ClientRead")
        await until_waiting(line, waits.get_server_pid(), "advisory")

        report = await watchdog.tick(
            line, [watchdog.standing_still(every=HOUR, machinery=NONE, runs=NONE, others=NONE)]
        )

        assert [each.found for each in report.outcomes] == [0]
        go_on.set()
        await copying
        await works.execute("commit")
        await waiting
        for each in (thinks, copies):
            await each.execute("commit")


@pytest.mark.contract("K24", "W23")
@pytest.mark.parametrize("member_of", ["who reads all", "the one that stands still"])
async def test_one_of_another_role_is_left_to_a_watchdog_that_may_end_it(
    member_of: str, database_url: str, ward: Database, line: Line
) -> None:
    role = f"looker_{database_url.partition('?')[0].rpartition('/')[2]}"
    async with AsyncExitStack() as stack:
        still = await stack.enter_async_context(connected(database_url))
        await still.execute("begin")
        pid = await stand_still(still)
        await until_waiting(line, pid, "ClientRead")
        [whose] = await line.fetch(
            "select quote_ident(current_user) as role"
        )  # who is a superuser, as its member is not
        seen_by = "pg_read_all_stats" if member_of == "who reads all" else whose["role"]
        await run(ward, f"create role {role} in role {seen_by}")
        stack.push_async_callback(run, ward, f"drop role {role}")
        rule = watchdog.standing_still(every=HOUR, machinery=NONE, runs=NONE)

        async with ward.transaction() as tx:
            await tx.execute(f"set local role {role}")
            seen = await tx.fetch("select from pg_stat_activity where pid = $1 and state = 'active'", pid)
            refused = await rule.find(tx, 100)
        found = await rule.find(line, 100)

        assert (len(seen), len(refused)) == (1, 0)
        assert [row["id"] for row in found] == [pid]


async def run(ward: Database, script: str) -> None:
    async with ward.session() as session:
        await session.execute(script)
