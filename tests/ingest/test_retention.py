"""Plans are kept for their time, and then leave with all that came of them; cursors stand where they stood (T20, I11)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.ingest import watch
from ferryman.ingest.store import retention
from ferryman.kernel import watchdog
from ferryman.kernel.pool import Database, Line
from tests.ingest.harbour import DAWN, HOUR, Harbour, Server, harbour
from tests.patience import PATIENCE_SECONDS
from tests.sql import walking

MONTH = timedelta(days=30)
TABLES = ("schedule_instance", "plan", "slice", "task", "run", "batch", "quarantine")


async def walk(here: Harbour, url: str) -> int:
    line = Line(url)
    await here.fetch("update ferryman.retention set next_at = '-infinity'")
    try:
        told = await walking.past(line, "plan", kept=MONTH)
        acted = (await watchdog.tick(line, [watch.retention(kept=MONTH)])).acted()
        assert told == acted, "doctor counts what the walk finds"
        return acted
    finally:
        await line.close()


async def left(here: Harbour) -> dict[str, int]:
    counts = {name: (await here.fetch(f"select count(*) from ferryman.ingest_{name}"))[0][0] for name in TABLES}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.contract("T20", "I11", "I12")
async def test_a_plan_leaves_whole_and_the_moves_of_its_cursor_stay(database_url: str) -> None:
    server = Server().fill(120)
    server.records[3]["value"] = None  # put aside
    async with harbour(database_url, server) as here:
        await here.plan(since=DAWN, until=DAWN + 2 * HOUR)
        await here.ship().work()
        cursor, moves = await here.cursor(), await here.fetch("select id from ferryman.ingest_cursor_event")
        assert len(await left(here)) == len(TABLES)
        await here.travel(timedelta(days=29))
        early = await walk(here, database_url)
        await here.travel(timedelta(days=2))

        assert (early, await walk(here, database_url)) == (0, 1)

        assert await left(here) == {}
        assert await here.fetch("select id from ferryman.ingest_cursor_event") == moves != []
        assert await here.cursor() == cursor == DAWN + 2 * HOUR
        await here.sound()
        # A harvest goes on from there.
        server.fill(60, since=DAWN + 2 * HOUR)
        await here.plan(until=DAWN + 3 * HOUR)
        await here.ship().work()
        assert await here.cursor() == DAWN + 3 * HOUR


@pytest.mark.contract("T20", "I11")
async def test_what_lies_before_a_gap_or_is_live_stays(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        await here.plan(since=DAWN, until=DAWN + 3 * HOUR)
        # The first hour fails for good, so the cursor stays; the others are done, and must still be known when it is mended.
        ship = here.ship()
        first = (await here.fetch("select id from ferryman.ingest_task order by rank, id limit 1"))[0][0]
        await here.fetch(
            "update ferryman.ingest_task set status = 'CANCELLED', rank = null, finished_at = ferryman.clock() where id = $1",
            first,
        )
        await ship.work()
        await here.plan(since=DAWN, until=DAWN + HOUR, operation="UPDATE", campaign="live")
        await here.travel(timedelta(days=31))

        assert await walk(here, database_url) == 0
        assert (await left(here))["plan"] == 2
        assert await here.cursor() == DAWN


PLAN = """
with firing as (
    insert into ferryman.ingest_schedule_instance (id, fire_time, created_at, tenant, job, trigger_type, source, endpoint, operation, params)
    values ($1::uuid, now(), now(), 'default', $1::uuid::text, 'MANUAL', 'depot', 'e', 'HARVEST', '{}')
)
insert into ferryman.ingest_plan (id, schedule_instance_id, ends_at, created_at, updated_at, finished_at, tenant, plan_key, source, endpoint,
    operation, strategy, status, expr_hash, campaign, expression, params, config, budget)
values ($1::uuid, $1::uuid, now(), now(), now(), ferryman.clock() - $2::interval, 'default', $1::uuid::text, 'depot', 'e', 'HARVEST', 'TIME', 'READY', '', '', '{}',
    '{}', '{}', '{}')
"""  # noqa: E501 - rows of many columns
SLICE = """
insert into ferryman.ingest_slice (id, plan_id, cursor_id, lower, upper, ends_at, created_at, updated_at, slice_no, depth, priority, tenant,
    source, status, slice_signature_hash, spec, params)
values ($1, $1, $3, 1, 2, now(), now(), now(), 1, 0, 0, 'default', 'depot', $2, '', '{}', '{}')
"""  # noqa: E501 - rows of many columns
TASK = """
insert into ferryman.ingest_task (id, plan_id, slice_id, scheduled_at, rank, ends_at, created_at, updated_at, finished_at, max_seconds,
    max_attempts, max_claims, priority, tenant, source, endpoint, operation, status, idempotent_key, slice_signature_hash, expr_hash, params, decision)
values ($1::uuid, $1::uuid, $1::uuid, now(), case when $2::text = 'QUEUED' then now() end, now(), now(), now(),
    case when $2::text <> 'QUEUED' then ferryman.clock() - $3::interval end, 1, 1, 1, 0, 'default', 'depot', 'e', 'HARVEST', $2::text, $1::uuid::text, '', '', '{}', $4)
