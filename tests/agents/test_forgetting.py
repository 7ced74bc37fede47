"""What may leave, statement by statement: beside a row that goes stand others, each with one reason to stay (T20)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake
from ferryman.agents.model import NewAgent
from ferryman.agents.store import retention
from ferryman.kernel import ids
from tests.agents.house import TENANT, House

WEEK = timedelta(days=7)
OTHER = "other"


async def agents(house: House, *names: str, tenant: str = TENANT, derived_from: str | None = None) -> None:
    async with house.db.transaction() as tx:
        await intake.create(tx, [NewAgent(tenant, name, "writer", derived_from=derived_from) for name in names])


async def message(house: House, agent: str, *, tenant: str = TENANT, live: bool = False, **columns: Any) -> UUID:
    """Plant a turn's message, or another one."""
    id = columns.pop("id", None) or ids.new_id()
    row = {
        "id": id, "tenant": tenant, "agent_id": agent, "agent_turn_id": id, "message_type": "turn", "correlation_id": str(id),
        "status": "processing" if live else "consumed", **columns,
    }  # fmt: skip
    names, places = ", ".join(row), ", ".join(f"${n}" for n in range(1, len(row) + 1))
    ended = "null, now()" if live else "now() - interval '8 days', null"
    await house.write(
        f"insert into ferryman.agent_inbox ({names}, created_at, look_at, ends_at, archived_at, processed_at)"
        f" values ({places}, now(), now(), now(), {ended})",
        *row.values(),
    )
    return id


async def task(
    house: House, agent: str, *, tenant: str = TENANT, status: str = "pending", retryable: bool = True
) -> None:
    """Plant a task of a batch: one that is still to be sent, or another one."""
    await house.write(
        "insert into ferryman.pmo_batch_tasks (id, batch_id, agent_turn_id, context_box_id, tenant, agent_id, status, "
        "retryable, task_index, profile, payload_hash, created_at, updated_at, ends_at, next_retry_at, finished_at)"
        " select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), $1, $2, $3, $4, 0, 'writer', 'x',"
        " now(), now(), now(), now(), case $3 when 'success' then now() end",
        tenant,
        agent,
        status,
        retryable,
    )


async def tasks(house: House) -> None:
    """Plant a task that is still to be sent to one agent, and others that keep no other agent."""
    await task(house, "owed")
    await task(house, "gone", tenant=OTHER)
    await task(house, "gone", status="success")
    await task(house, "gone", retryable=False)


async def left(house: House) -> set[tuple[str, str]]:
    """Return the agents that are there, with their heads."""
    rows = await house.rows(
        "select agent.tenant, agent.agent_id from ferryman.agents as agent join ferryman.agent_state_head as head using (id)"
    )
    heads = await house.value("select count(*) from ferryman.agent_state_head")
    assert heads == len(rows) == await house.value("select count(*) from ferryman.agents")
    return {(row["tenant"], row["agent_id"]) for row in rows}


@pytest.mark.contract("T20", "K12")
async def test_a_derived_agent_goes_with_its_last_turn_and_no_other_agent_does(house: House) -> None:
    await agents(house, "gone", "two", "owed", derived_from="eve")
    await agents(house, "gone", tenant=OTHER, derived_from="eve")
    await agents(house, "eve")
    await tasks(house)
    turns = [await message(house, name) for name in ("gone", "two", "eve", "owed")]
    second = await message(house, "two")
    # What is no turn keeps no agent, and neither do others' turns.
    await message(house, "gone", agent_turn_id=turns[0], message_type="stop", correlation_id="stop")
    await message(house, "gone", tenant=OTHER)

    async with house.db.transaction() as tx:
        gone = await retention.forget(tx, turns)

    assert {row["id"] for row in gone} == set(turns)
    assert await left(house) == {(TENANT, "two"), (TENANT, "eve"), (TENANT, "owed"), (OTHER, "gone")}
    assert second in {row["id"] for row in await house.rows("select id from ferryman.agent_inbox")}


@pytest.mark.contract("T20", "K12")
async def test_a_derived_agent_that_never_had_a_turn_goes_and_no_other_does(house: House) -> None:
    await agents(house, "gone", "used", "busy", "kept", "owed", derived_from="eve")
    await agents(house, "gone", "used", tenant=OTHER, derived_from="eve")
    await tasks(house)
    await agents(house, "plain")
    used = await message(house, "used")
    await message(house, "gone", agent_turn_id=used, message_type="stop", correlation_id="stop")
    await message(house, "gone", tenant=OTHER)
    await house.write("delete from ferryman.agent_inbox where id = $1", await house.enqueue("busy"))

    async with house.db.transaction() as tx:
        asked = [(TENANT, name) for name in ("gone", "used", "busy", "plain", "owed")]
        count = await retention.forget_unused(tx, asked)

    stay = {(TENANT, name) for name in ("used", "busy", "kept", "plain", "owed")} | {(OTHER, "gone"), (OTHER, "used")}
    assert (count, await left(house)) == (1, stay)


