"""What a claim of turns takes, what it leaves, and what it writes: every guard of the statement has its row here (A1, K5)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from ferryman.agents.model import Taken
from ferryman.agents.store import heads
from tests.agents.house import OTHER, OWNER, House
from tests.patience import PATIENCE_SECONDS

TABLES = {
    "agent_state_head": "active_agent_turn_id", "agent_inbox": "agent_turn_id", "turn_waiting_tools": "agent_turn_id",
    "turn_resume_ledger": "agent_turn_id",
}  # fmt: skip
# What keeps a turn that is otherwise ready from being claimed: what is written of its head, or of its message.
KEPT_FROM = {
    "of another profile": "update ferryman.agent_state_head set profile = 'painter' where agent_id = $1",
    "for another worker": "update ferryman.agent_state_head set worker_target = 'gpu' where agent_id = $1",
    "owed to a stranger": "update ferryman.agent_state_head set callback = 'strange' where agent_id = $1",
    "not due": "update ferryman.agent_state_head set ready_at = ready_at + interval '1 h' where agent_id = $1",
    "over": "update ferryman.agent_state_head set turn_deadline = ferryman.clock() where agent_id = $1",
    "without a message": "delete from ferryman.agent_inbox where agent_id = $1",
    "with one that failed": "update ferryman.agent_inbox set status = 'error', pending_at = null, archived_at = now()"
    " where agent_id = $1",
}


async def rows(house: House, table: str) -> dict[str, list[Any]]:
    """Read a table by the turns that its rows belong to."""
    found: dict[str, list[Any]] = {}
    for row in await house.rows(f"select * from ferryman.{table} order by 1, 2"):
        found.setdefault(str(row[TABLES[table]]), []).append(row)
    return found


async def suspended(house: House, agent: str, *calls: str) -> Taken:
    """Let a turn go on once, with a result, and wait again, for these calls."""
    taken = await house.suspend(f"{agent}-first", agent_id=agent)
    await house.report(f"{agent}-first")
    [again] = await house.claim()
    await house.settle(house.waits(again, *calls))
    assert again.id == taken.id
    return again


async def set_scene(house: House) -> dict[str, Taken]:
    """Let there be a turn for every reason to be claimed, and for every reason not to be; answer with those to be claimed."""
    await house.begin("run")  # in somebody's hands
    running = {name: await suspended(house, name, f"{name}-2", f"{name}-1") for name in ("bob", "cas", "dan", "hal")}
    for answered in ("dan-1", "dan-2"):
        await house.report(answered)
    [running["dan"]] = await house.claim()
    async with house.db.transaction() as tx:
        await heads.release(tx, [running["dan"].id], [running["dan"].epoch], owner=OWNER)
    for name, call in (("bob", 2), ("bob", 1), ("cas", 2), ("cas", 1), ("hal", 1)):
        await house.report(f"{name}-{call}", content={"status": "success", "result": f"{name} {call}"})
    # One call is still waited for, whatever the head says.
    await house.write("update ferryman.agent_state_head set ready_at = ferryman.clock() where agent_id = 'hal'")
    for reason, sql in KEPT_FROM.items():
        name = reason.replace(" ", "-")
        await house.agent(name)
        await house.enqueue(name)
        await house.write(sql, name)
    for name in ("ann", "held"):
        await house.agent(name)
        await house.enqueue(name)
    await house.agent("idle")
    return running


@pytest.mark.contract("A1", "A2", "A12", "K5")
async def test_a_claim_takes_what_is_ready_for_it_and_writes_nothing_else(house: House) -> None:
    running = await set_scene(house)
    before = {table: await rows(house, table) for table in TABLES}

    async with house.db.transaction() as other:
        await other.fetch("select from ferryman.agent_state_head where agent_id = 'held' for update")
        async with asyncio.timeout(PATIENCE_SECONDS):
            taken = {each.agent_id: each for each in await house.claim(owner=OTHER)}

    assert {name: (each.was, each.epoch) for name, each in taken.items()} == {
        "ann": ("dispatched", 1), "bob": ("suspended", 3), "cas": ("suspended", 3), "dan": ("running", 4),
    }  # fmt: skip
    # Each with what it was suspended for, and not with what it had before; a replay reads all.
    results = {
        name: [(call.tool_call_id, call.result) for call in taken[name].results] for name in ("ann", "bob", "cas")
    }
    assert results == {"ann": []} | {
        name: [(f"{name}-{n}", f'{{"result": "{name} {n}", "status": "success"}}') for n in (1, 2)]
        for name in ("bob", "cas")
    }
    ids = {str(each.id) for each in taken.values()}
    for table, was in before.items():
        now = await rows(house, table)
        assert {turn for turn in was if was[turn] != now[turn]} <= ids, table
    assert all(taken[name].id == running[name].id for name in ("bob", "cas", "dan"))
    states = (
        "select string_agg(distinct status, ',') from ferryman.{} where agent_turn_id = $1 and tool_call_id like $2"
    )
    for name in ("bob", "cas"):
        head = await house.head(name)
        assert (head["status"], head["lease_owner"], head["ready_at"]) == ("running", OTHER, None)
        assert await house.value(states.format("turn_resume_ledger"), taken[name].id, f"{name}-_") == "processing"
        waits = states.replace("distinct status", "distinct wait_status").format("turn_waiting_tools")
        assert await house.value(waits, taken[name].id, f"{name}-_") == "applied"
    message = "select status from ferryman.agent_inbox where id = $1"
    assert [await house.value(message, each.id) for each in taken.values()] == ["processing"] * 4


@pytest.mark.contract("A3")
async def test_of_one_tenant_the_oldest_come_first_as_many_as_there_is_room_for(house: House) -> None:
    for name, minutes in (("ann", 3), ("bob", 1), ("cas", 2)):
        await house.agent(name)
        await house.enqueue(name)
        await house.write(
            "update ferryman.agent_state_head set ready_at = ferryman.clock() - $1::interval where agent_id = $2",
            timedelta(minutes=minutes),
            name,
        )

    assert [each.agent_id for each in await house.claim(room=2)] == ["ann", "cas"]
