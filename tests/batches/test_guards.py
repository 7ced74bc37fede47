"""The guards of the database for both machines, and every statement that moves a batch or a task against every status."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from ferryman.agents.ends import Aftermath
from ferryman.agents.work import settle
from ferryman.batches import rules
from ferryman.batches.intake import Wanted, fork
from ferryman.batches.model import Caller, Closing, Forked, Refused, TaskEnd
from ferryman.batches.states import BATCH, BATCH_TASK, TERMINAL, BatchStatus, TaskStatus
from ferryman.batches.store import batches, tasks
from ferryman.batches.work.dispatch import dispatch
from ferryman.kernel import errors
from ferryman.kernel.db import Statement, Tx
from ferryman.kernel.machine import Machine, refuse_sql
from ferryman.kernel.pool import Database, Line
from tests.agents.house import OWNER, TENANT
from tests.batches.yard import PROFILES, Yard, task
from tests.sql.counted import Counted

MACHINES: list[Machine[Any]] = [BATCH, BATCH_TASK]
MINUTE = timedelta(minutes=1)


@pytest.mark.contract("K3", "B15")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
async def test_the_guard_of_the_database_is_the_declared_one(db: Database, machine: Machine[Any]) -> None:
    async with db.session() as tx:
        await tx.execute(
            f"create schema mirror; create table mirror.{machine.table} (like ferryman.{machine.table});"
            f"{refuse_sql('mirror')}{machine.guard_sql('mirror')}"
        )
        triggers = (
            "select tgname as name, replace(pg_get_triggerdef(oid), $1::regclass::text, 'T') as definition from pg_trigger"
            " where tgrelid = $1::regclass and not tgisinternal order by tgname"
        )
        shipped = {row["name"]: row["definition"] for row in await tx.fetch(triggers, f"ferryman.{machine.table}")}
        rows = await tx.fetch(triggers, f"mirror.{machine.table}")
        assert shipped == {row["name"]: row["definition"].replace("mirror.", "ferryman.") for row in rows}
        assert len(shipped) == 2


@pytest.mark.contract("K3", "B15")
async def test_the_database_refuses_an_undeclared_move(yard: Yard) -> None:
    batch = await yard.fork(task())
    for table, status, code in (
        ("pmo_batch_tasks", "success", "BATCH_TASK_INVALID_TRANSITION"),
        ("pmo_batches", "running", "BATCH_INVALID_TRANSITION"),
    ):
        with pytest.raises(errors.InvalidTransition) as caught:
            async with yard.db.transaction() as tx:
                await tx.fetch(f"update ferryman.{table} set status = $1, finished_at = now()", status)
        assert caught.value.code == code
    assert (await yard.batch(batch)).status == "running"


async def _plant(yard: Yard, status: TaskStatus) -> tuple[UUID, UUID]:
    """Put the one task of a batch into a status, past the guards."""
    batch = await yard.fork(task())
    [made] = await yard.tasks_of(batch)
    await yard.write(
        "update ferryman.pmo_batch_tasks set status = $2, dispatched_at = case when $2 <> 'pending' then now() end,"
        " finished_at = case when $3 then now() end, current_agent_turn_id = case when $2 <> 'pending' then agent_turn_id end"
        " where id = $1", made.id, status.value, status in TERMINAL,
    )  # fmt: skip
    return batch, made.id


async def _claim(tx: Tx, _batch: UUID, id: UUID) -> bool:
    return id in {each.id for each in (await tasks.claim(tx, room=10, scan=10))[0]}


async def _accept(tx: Tx, _batch: UUID, id: UUID) -> bool:
    return bool(await tasks.accept(tx, {id: 3}))


async def _postpone(tx: Tx, _batch: UUID, id: UUID) -> bool:
    return bool(await tasks.postpone(tx, [(id, MINUTE, "agent_busy")]))


async def _warn(tx: Tx, _batch: UUID, id: UUID) -> bool:
    return bool(await tasks.warn(tx, [(id, "queued", None)]))


async def _end(tx: Tx, _batch: UUID, id: UUID) -> bool:
    return bool(await tasks.end(tx, [TaskEnd(id=id, status=TaskStatus.FAILED, expects=("dispatched",))]))


async def _abort(tx: Tx, batch: UUID, _id: UUID) -> bool:
    return bool(await tasks.abort(tx, [batch], reason="deadline", warn_after=MINUTE))


FROM = {
    _claim: {"pending"}, _accept: {"dispatched"}, _postpone: {"dispatched"}, _warn: {"dispatched"}, _end: {"dispatched"},
    _abort: {"pending", "dispatched"},
}  # fmt: skip


@pytest.mark.contract("B15", "B6", "K3")
async def test_every_statement_moves_only_what_it_may(yard: Yard) -> None:
    wrong = []
    for status in TaskStatus:
        for act, allowed in FROM.items():
            batch, id = await _plant(yard, status)
            async with yard.db.transaction() as tx:
                moved = await act(tx, batch, id)
            if moved != (status.value in allowed):
                wrong.append((act.__name__, status.value))
            await yard.write("delete from ferryman.pmo_batches")
            await yard.write("delete from ferryman.pmo_batch_tasks")
    assert wrong == []


@pytest.mark.contract("B7", "B13")
async def test_only_a_running_batch_is_closed_and_only_once(yard: Yard) -> None:
    for status in BatchStatus:
        batch = await yard.fork(task())
        await yard.write(
            "update ferryman.pmo_batches set status = $2, finished_at = case when $2 <> 'running' then now() end where id = $1",
            batch, status.value,
        )  # fmt: skip
        async with yard.db.transaction() as tx:
            early = await batches.close(tx, [Closing(id=batch, status=BatchStatus.TIMEOUT, reason="deadline")])
            closed = await batches.close(tx, [Closing(id=batch, status=BatchStatus.FAILED)])
            again = await batches.close(tx, [Closing(id=batch, status=BatchStatus.SUCCESS)])
            untold = await batches.told(tx, [batch])
        assert (early, bool(closed), again) == ([], status is BatchStatus.RUNNING, [])
        assert untold == {batch}


@pytest.mark.contract("B9", "R5")
async def test_a_parent_is_told_once_however_often_it_is_looked_at(yard: Yard) -> None:
    batch, [child] = await yard.running(1, caller=await yard.parent())
    await yard.finish(child)

    async with yard.db.transaction() as tx:
        assert await batches.told(tx, [batch]) == set()


@pytest.mark.contract("B5")
async def test_what_is_not_due_or_not_retryable_is_not_sent(yard: Yard) -> None:
    batch = await yard.fork(task(), task(), task())
    await yard.write("update ferryman.pmo_batch_tasks set next_retry_at = now() + interval '1 h' where task_index = 0")
    await yard.write("update ferryman.pmo_batch_tasks set retryable = false where task_index = 1")
    assert (await yard.dispatch()).taken == 1
    assert await yard.statuses(batch) == ["pending", "pending", "dispatched"]


FILL = """
with made as (
    insert into ferryman.pmo_batches (id, tenant, created_at, updated_at, deadline_at, finished_at, task_count, recursion_depth,
        status, parent_agent_id, parent_agent_turn_id)
    select gen_random_uuid(), 't' || n % 3, now(), now(), now() + interval '1 h', case when n % 2 = 0 then now() end, 8, 0,
        case when n % 2 = 0 then 'success' else 'running' end, 'a', gen_random_uuid()
    from generate_series(1, $1::integer) as n
    returning id, tenant
)
insert into ferryman.pmo_batch_tasks (id, tenant, batch_id, created_at, updated_at, ends_at, next_retry_at, dispatched_at,
    finished_at, task_index, agent_turn_id, current_agent_turn_id, context_box_id, status, agent_id, profile, payload_hash)
