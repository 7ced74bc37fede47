"""Ended turns are kept for their time, and then leave whole; nothing live loses what it needs (T20)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.agents import intake, watch
from ferryman.agents.ends import Aftermath
from ferryman.agents.intake import budgets
from ferryman.agents.model import Amount, Order, Source, Taken
from ferryman.agents.store import budgets as spending
from ferryman.agents.store import retention
from ferryman.kernel import errors, ids, watchdog
from ferryman.kernel.pool import Line
from tests.agents.house import OTHER, TENANT, House
from tests.patience import PATIENCE_SECONDS
from tests.sql import walking

WEEK = timedelta(days=7)
RULE = watch.retention(kept=WEEK)
PARTS = (
    "agent_inbox", "turn_waiting_tools", "turn_resume_ledger", "agent_steps", "execution_edges", "boxes", "cards",
    "budgets", "budget_reservations",
)  # fmt: skip


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url)
    yield line
    await line.close()


async def walk(house: House, line: Line, *, after: timedelta = timedelta(days=8)) -> int:
    await house.travel(after)
    await house.write("update ferryman.retention set next_at = '-infinity'")
    told = await walking.past(line, "turn", kept=WEEK)
    acted = (await watchdog.tick(line, [RULE])).acted()
    assert told == acted, "doctor counts what the walk finds"
    return acted


async def counts(house: House) -> dict[str, int]:
    return {name: await house.value(f"select count(*) from ferryman.{name}") for name in PARTS}


async def done(house: House, agent_id: str = "ann", **more: Any) -> UUID:
    """Let an agent have a turn that has ended."""
    turn = await house.enqueue(agent_id, **more)
    [taken] = await house.claim()
    await house.settle(house.success(taken))
    return turn


async def whole(house: House) -> UUID:
    """Let a turn leave a trace in every table, and end."""
    budget = ids.new_id()
    async with house.db.transaction() as tx:
        await budgets.create(tx, budget, tenant=TENANT, tokens=10, tool_calls=1, cost=None)
    taken = await house.begin(budget=budget, source=Source(agent_id="boss", turn=ids.new_id(), depth=0))
    async with house.db.transaction() as tx:
        await spending.reserve(tx, Amount(tokens=1), tenant=TENANT, id=budget, turn=taken.id, name="think")
    await house.settle(house.waits(taken, "c1"))
    await house.report("c1")
    await house.travel(31)
    [again] = await house.claim(owner=OTHER)
    await house.stop(taken.id)
    await house.carry_out_stops()
    assert again.id == taken.id
    return taken.id


@pytest.mark.contract("T20", "A13")
async def test_a_turn_leaves_whole_when_its_time_is_over_and_the_log_stays(house: House, line: Line) -> None:
    turn = await whole(house)
    # What was reserved is freed at the end; one that was left is planted.
    assert [name for name, count in (await counts(house)).items() if not count] == ["budget_reservations"]
    await house.write(
        "insert into ferryman.budget_reservations (tenant, budget_id, agent_turn_id, name, created_at)"
        " select tenant, id, $1, 'left', now() from ferryman.budgets",
        turn,
    )
    last = await done(house)
    events = await house.value("select count(*) from ferryman.events")
    # Another tenant has used the same names.
    theirs = ids.new_id()
    await house.write(
        "insert into ferryman.turn_resume_ledger select (jsonb_populate_record(ledger, jsonb_build_object('tenant', 'other',"
        " 'agent_turn_id', $1::uuid))).* from ferryman.turn_resume_ledger as ledger",
        theirs,
    )
    await house.write(
        "insert into ferryman.execution_edges select (jsonb_populate_record(edge, jsonb_build_object('tenant', 'other',"
        " 'source_turn_id', null))).* from ferryman.execution_edges as edge where edge.correlation_id = 'c1'"
    )

    early = await walk(house, line, after=timedelta(days=6))
    acted = await walk(house, line, after=timedelta(days=2))

    assert (early, acted > 0) == (0, True)
    assert [row["id"] for row in await house.rows("select id from ferryman.agent_inbox")] == [last]
    # The last turn of an agent stays: its output is what a clone begins with.
    assert await counts(house) == dict.fromkeys(PARTS, 0) | {
        "agent_inbox": 1, "execution_edges": 2, "boxes": 2, "cards": 2, "turn_resume_ledger": 1,
    }  # fmt: skip
    assert await house.value("select count(*) from ferryman.events") == events
    assert await house.rows("select from ferryman.agents where agent_id = 'ann'") != []
    assert turn != last
    assert await house.broken() == []
    assert await walk(house, line) == 0


@pytest.mark.contract("T20")
async def test_the_walk_goes_page_by_page_and_passes_over_what_is_young(house: House, line: Line) -> None:
    now = datetime.now(UTC)
    chosen = UUID("ffffffff-0000-4000-8000-000000000000")
    ids_ = [*sorted(walking.old(now, timedelta(days=9)) for _ in range(2)), chosen]
    young = [walking.old(now, timedelta(days=1)), walking.old(now, timedelta(0))]
    for id in [*ids_, *young]:
        await house.write(
            "insert into ferryman.agent_inbox (id, tenant, created_at, look_at, ends_at, archived_at, agent_id, message_type,"
            " correlation_id, status) values ($1, 'default', now(), now(), now(), now() - interval '8 days', 'ann', 'stop', $2,"
            " 'consumed')",
            id,
            str(id),
        )

    await walking.assert_walks(house.db, line, retention.walk, "turn", ids_)


async def lively(house: House) -> Taken:
    """Let a turn live that has left a trace in every table."""
    taken = await house.begin("boss", source=Source(agent_id="user", turn=ids.new_id(), depth=0))
    await house.settle(house.waits(taken, "before"))
    await house.report("before")
    [again] = await house.claim()
    await house.settle(house.waits(again, ("long", 1e6)))
    await house.write(
        "insert into ferryman.agent_steps (tenant, agent_turn_id, kind, name, id, started_at, turn_epoch, agent_id, status)"
        " values ('default', $1, 'step', 'think', $1, now(), 1, 'boss', 'completed')",
        taken.id,
    )
    await house.write(
        "insert into ferryman.budget_reservations (tenant, budget_id, agent_turn_id, name, created_at)"
        " values ('default', $1, $1, 'left', now())",
        taken.id,
    )
    return again


async def traces(house: House, turn: UUID) -> tuple[int, ...]:
    """Count what a turn has left in each table."""
    [row] = await house.rows(
        "select (select count(*) from ferryman.turn_waiting_tools where agent_turn_id = $1),"
        " (select count(*) from ferryman.turn_resume_ledger where agent_turn_id = $1) as ledger,"
        " (select count(*) from ferryman.agent_steps where agent_turn_id = $1) as steps,"
        " (select count(*) from ferryman.execution_edges where $1::text in (correlation_id, target_turn_id::text)"
        "  or correlation_id in ('before', 'long')) as edges,"
        " (select count(*) from ferryman.budget_reservations where agent_turn_id = $1) as reserved",
        turn,
    )
    return tuple(row.values())


@pytest.mark.contract("T20")
@pytest.mark.parametrize("whose", ["a live turn's", "a held one's"])
async def test_what_has_not_ended_or_is_held_is_never_deleted_whoever_asks(house: House, whose: str) -> None:
    live, ended = await lively(house), await whole(house)
    async with house.db.transaction() as other, house.db.transaction() as tx:
        if whose == "a held one's":
            await other.fetch("select from ferryman.agent_inbox where id = $1 for update", ended)
        async with asyncio.timeout(PATIENCE_SECONDS):
            gone = await retention.forget(tx, [live.id, ended])

    assert [row["id"] for row in gone] == ([ended] if whose == "a live turn's" else [])
    assert await traces(house, live.id) == (2, 1, 1, 2, 1)


@pytest.mark.contract("T20")
async def test_nothing_live_loses_what_it_reads(house: House, line: Line) -> None:
    for name in ("ann", "bob", "eve"):
        await house.agent(name)
    box_of = "select output_box_id from ferryman.agent_inbox where id = $1"
    given, taken_over = await done(house, "bob"), await done(house, "eve")
    await done(house, "bob")
    await done(house, "eve")
    [card] = await house.rows(
        "select card.id from ferryman.agent_inbox as m join ferryman.cards as card on card.id = m.deliverable_card_id"
        " where m.id = $1",
        taken_over,
    )
    boss = await lively(house)
    before = await traces(house, boss.id)
    asked = await done(house, source=Source(agent_id="boss", turn=boss.id, depth=0))
    await done(house)
    reader = await house.enqueue(context_box=await house.value(box_of, given), instruction=None)
    async with house.db.transaction() as tx:
        order = Order(tenant=TENANT, agent_id="ann", turn=ids.new_id(), instruction="x", inherited=(card["id"],))
        await intake.enqueue(tx, [order], house.parties, after=Aftermath())

    await walk(house, line)

    left = {row["id"] for row in await house.rows("select id from ferryman.agent_inbox")}
    assert {given, asked, boss.id, reader, order.turn} <= left
    assert taken_over not in left
    assert await traces(house, boss.id) == before == (2, 1, 1, 2, 1)
    assert await house.rows("select from ferryman.cards where id = $1", card["id"]) != []
    async with house.db.session() as tx:
        read = await intake.read.cards(
            tx, await house.value(box_of.replace("output", "context"), order.turn), tenant=TENANT
        )
    assert card["id"] in [each.id for each in read]


@pytest.mark.contract("T20")
async def test_a_box_that_is_used_again_stays_for_its_new_time(house: House, line: Line) -> None:
    await house.agent()
    await house.agent("bob")
    first = await done(house)
    await done(house)
    await house.travel(timedelta(days=5))
    box = await house.value("select output_box_id from ferryman.agent_inbox where id = $1", first)
    await done(house, "bob", context_box=box, instruction=None)
    await done(house, "bob")

    await walk(house, line, after=timedelta(days=4))
    kept = await house.rows("select from ferryman.boxes where id = $1", box)
    await walk(house, line, after=timedelta(days=4))

    assert kept != []
    assert await house.rows("select from ferryman.agent_inbox where id = $1", first) == []


@pytest.mark.contract("T20")
async def test_a_derived_agent_goes_with_its_last_turn_and_one_that_is_busy_stays(house: House, line: Line) -> None:
    for name in ("gone", "busy"):
        await house.agent(name, derived_from="ann")
        await done(house, name)
    await house.travel(timedelta(days=8))
    live = await house.enqueue("busy")

    await walk(house, line, after=timedelta(0))

    assert [row["agent_id"] for row in await house.rows("select agent_id from ferryman.agents")] == ["busy"]
    assert [row["agent_id"] for row in await house.rows("select agent_id from ferryman.agent_state_head")] == ["busy"]
    assert live in {row["id"] for row in await house.rows("select id from ferryman.agent_inbox")}
    assert await house.value("select count(*) from ferryman.boxes") == 4


@pytest.mark.contract("T20")
async def test_an_agent_goes_with_its_own_turn_alone_though_another_wrote_into_the_same_box(house: House) -> None:
    for name in ("ann", "bob"):
        await house.agent(name, derived_from="eve")
    first = await done(house, "ann")
    box = await house.value("select output_box_id from ferryman.agent_inbox where id = $1", first)
    await done(house, "bob", output_box=box)
    async with house.db.transaction() as tx:
        await retention.forget(tx, [first])

    assert [row["agent_id"] for row in await house.rows("select agent_id from ferryman.agents")] == ["bob"]


@pytest.mark.contract("T20", "A21")
async def test_a_budget_that_is_used_again_outlives_the_turn_it_was_made_for(house: House, line: Line) -> None:
    await house.agent()
    budget = ids.new_id()
    terms: Any = {"tenant": TENANT, "id": budget}
    async with house.db.transaction() as tx:
        await budgets.create(tx, budget, tenant=TENANT, tokens=10, tool_calls=1, cost=None)
    await done(house, budget=budget)
    await done(house)
    await house.travel(timedelta(days=5))
    async with house.db.transaction() as tx:
        await spending.reserve(tx, Amount(tokens=1), turn=ids.new_id(), name="x", **terms)
        await tx.fetch("update ferryman.budget_reservations set name = name")
        [row] = await tx.fetch("select agent_turn_id from ferryman.budget_reservations")
        await spending.spend(tx, Amount(tokens=1), turn=row["agent_turn_id"], name="x", **terms)

    await walk(house, line, after=timedelta(days=4))

    assert await house.value("select count(*) from ferryman.budgets") == 1


@pytest.mark.contract("T20", "K23", "K24")
async def test_a_crash_in_the_middle_leaves_nothing_half_and_two_watchdogs_walk_once(house: House, line: Line) -> None:
    await whole(house)
    await done(house)
    await house.travel(timedelta(days=8))
    before = await counts(house)

    async def die() -> None:
        async with line.transaction() as tx:
            found = await retention.walk(tx, 9, kept=WEEK, span=99, pace=WEEK, rest=WEEK)
            await retention.forget(tx, [row["id"] for row in found])
            [row] = await tx.fetch("select pg_backend_pid() as pid")
            # Until it is gone: what it held is passed over by those who come next.
            await house.rows("select pg_terminate_backend($1, 20000)", row["pid"])
            await tx.fetch("select 1")

    with pytest.raises(errors.DatabaseUnavailable):
        await die()
    assert await counts(house) == before
    lines = [Line(line.url) for _ in range(2)]
    reports = await asyncio.gather(*(watchdog.tick(each, [RULE]) for each in lines))
    for each in lines:
        await each.close()

    assert sorted(report.acted() > 0 for report in reports) == [False, True]
    assert (await counts(house))["agent_inbox"] == 1
