"""What people read of agents and turns, page by page; nobody sees another tenant's."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import pytest

from ferryman.agents import intake
from ferryman.agents.intake.timeline import timeline
from ferryman.agents.model import Amount, Box, Card, NewAgent, Source
from ferryman.agents.store import budgets, inbox
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
        await intake.cards.pack(tx, facts, [Box(TENANT, box, order), Box(TENANT, empty, ())])

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


async def test_an_inbox_shows_what_is_not_done_with_oldest_first(house: House) -> None:
    running = await house.begin()
    await house.travel(1)
    waiting = await house.enqueue()
    await house.travel(1)
    gone = await house.enqueue()
    await house.cancel(gone)
    await house.agent("bob")
    await house.enqueue("bob")
    async with house.db.transaction() as tx:
        await intake.create(tx, [NewAgent("other", "ann", "writer")])

    async def messages(*, tenant: str = TENANT, limit: int = 10) -> list[tuple[UUID, str]]:
        async with house.db.session() as tx:
            found = await intake.read.messages(tx, "ann", tenant=tenant, limit=limit)
        return [(each.id, each.status) for each in found]

    assert await messages() == [(running.id, "processing"), (waiting, "queued")]
    assert await messages(limit=1) == [(running.id, "processing")]
    assert await messages(tenant="other") == []


@pytest.mark.contract("A11")
async def test_the_calls_of_a_turn_are_read_with_their_deadlines(house: House) -> None:
    taken = await house.suspend(("one", 60.0), ("two", 90.0))
    await house.travel(1)
    await house.report("two")

    async with house.db.session() as tx:
        found = await intake.read.waits_of(tx, taken.id, tenant=TENANT)
        hidden = await intake.read.waits_of(tx, taken.id, tenant="other")

    assert [(each.tool_call_id, each.wait_status, each.status) for each in found] == [
        ("one", "waiting", None), ("two", "received", "success"),
    ]  # fmt: skip
    assert [(each.deadline_at - each.created_at).total_seconds() for each in found] == [60.0, 90.0]
    assert hidden == []


@pytest.mark.contract("A6")
async def test_edges_tell_who_asked_for_a_turn_and_whom_it_asked(house: House) -> None:
    parent = await house.begin()
    source = Source(agent_id="ann", turn=parent.id, depth=0)
    for name in ("bob", "cleo"):
        await house.agent(name)
    first = await house.enqueue("bob", source=source)
    await house.travel(1)
    stranger = await house.enqueue("cleo")
    second = await house.enqueue("cleo", source=source)
    await house.cancel(second)
    for primitive, phase in (("enqueue", "response"), ("wakeup", "request")):
        await house.write(
            """insert into ferryman.execution_edges (tenant, correlation_id, primitive, edge_phase, id, created_at,
                   recursion_depth) values ($1, $2, $3, $4, $5, ferryman.clock(), 0)""",
            TENANT, str(first), primitive, phase, ids.new_id(),
        )  # fmt: skip

    async def edges(turn: UUID, *, tenant: str = TENANT) -> list[tuple[object, ...]]:
        async with house.db.session() as tx:
            found = await intake.read.edges(tx, turn, tenant=tenant)
        return [(each.primitive, each.source_turn_id, each.target_turn_id, each.status) for each in found]

    assert await edges(parent.id) == [
        ("enqueue", None, parent.id, None), ("enqueue", parent.id, first, "dispatched"),
        ("enqueue", parent.id, second, "canceled"),
    ]  # fmt: skip
    assert await edges(first) == [("enqueue", parent.id, first, "running")]
    assert await edges(stranger) == [("enqueue", None, stranger, None)]
    assert await edges(parent.id, tenant="other") == []


@pytest.mark.contract("A21")
async def test_a_turns_budget_tells_what_was_spent_and_what_is_reserved(house: House) -> None:
    budget, other = ids.new_id(), ids.new_id()
    async with house.db.transaction() as tx:
        await budgets.create(tx, tenant=TENANT, id=budget, tokens=100, tool_calls=None, cost=1.0)
        await budgets.create(tx, tenant=TENANT, id=other, tokens=5, tool_calls=None, cost=None)
    taken = await house.begin("ann", budget=budget)
    stranger = await house.begin("bob", budget=other)
    free = await house.begin("cleo")
    async with house.db.transaction() as tx:
        for name, tokens in (("a", 30), ("b", 20)):
            await budgets.lock(tx, tenant=TENANT, id=budget)
            amount = Amount(tokens=tokens)
            assert await budgets.reserve(tx, amount, tenant=TENANT, id=budget, turn=taken.id, name=name)
        assert await budgets.spend(tx, Amount(tokens=25), tenant=TENANT, id=budget, turn=taken.id, name="a")
        await budgets.lock(tx, tenant=TENANT, id=other)
        assert await budgets.reserve(tx, Amount(tokens=4), tenant=TENANT, id=other, turn=stranger.id, name="a")
        await budgets.create(tx, tenant="other", id=budget, tokens=100, tool_calls=None, cost=None)
        await budgets.lock(tx, tenant="other", id=budget)
        assert await budgets.reserve(tx, Amount(tokens=9), tenant="other", id=budget, turn=taken.id, name="a")

    async with house.db.session() as tx:
        found = await intake.read.budget(tx, taken.id, tenant=TENANT)
        hidden = await intake.read.budget(tx, taken.id, tenant="other")
        none = await intake.read.budget(tx, free.id, tenant=TENANT)

    assert found is not None
    assert (found.tokens_limit, found.tokens_spent, found.tokens_held) == (100, 25, 20)
    assert (found.tool_calls_limit, float(found.cost_limit), float(found.cost_held)) == (None, 1.0, 0.0)
    assert hidden is None
    assert none is None
