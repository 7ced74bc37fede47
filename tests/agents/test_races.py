"""What meets at one moment, on connections of its own: one winner, and no head without its message (A3, A5)."""

import asyncio

import pytest

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath
from ferryman.agents.model import Source
from ferryman.kernel.pool import Database
from tests.agents.house import TENANT, House

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
        async with asyncio.timeout(20):
            while not await house.value(WAITING):  # noqa: ASYNC110 - another process, PostgreSQL, is watched
                await asyncio.sleep(0.005)
    await ending

    head = await house.head("ann")
    assert (head["status"], head["active_agent_turn_id"]) == (("dispatched", left[0]) if left else ("idle", None))
    assert (await house.turn(gone)).turn_status == "canceled"
    assert await house.broken() == []
