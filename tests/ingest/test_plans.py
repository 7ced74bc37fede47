"""The statements that every task and page of ingestion passes find their rows by key or by the index made for them."""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ferryman.ingest.store import batches, cursors, plans, retention, tasks
from ferryman.ingest.work.crew import Terms
from ferryman.ingest.work.executor import pool_of_runs
from ferryman.kernel.db import SCHEMA, Statement
from ferryman.kernel.pool import LINE_SETTINGS

ROWS = 10_000
TERM = timedelta(seconds=30)
ID = uuid4()
IDS = [uuid4() for _ in range(20)]
SOURCE = {"tenants": ["default"], "sources": ["depot"]}
HELD = {"id": ID, "epoch": 1, "owner": ID}
NOW = datetime(2026, 11, 16, tzinfo=UTC)

# Most has ended, as it has where ingestion has run for long.
FILL = """
with firing as (
    insert into ferryman.ingest_schedule_instance (id, fire_time, created_at, tenant, job, trigger_type, source, endpoint, operation, params)
    values (gen_random_uuid(), now(), now(), 'default', 'j', 'MANUAL', 'depot', 'e', 'HARVEST', '{}') returning id
), plans as (
    insert into ferryman.ingest_plan (id, schedule_instance_id, ends_at, created_at, updated_at, finished_at, tenant, plan_key, source, endpoint,
        operation, strategy, status, expr_hash, campaign, expression, params, config, budget)
    select gen_random_uuid(), firing.id, now(), now(), now(), now(), 'default', n::text, 'depot', 'e', 'HARVEST', 'TIME', 'READY', '', '', '{}',
        '{}', '{}', '{}'
    from firing, generate_series(1, $1::integer) as n returning id
), slices as (
    insert into ferryman.ingest_slice (id, plan_id, cursor_id, lower, upper, covered, ends_at, created_at, updated_at, slice_no, depth, priority,
        tenant, source, status, slice_signature_hash, spec, params)
    select id, id, $2, 1, 2, 2, now(), now(), now(), 1, 0, 0, 'default', 'depot', 'READY', '', '{}', '{}' from plans
), tasks as (
    insert into ferryman.ingest_task (id, plan_id, slice_id, scheduled_at, ends_at, created_at, updated_at, finished_at, max_seconds, max_attempts,
        max_claims, priority, tenant, source, endpoint, operation, status, idempotent_key, slice_signature_hash, expr_hash, params)
    select id, id, id, now(), now(), now(), now(), now(), 1, 1, 1, 0, 'default', 'depot', 'e', 'HARVEST', 'SUCCEEDED', id::text, '', '', '{}' from plans
), runs as (
    insert into ferryman.ingest_run (id, task_id, lease_owner, epoch, planned_at, finished_at, updated_at, attempt, tenant, status)
    select id, id, id, 1, now(), now(), now(), 1, 'default', 'SUCCEEDED' from plans
)
insert into ferryman.ingest_batch (id, run_id, task_id, slice_id, committed_at, created_at, updated_at, batch_no, tenant, status, before_token,
    idempotent_key)
select id, id, id, id, now(), now(), now(), 1, 'default', 'SUCCEEDED', 'start', id::text from plans
"""  # noqa: E501 - rows of nine columns and more