select gen_random_uuid(), made.tenant, made.id, now(), now(), now(), now(), now(), case when n > 1 then now() end, n,
    gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), (array['pending', 'dispatched', 'success'])[least(n, 2) + 1],
    'a', 'c', ''
from made, generate_series(0, 7) as n
"""
IDS = [uuid4() for _ in range(50)]
STATEMENTS: list[tuple[Statement, dict[str, Any]]] = [
    (batches._LOCK, {"ids": IDS}),
    (batches._STANDING, {"ids": IDS}),
    (batches._CLOSE, {"closings": json.dumps([{"id": str(id), "status": "success"} for id in IDS])}),
    (batches._TOLD, {"ids": IDS}),
    (batches._EXPIRED, {"limit": 50}),
    (batches._UNTOLD, {"limit": 50}),
    (batches._ORPHANS, {"limit": 50, "turns": None}),
    (batches._GET, {"ids": IDS, "tenant": "t1"}),
    (
        tasks._CLAIM,
        {"room": 128, "scan": 200, "heads": True, "busy_tenants": ["t1"], "busy_agents": ["a1"], "busy_batches": []},
    ),
    (tasks._ACCEPT, {"ids": IDS, "epochs": [1] * 50}),
    (tasks._END, {"ends": json.dumps([{"id": str(id), "expects": "dispatched", "status": "failed"} for id in IDS])}),
    (tasks._ABORT, {"batches": IDS, "reason": "x", "warn_after": MINUTE}),
    (tasks._OF, {"batches": IDS}),
    (tasks._UNHEARD, {"limit": 50, "look_after": MINUTE, "warn_after": MINUTE}),
    (tasks._ENDED, {"limit": 50}),
]
BIG = {"pmo_batches", "pmo_batch_tasks", "agent_inbox"}


def scans(plan: Any) -> list[str]:
    """Return the big tables that a plan reads whole."""
    found = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in BIG else []
    return found + [name for part in plan.get("Plans", ()) for name in scans(part)]


@pytest.mark.contract("P9", "P13", "B12")
async def test_no_statement_of_a_batch_reads_a_whole_table(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for table in BIG:
            await connection.execute(f"alter table ferryman.{table} set (autovacuum_enabled = false)")
        await connection.execute("select set_config('session_replication_role', 'replica', false)")
        await connection.fetch(FILL, 4000)
        bad = {}
        for statement, given in STATEMENTS:
            [row] = await connection.fetch(f"explain (format json) {statement.sql()}", *statement.bind(given))
            read = scans(json.loads(row[0])[0]["Plan"])
            if read:
                bad[statement.name] = read
        assert bad == {}
    finally:
        await connection.close()


@pytest.mark.contract("P9", "B12")
async def test_a_batch_of_any_size_costs_the_same_trips(yard: Yard, database_url: str) -> None:
    line, trips = Line(database_url), []
    for batches_of, count in ((1, 1), (1, 50), (20, 2)):
        wire = Counted(line)
        asked = rules.read({"tasks": [task() for _ in range(count)]}, yard.owner.terms)
        async with wire.transaction() as tx:
            wanted = [Wanted(asked, Caller(tenant=TENANT), uuid4()) for _ in range(batches_of)]
            await fork(tx, wanted, yard.owner.terms, profiles=PROFILES)
        forked = wire.trips
        async with wire.transaction() as tx:
            await dispatch(tx, yard.parties, yard.owner.terms, after=Aftermath())
        sent = wire.trips - forked
        ends = [yard.ends_as(each) for each in await yard.children()]
        async with wire.transaction() as tx:
            await settle.settle(tx, ends, yard.parties, owner=OWNER, after=Aftermath())
        trips.append((forked, sent, wire.trips - forked - sent))
    await line.close()
    assert trips[0] == trips[1] == trips[2]
    assert trips[0][0] <= 5
    assert trips[0][1] <= 7
    assert trips[0][2] <= 11


@pytest.mark.contract("P9", "B12", "A21")
async def test_budgets_and_agents_that_are_there_cost_a_set_of_forks_one_trip_each(
    yard: Yard, database_url: str
) -> None:
    callers = [await yard.parent(name, f"call-{name}") for name in ("ann", "bob", "carl")]
    for name in ("dora", "emil", "fred"):
        await yard.agent(name)
    line, trips = Line(database_url), []
    for some in (callers[:1], callers[1:]):
        wire = Counted(line)
        wanted = [
            yard.wanted(task(name, strategy="reuse"), caller=who)._replace(
                allows={"tokens": n, "tool_calls": None, "cost": 0.1 * n}
            )
            for n, (who, name) in enumerate(zip(some, ("dora", "emil"), strict=False), 1)
        ]
        wanted += [each._replace(id=uuid4(), caller=Caller(tenant=TENANT, budget=each.id)) for each in wanted]
        async with wire.transaction() as tx:
            answers = await fork(tx, wanted, yard.owner.terms, profiles=PROFILES)
        assert {type(each) for each in answers} == {Forked}
        trips.append(wire.trips)
        limits = await yard.rows(
            "select tokens_limit, cost_limit::text from ferryman.budgets where id = any($1) order by tokens_limit, cost_limit",
            [each.id for each in wanted],
        )
        assert [tuple(row.values()) for row in limits] == sorted([(n, f"0.{n}") for n in range(1, len(some) + 1)] * 2)
    # Each hears of those who wait for it, and of nobody else's.
    circle = yard.wanted(task("ann", strategy="reuse"), caller=callers[0])
    free = yard.wanted(task("ann", strategy="reuse"), caller=callers[1])
    assert [type(each) for each in await yard.answer_forks(circle, free)] == [Refused, Forked]
    await line.close()
    assert trips[0] == trips[1]
