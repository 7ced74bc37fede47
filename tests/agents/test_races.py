"""What meets at one moment, on connections of its own: one winner, and no head without its message (A3, A5)."""

import asyncio

import pytest

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath
from ferryman.agents.model import Amount, Source
from ferryman.agents.store import budgets
from ferryman.kernel import ids
from ferryman.kernel.pool import Database
from tests.agents.house import TENANT, House
from tests.patience import PATIENCE_SECONDS

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.mark.contract("A3", "A5", "R4")
@pytest.mark.parametrize("others", [0, 1])
async def test_a_turn_that_is_taken_back_while_its_line_moves_is_passed_over(db: Database, others: int) -> None:
    house = House(db)
    taken = await house.begin("ann")
    gone = await house.enqueue("ann", "not any more")
    left = [await house.enqueue("ann", "still") for _ in range(others)]
    async with db.transaction() as tx:
        await intake.cancel(tx, [gone], house.parties, tenant=TENANT, source=Source(), after=Aftermath())
        ending = asyncio.create_task(house.settle(house.success(taken)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await house.value(WAITING):  # noqa: ASYNC110 - another process, PostgreSQL, is watched
                await asyncio.sleep(0.005)
    await ending

    head = await house.head("ann")
    assert (head["status"], head["active_agent_turn_id"]) == (("dispatched", left[0]) if left else ("idle", None))
    assert (await house.turn(gone)).turn_status == "canceled"
    assert await house.broken() == []


@pytest.mark.contract("A21", "K6", "R4")
async def test_turns_that_begin_to_wait_together_spend_from_their_budgets_in_one_order(db: Database) -> None:
    """Whoever waits for a budget holds none behind it: two sets that name them in opposite orders would deadlock."""
    house = House(db)
    first, last = sorted([ids.new_id(), ids.new_id()])
    outcomes = []
    for name, budget in (("ann", last), ("bob", first)):
        async with db.transaction() as tx:
            await budgets.create(tx, tenant=TENANT, id=budget, tokens=None, tool_calls=9, cost=None)
        taken = await house.begin(name, budget=budget)
        async with db.transaction() as tx:
            await budgets.reserve(
                tx, Amount(tool_calls=1), tenant=TENANT, id=budget, turn=taken.id, name=f"call of {name}"
            )
        outcomes.append(house.waits(taken, f"call of {name}", budget=budget))

    async with db.transaction() as stranger:
        await stranger.fetch("select from ferryman.budgets where id = $1 for update", first)
        settling = asyncio.create_task(house.settle(*outcomes))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await house.value(WAITING):  # noqa: ASYNC110 - another process, PostgreSQL, is watched
                await asyncio.sleep(0.005)
        free = await house.rows("select id from ferryman.budgets where id = $1 for update skip locked", last)
    await settling

    assert [row["id"] for row in free] == [last]
    assert await house.rows("select distinct tool_calls_spent from ferryman.budgets") == [{"tool_calls_spent": 1}]
    assert await house.broken() == []