STATEMENTS: list[tuple[Statement, dict[str, Any]]] = [
    (tasks._HOLD, {"known_sources": ["depot"], "known_endpoints": ["e"], "limit": 200}),
    (tasks._CLAIM, {
        **SOURCE, "known_sources": ["depot"], "known_endpoints": ["e"], "owner": ID, "room": 8, "partition": 4, "lease": TERM,
        "margin": TERM,
    }),
    (tasks._EXECUTE, {**HELD, "plan_id": ID}),
    (tasks._RENEW, {"ids": IDS, "epochs": [1] * len(IDS), "owner": ID, "lease": TERM, "margin": TERM}),
    (tasks._SETTLE, {
        **HELD, "status": "QUEUED", "run_status": "FAILED", "batch_status": "FAILED", "delay": 1.0, "used": 0, "forgiven": 0,
        "code": None, "reason": None, "stats": "{}", "covered": None, "lapsed": False, "requests": None,
    }),
    (tasks._EXPIRED, {"limit": 100}),
    (tasks._UNDECIDED, {"limit": 100, "known_sources": ["depot"], "known_endpoints": ["e"]}),
    (batches._BEGIN, {
        **HELD, "task_id": ID, "slice_id": ID, "batch_no": 1, "before_token": "start", "key": "k", "tenant": "default",
        "stats": "{}", "patience": TERM,
    }),
    (batches._TURN, {
        **HELD, "task_id": ID, "after_token": None, "has_next": False, "record_count": 1, "requests": 1, "watermark": NOW,
        "covered": 1, "stats": "{}", "next_id": ID, "next_no": 2, "next_token": "page:2", "next_key": "l", "next_stats": "{}",
        "patience": TERM, "page": None, "records": None, "look": None, "fresh": None, "table": None,
        "shape": None,
    }),
    (batches._FAIL, {**HELD, "task_id": ID, "reason": "x", "requests": 1, "stats": "{}"}),
    (plans._DERIVE, {"tenant": "default", "source": "depot", "most": 50}),
    (plans._WAITING, {"limit": 100, "most": 50}),
    (plans._FINISH, {"id": ID}),
    (cursors._REACH, {"id": ID}),
    (cursors._FRONTIER, {"id": ID}),
]  # fmt: skip
# Those of the watchdog and of a worker's own line.
RULES: list[tuple[Statement, dict[str, Any]]] = [
    (tasks._LAPSED, {"limit": 100}),
    (tasks._RECLAIM, {"owner": ID, "held": IDS}),
    (tasks._SHORTEN, {"limit": 100, "lease": TERM}),
    (retention._WALK, {"limit": 20, "kept": TERM, "span": 5000, "pace": TERM, "rest": TERM}),
    (retention._FORGET, {"ids": IDS}),
]
OF_RUNS = (tasks._EXECUTE, batches._BEGIN, batches._TURN, batches._FAIL)
TERMS = Terms(
    concurrency=1, partition=1, queued_max=1, lease=TERM, poll=TERM, ends_after=TERM, strikes=1, pause=TERM
)  # fmt: skip
Fetch = Callable[..., Awaitable[Sequence[Any]]]
BIG = {f"ingest_{name}" for name in ("plan", "slice", "task", "run", "batch")}


def scans(plan: Any) -> list[str]:
    """Return the big tables that a plan reads whole."""
    found = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in BIG else []
    return found + [name for part in plan.get("Plans", ()) for name in scans(part)]


async def read_whole(fetch: Fetch, told: Sequence[tuple[Statement, dict[str, Any]]]) -> dict[str, list[str]]:
    """Return the big tables that statements read whole, by statement."""
    found = {}
    for statement, given in told:
        [row] = await fetch(f"explain (format json) {statement.sql()}", *statement.bind(given))
        found[statement.name] = scans(json.loads(row[0])[0]["Plan"])
    return {name: read for name, read in found.items() if read}


@pytest.mark.contract("P10", "P13", "I5")
async def test_no_statement_of_ingestion_reads_a_whole_table(database_url: str) -> None:
    """The tables are full and were never analyzed: the planner knows nothing of what is in them."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for table in BIG:
            await connection.execute(f"alter table ferryman.{table} set (autovacuum_enabled = false)")
        await connection.execute("select set_config('session_replication_role', 'replica', false)")
        await connection.fetch(FILL, ROWS, ID)
        bad = await read_whole(connection.fetch, STATEMENTS)
        await connection.execute(f"set enable_seqscan = {LINE_SETTINGS['enable_seqscan']}")
        assert bad | await read_whole(connection.fetch, RULES) == {}
    finally:
        await connection.close()


@pytest.mark.contract("P12", "I5")
async def test_what_runs_write_is_planned_for_tables_that_grow(database_url: str) -> None:
    """The tables are small and analyzed, and a plan that is made now is kept."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("select set_config('session_replication_role', 'replica', false)")
        await connection.fetch(FILL, 20, ID)
        for table in BIG:
            await connection.execute(f"analyze ferryman.{table}")
    finally:
        await connection.close()
    pool = pool_of_runs(database_url, SCHEMA, TERMS)
    await pool.open()
    try:
        async with pool.session() as session:
            assert await read_whole(session.fetch, [each for each in STATEMENTS if each[0] in OF_RUNS]) == {}
    finally:
        await pool.close()