@pytest.mark.contract("T20", "A21", "K12")
async def test_a_budget_goes_when_nothing_uses_it_and_no_other_does(house: House) -> None:
    names = ("gone", "young", "live", "reserved", "not asked for")
    budgets = {name: ids.new_id() for name in names}
    for name, id in budgets.items():
        for tenant in (TENANT, OTHER) if name in ("gone", "reserved") else (TENANT,):
            await house.write(
                "insert into ferryman.budgets (tenant, id, created_at) values ($1, $2, now() - interval '9 days')",
                tenant,
                id,
            )
    await house.write("update ferryman.budgets set updated_at = now() where id = $1", budgets["young"])
    await message(house, "ann", live=True, budget_id=budgets["live"])
    # What has ended, and what is another tenant's, keeps nothing.
    await message(house, "ann", budget_id=budgets["gone"])
    await message(house, "ann", live=True, tenant=OTHER, budget_id=budgets["gone"])
    for tenant, name in ((TENANT, "reserved"), (OTHER, "gone")):
        await house.write(
            "insert into ferryman.budget_reservations (tenant, budget_id, agent_turn_id, name, created_at)"
            " values ($1, $2, $2, 'x', now())",
            tenant,
            budgets[name],
        )

    async with house.db.transaction() as tx:
        asked = [(TENANT, budgets[name]) for name in names[:-1]]
        count = await retention.forget_budgets(tx, asked, kept=WEEK)

    rows = await house.rows("select tenant, id from ferryman.budgets")
    stay = {(TENANT, budgets[name]) for name in names[1:]} | {(OTHER, budgets[name]) for name in ("gone", "reserved")}
    assert (count, {(row["tenant"], row["id"]) for row in rows}) == (1, stay)


@pytest.mark.contract("T20", "K12")
async def test_edges_go_by_their_names_and_no_others_do(house: House) -> None:
    for tenant, name in ((TENANT, "gone"), (TENANT, "stays"), (OTHER, "gone")):
        await house.write(
            "insert into ferryman.execution_edges (tenant, correlation_id, primitive, edge_phase, id, created_at,"
            " recursion_depth) values ($1, $2, 'join', 'request', gen_random_uuid(), now(), 0)",
            tenant,
            name,
        )

    async with house.db.transaction() as tx:
        count = await retention.forget_edges(tx, [(TENANT, "gone")])

    rows = await house.rows("select tenant, correlation_id from ferryman.execution_edges order by 1, 2")
    assert (count, [tuple(row.values()) for row in rows]) == (1, [(TENANT, "stays"), (OTHER, "gone")])


@pytest.mark.contract("T20", "K12")
async def test_the_walk_finds_what_has_been_over_for_long_and_is_the_last_of_nobody(house: House) -> None:
    """Each turn is judged by its own agent, of its own tenant."""
    found = {}
    for tenant in (TENANT, OTHER):
        for name, derived_from in (("plain", None), ("derived", "eve"), ("owed", "eve")):
            await agents(house, name, tenant=tenant, derived_from=derived_from)
            box = ids.new_id()
            found[tenant, name] = await message(house, name, tenant=tenant, output_box_id=box)
            await house.write(
                "update ferryman.agent_state_head set last_output_box_id = $1, since_at = now() - interval '9 days'"
                " where (tenant, agent_id) = ($2, $3)",
                box,
                tenant,
                name,
            )
    # A task that is still to be sent to one keeps its last turn, and no other does.
    for tenant in (TENANT, OTHER):
        await task(house, "owed", tenant=tenant)
    await task(house, "derived", tenant="third")
    await task(house, "derived", status="success")
    await task(house, "derived", retryable=False)
    # An old name, and an end of yesterday.
    await agents(house, "late", derived_from="eve")
    late = await message(house, "late")
    await house.write("update ferryman.agent_inbox set archived_at = now() - interval '1 day' where id = $1", late)
    await house.travel(timedelta(days=8))
    await house.write(
        "update ferryman.agent_inbox set archived_at = archived_at + interval '8 days' where id = $1", late
    )

    async with house.db.transaction() as tx:
        past = await retention.walk(tx, 10, kept=WEEK, span=100, pace=WEEK, rest=WEEK)

    assert {row["id"] for row in past} == {found[TENANT, "derived"], found[OTHER, "derived"]}
