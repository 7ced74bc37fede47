"""What people read of agents and turns, page by page; nobody sees another tenant's."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import pytest

from ferryman.agents import intake
from ferryman.agents.intake.timeline import timeline
from ferryman.agents.model import Card, NewAgent, Source
from ferryman.agents.store import inbox
from ferryman.kernel import ids
from tests.agents.house import TENANT, House

pytestmark = pytest.mark.contract("A17", "K12")


async def test_agents_are_listed_by_name_a_page_at_a_time(house: House) -> None:
    for name in ("dan", "ann", "cleo", "bob"):
        await house.agent(name, profile="reader" if name == "bob" else "writer")
    await house.enqueue("cleo")
    async with house.db.transaction() as tx:
        await intake.create(tx, [NewAgent("other", "abe", "writer")])

    async def listed(**which: object) -> list[str]:
        asked = {"tenant": TENANT, "profile": None, "status": None, "after": "", "limit": 10, **which}
        async with house.db.session() as tx:
            return [each.agent_id for each in await intake.read.listed(tx, **asked)]  # type: ignore[arg-type]

    assert await listed() == ["ann", "bob", "cleo", "dan"]
    assert await listed(limit=2) == ["ann", "bob"]
    assert await listed(after="bob") == ["cleo", "dan"]
    assert await listed(profile="reader") == ["bob"]
    assert await listed(status="dispatched") == ["cleo"]
    assert await listed(tenant="other") == ["abe"]


async def test_an_agents_turns_are_listed_newest_first(house: House) -> None:
    taken = await house.suspend("one")
    await house.report("one")  # a message of the turn, and no turn itself
    await house.travel(1)
    second = await house.enqueue()
    await house.travel(1)
    third = await house.enqueue()
    await house.agent("bob")
    await house.enqueue("bob")

    async def turns(
        *, agent: str = "ann", tenant: str = TENANT, limit: int = 10, before: datetime | None = None
    ) -> list[UUID]:
        async with house.db.session() as tx:
            return [
                each.id for each in await intake.read.turns_of(tx, agent, tenant=tenant, before=before, limit=limit)
            ]

    edge = (await house.turn(third)).created_at
    assert await turns() == [third, second, taken.id]
    assert await turns(limit=1) == [third]
    assert await turns(before=edge) == [second, taken.id]
    assert await turns(tenant="other") == []
    assert len(await turns(agent="bob")) == 1


async def test_turns_of_one_moment_are_read_on_after_the_last_of_a_page(house: House) -> None:
    await house.agent()
    made = [await house.enqueue(instruction=n) for n in range(4)]
    await house.write("update ferryman.agent_inbox set created_at = '2026-01-01Z'")
    await house.write("update ferryman.agent_inbox set created_at = '2025-01-01Z' where id = $1", made[0])
    order = [*sorted(made[1:], reverse=True), made[0]]

    async def after(last: UUID) -> list[UUID]:
        edge = (await house.turn(last)).created_at
        async with house.db.session() as tx:
            page = await intake.read.turns_of(tx, "ann", tenant=TENANT, before=edge, last=last, limit=2)
        return [each.id for each in page]

    assert [await after(each) for each in order] == [order[1:3], order[2:4], order[3:4], []]


async def test_the_cards_of_a_box_are_read_in_order_a_page_at_a_time(house: House) -> None:
    box, empty = ids.new_id(), ids.new_id()
    facts = [
        Card(tenant=TENANT, id=ids.new_id(), type="agent.thought", role="agent", author="ann", content=n)
        for n in range(3)
    ]
    order = [facts[2].id, facts[0].id, facts[1].id]
    async with house.db.transaction() as tx:
        await intake.cards.pack(tx, facts, {box: order, empty: []}, tenant=TENANT)

    async def read(box: UUID, *, tenant: str = TENANT, after: int = 0, limit: int | None = None) -> list[UUID] | None:
        async with house.db.session() as tx:
            found = await intake.read.page_of(tx, box, tenant=tenant, after=after, limit=limit)
        return None if found is None else [each.id for each in found]

    assert await read(box) == order
    assert await read(box, limit=2) == order[:2]
    assert await read(box, after=1, limit=1) == order[1:2]
    assert await read(box, after=3) == []
    assert await read(empty) == []
    assert await read(ids.new_id()) is None
    assert await read(box, tenant="other") is None


async def test_a_timeline_tells_moves_and_calls_of_one_turn_in_order(house: House) -> None:
    taken = await house.suspend("one", "two")
    await house.suspend("other", agent_id="bob")
    await house.travel(1)
    await house.report("two", content={"status": "failed", "error": {"code": "x", "message": "y"}})

    async with house.db.session() as tx:
        told = await timeline(tx, taken.id, tenant=TENANT)
        hidden = await timeline(tx, taken.id, tenant="other")

    assert [(each.kind, each.name, each.status) for each in told if each.kind == "state"] == [
        ("state", state, state) for state in ("dispatched", "running", "suspended")
    ]
    calls = [each for each in told if each.kind == "call"]
    assert [(each.details["tool_call_id"], each.status) for each in calls] == [("one", "waiting"), ("two", "failed")]
    assert [each.until is None for each in calls] == [True, False]
    assert [each.at for each in told] == sorted(each.at for each in told)
    assert hidden == []


async def test_only_live_turns_that_a_turn_delegated_are_its_children(house: House) -> None:
    parent = await house.begin()
    source = Source(agent_id="ann", turn=parent.id, depth=0)
    for name in ("bob", "cleo", "dan"):
        await house.agent(name)
    child = await house.enqueue("bob", source=source, callback="delegate", callback_ref=f"{TENANT}/ann/x")
    ended = await house.enqueue("cleo", source=source, callback="delegate", callback_ref=f"{TENANT}/ann/y")
    await house.enqueue("dan", source=source)  # asked for, but by no call
    await house.write(
        """update ferryman.agent_inbox set archived_at = ferryman.clock(), pending_at = null, status = 'skipped'
           where id = $1""",
        ended,
    )

    async with house.db.session() as tx:
        found = await inbox.delegated(tx, [parent.id], tenants=[TENANT])
        elsewhere = await inbox.delegated(tx, [parent.id], tenants=["other"])
        nobody = await inbox.delegated(tx, [ids.new_id()], tenants=[TENANT])

    assert [row["id"] for row in found] == [child]
    assert list(elsewhere) == list(nobody) == []
