"""K24: every table and index is written anew under load. Who meets a lock waits; nothing is lost and nothing is done twice."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.crash import cargo, judge, orders
from tests.crash.conftest import Launch
from tests.crash.yard import Ship, until
from tests.ingest.harbour import prepare
from tests.patience import PATIENCE_SECONDS
from tests.proof.conftest import Tell
from tests.proof.errands import Gate, built, everything, written_once

UPKEEP = {
    "vacuum full": "vacuum full {table}",
    "reindex": "reindex table {table}",
    "reindex concurrently": "reindex table concurrently {table}",
    "cluster": "cluster {table} using {index}",
}
# Each table with an index that it can be sorted by. What is spread over parts is worked on part by part.
TABLES = """
select tables.oid::regclass::text as table, (
    select indexes.relname from pg_index join pg_class as indexes on indexes.oid = indexrelid
    where indrelid = tables.oid and indpred is null order by indisprimary desc, indexes.relname limit 1) as index
from pg_class as tables
where relnamespace = 'ferryman'::regnamespace and relkind = 'r'
order by 1
"""
INDEXES = """
select indexrelid::regclass::text, indisvalid from pg_index join pg_class on oid = indexrelid
where relnamespace = 'ferryman'::regnamespace
"""
READ = """
select (select seq_scan from pg_stat_user_tables where relid = 'ferryman.tasks'::regclass) as scans,
       (select idx_scan from pg_stat_user_indexes where indexrelid = 'ferryman.tasks_ready'::regclass) as looks
"""
OVERDUE = "select domain, state, rule from ferryman.overdue"
HOURS = 200  # more than are read in any time


async def indexes(url: str) -> set[tuple[str, bool]]:
    return {(name, valid) for name, valid in await judge.read(url, INDEXES)}


async def upkeep(url: str) -> tuple[Mapping[str, Sequence[float]], int]:
    """Write every table anew in each way; return how long that took, table by table, and how often it had to be asked again."""
    tables = await judge.read(url, TABLES)
    took: dict[str, list[float]] = defaultdict(list)
    again = 0
    connection = await asyncpg.connect(url)
    try:
        for way, statement in UPKEEP.items():
            for row in tables:
                began = time.monotonic()
                again += await persist(connection, statement.format(**dict(row)))
                took[way].append(time.monotonic() - began)
    finally:
        await connection.close()
    return took, again


async def persist(connection: Any, statement: str) -> int:
    """Ask again, as whoever keeps house does: who takes one lock after another may meet somebody who came the other way."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for again in count():
            with suppress(asyncpg.DeadlockDetectedError):
                await connection.execute(statement)
                return again
    raise AssertionError


async def kept_up(url: str, what: str, tell: Tell) -> None:
    """Write everything anew; all indexes that were there are there and can be used, and nothing is left beside them."""
    before = await indexes(url)
    took, again = await upkeep(url)
    after = await indexes(url)  # the log may have got parts for days to come meanwhile
    assert before <= after
    assert [name for name, valid in after if not valid or "_cc" in name] == []
    told = ", ".join(f"{way} {sum(each):.1f} s, the longest {max(each):.2f} s" for way, each in took.items())
    tell(f"upkeep beside {what}: {len(took['cluster'])} tables: {told}; {again} asked again after a deadlock")


@asynccontextmanager
async def under_way(ship: Ship, enough: Path, count: int) -> AsyncIterator[None]:
    """Let somebody ask for things before, while and after."""
    await ship.seen("ok", count=count)
    yield
    await ship.seen("ok", count=len(ship.lines("ok")) + count)
    enough.touch()
    await ship.seen("stopped")


@pytest.mark.contract("K24", "K1")
async def test_tasks_are_done_once_while_every_table_is_written_anew(
    database_url: str, ship: Launch, tmp_path: Path, tell: Tell
) -> None:
    line = await cargo.load(database_url, 1000)
    workers = [ship(database_url).start() for _ in range(2)]
    enough = tmp_path / "enough"
    producer = ship(database_url, role="producer", count=1, until=str(enough)).start()

    async with under_way(producer, enough, 50):
        await kept_up(database_url, "tasks", tell)
    await judge.all_ended(database_url)

    acked = {line["key"]: line["task"] for line in producer.lines("ok")}
    await judge.judge(database_url, [*line, *acked.values()], [line for each in workers for line in each.lines()])
    rows = await judge.read(database_url, "select id::text, idempotency_key as key from ferryman.tasks")
    assert {row["key"]: row["id"] for row in rows if row["key"]} == acked
    assert len(rows) == len(line) + len(acked)
    assert producer.lines("refused") == []
    assert all("Traceback" not in each.output() for each in [producer, *workers])
    assert await judge.read(database_url, OVERDUE) == []
    assert await cargo.broken(database_url) == []
    await claims_by_index(database_url, workers)


async def claims_by_index(url: str, workers: Sequence[Ship]) -> None:
    """Give workers more to do; they find it by the index that is made for it, and read no table from end to end."""
    [before] = await judge.read(url, READ)
    more = set(await cargo.load(url, 100))
    await until(lambda: more <= {line["task"] for each in workers for line in each.lines("end")}, "all to be done")
    async with asyncio.timeout(PATIENCE_SECONDS):  # what a connection has read is told a little later
        while (after := (await judge.read(url, READ))[0])["looks"] == before["looks"]:  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.05)
    assert after["scans"] == before["scans"]


@pytest.mark.contract("K24", "K1")
async def test_commands_are_done_once_while_every_table_is_written_anew(
    database_url: str, ship: Launch, tmp_path: Path, tell: Tell
) -> None:
    workers = [ship(database_url).start() for _ in range(2)]
    enough = tmp_path / "enough"
    sender = ship(database_url, role="sender", count=1, until=str(enough)).start()

    async with under_way(sender, enough, 5):
        await kept_up(database_url, "commands", tell)
    await orders.all_ended(database_url)

    assert sender.lines("refused") == []
    assert all("Traceback" not in each.output() for each in [sender, *workers])
    assert await judge.read(database_url, OVERDUE) == []
    await orders.done_once(database_url, [line["task"] for line in sender.lines("ok")])


@pytest.mark.contract("K24", "I6")
async def test_windows_turns_and_batches_end_right_while_every_table_is_written_anew(
    database_url: str, tell: Tell
) -> None:
    app, _sink = built(database_url, database_url, Gate(), hours=HOURS)
    over, read = asyncio.Event(), 0

    async def go_on() -> int:
        for hour in count():
            await everything(app, hour)
            if over.is_set():
                return hour + 1
        raise AssertionError

    async with app:
        await prepare(app.database)
        async with app.worker(), asyncio.TaskGroup() as group:
            going = group.create_task(go_on())
            await kept_up(database_url, "windows, turns and batches", tell)
            over.set()
            read = await going

    assert await judge.read(database_url, OVERDUE) == []
    await written_once(database_url, hours=read)