"""  # noqa: E501 - rows of many columns
CURSOR = """
insert into ferryman.ingest_cursor (id, last_event, position, created_at, updated_at, tenant, source, endpoint, operation, scope, scope_key, kind)
values ($1::uuid, $1::uuid, $2, now(), now(), 'default', 'depot', 'e', 'HARVEST', 'GLOBAL', $1::uuid::text, 'TIME')
"""  # noqa: E501 - rows of many columns


async def write(db: Database, sql: str, *args: Any) -> None:
    async with db.transaction() as tx:
        await tx.fetch("select set_config('session_replication_role', 'replica', true)")
        await tx.fetch(sql, *args)


async def plant(db: Database, *, ago: timedelta = timedelta(days=8)) -> UUID:
    """Put a plan in that ended so long ago."""
    id = walking.old(datetime.now(UTC), timedelta(days=9))
    await write(db, PLAN, id, ago)
    return id


@pytest.mark.contract("T20")
async def test_the_walk_goes_page_by_page(db: Database, database_url: str) -> None:
    ids = sorted([await plant(db) for _ in range(3)])
    young = walking.old(datetime.now(UTC), timedelta(days=1))
    await write(db, PLAN, young, timedelta(days=8))
    line = Line(database_url)
    try:
        await walking.assert_walks(db, line, retention.walk, "ingest_plan", ids)
    finally:
        await line.close()


@pytest.mark.contract("T20", "I11")
async def test_a_plan_stays_while_anything_of_it_is_needed(db: Database) -> None:
    week, long = timedelta(days=6), timedelta(days=8)
    passed, behind = [walking.old(datetime.now(UTC), long) for _ in range(2)]
    await write(db, CURSOR, passed, 2)
    await write(db, CURSOR, behind, 1)
    past, needed = await plant(db), await plant(db, ago=week)
    await write(db, SLICE, past, "READY", passed)
    await write(db, TASK, past, "PARTIAL", long, "none")
    cases: list[tuple[str, UUID | None, str | None, timedelta, str | None]] = [
        ("PENDING", None, None, long, None), ("FAILED", behind, None, long, None), ("READY", None, "QUEUED", long, None),
        ("READY", None, "SUCCEEDED", week, None), ("READY", None, "PARTIAL", long, None),
    ]  # fmt: skip
    live = []
    for status, cursor, task, ago, decision in cases:
        live.append(await plant(db))
        await write(db, SLICE, live[-1], status, cursor)
        if task is not None:
            await write(db, TASK, live[-1], task, ago, decision)
    for id in (past, live[2]):
        await write(
            db,
            "insert into ferryman.ingest_run (id, task_id, lease_owner, epoch, planned_at, finished_at, updated_at, attempt,"
            " tenant, status) values ($1, $1, $1, 1, now(), now(), now(), 1, 'default', 'FAILED')",
            id,
        )
        await write(
            db,
            "insert into ferryman.ingest_batch (id, run_id, task_id, slice_id, created_at, updated_at, batch_no, tenant,"
            " status, before_token, idempotent_key) values ($1::uuid, $1::uuid, $1::uuid, $1::uuid, now(), now(), 1, 'default',"
            " 'FAILED', 'start', $1::uuid::text)",
            id,
        )
        await write(
            db,
            "insert into ferryman.ingest_quarantine (batch_id, item_no, created_at, tenant, source, endpoint, reason, item)"
            " values ($1, 1, now(), 'default', 'depot', 'e', 'bad', '{}')",
            id,
        )
    async with db.transaction() as tx:
        found = [row["id"] for row in await retention.walk(tx, 99, span=99, **walking.TERMS)]
        gone = await retention.forget(tx, [past, live[2]])
        left = {row["id"] for row in await tx.fetch("select id from ferryman.ingest_plan")}
        firings = {row["id"] for row in await tx.fetch("select id from ferryman.ingest_schedule_instance")}

        [parts] = await tx.fetch(
            "select (select count(*) from ferryman.ingest_slice) as slices,"
            " (select count(*) from ferryman.ingest_task) as tasks, (select count(*) from ferryman.ingest_run) as runs,"
            " (select count(*) from ferryman.ingest_batch) as pages, (select count(*) from ferryman.ingest_quarantine) as bad"
        )

    assert (found, gone) == ([past], 1)
    assert left == firings == {needed, *live}
    assert tuple(parts[name] for name in ("slices", "tasks", "runs", "pages", "bad")) == (5, 3, 1, 1, 1)


@pytest.mark.contract("T20")
async def test_a_plan_that_somebody_holds_is_left_and_a_firing_stays_for_its_other_plan(db: Database) -> None:
    held, first, second, open_ = [await plant(db) for _ in range(4)]
    await write(db, "update ferryman.ingest_plan set finished_at = null, status = 'SLICING' where id = $1", open_)
    await write(db, "update ferryman.ingest_plan set schedule_instance_id = $1 where id = $2", first, second)
    # Second's own firing has no plan now: it came of nothing that is forgotten here.
    async with db.transaction() as other, db.transaction() as tx:
        await other.fetch("select from ferryman.ingest_plan where id = $1 for update", held)
        async with asyncio.timeout(PATIENCE_SECONDS):
            gone = [await retention.forget(tx, [held, first, open_])]
        shared = await tx.fetch("select from ferryman.ingest_schedule_instance where id = $1", first)
        gone.append(await retention.forget(tx, [second]))
        alone = await tx.fetch("select from ferryman.ingest_schedule_instance where id = $1", first)
        planless = await tx.fetch("select from ferryman.ingest_schedule_instance where id = $1", second)

    assert (gone, len(shared), len(alone), len(planless)) == ([1, 1], 1, 0, 1)
