"""What somebody holds of one turn, in a transaction that he leaves open, keeps no other of the worker waiting (K24, K25)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from ferryman import Budget, Turn
from tests.agents.crew import at_work, end, fresh, send, until
from tests.agents.house import House
from tests.patience import PATIENCE_SECONDS

# Less than a line that is not hurried waits for a lock: 10 s with a long lease, and 4 with that of every day.
LEASE = 300
SOON_SECONDS = 8.0
WAITS = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
HEAD = "select from ferryman.agent_state_head where active_agent_turn_id = $1 for update"
BUDGET = """
select from ferryman.budgets where id = (select budget_id from ferryman.agent_inbox where id = $1) for update
"""


@asynccontextmanager
async def held(house: House, row: str, turn: UUID) -> AsyncIterator[None]:
    """Be somebody who holds a row until a handler waits for it, and longer."""
    async with house.db.transaction() as stranger:
        assert len(await stranger.fetch(row, turn)) == 1
        yield


async def waited_for(house: House) -> bool:
    return bool(await house.value(WAITS))


@pytest.mark.contract("K24", "K25", "A17")
@pytest.mark.parametrize("row", [HEAD, BUDGET], ids=["head", "budget"])
async def test_what_somebody_holds_of_one_turn_keeps_no_other_from_its_steps(
    house: House, database_url: str, row: str
) -> None:
    app = fresh(database_url, **{"worker.lease": LEASE})
    begun, go = asyncio.Event(), asyncio.Event()

    @app.agent
    async def thinker(turn: Turn) -> str:
        begun.set()
        await go.wait()
        return await turn.step("think", str, "thought")

    @app.agent
    async def other(turn: Turn) -> str:
        return await turn.step("think", str, str(turn.instruction))

    async with at_work(app):
        stuck = await send(app, thinker, budget=Budget(tokens=100))
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        async with held(house, row, stuck.id):
            go.set()
            await until(lambda: waited_for(house))
            async with asyncio.timeout(SOON_SECONDS):
                done = [await end(app, other, n, budget=Budget(tokens=100)) for n in ("one", "two", "three")]
        ended = await stuck.end(timeout=PATIENCE_SECONDS)

    assert done == [("success", None, n) for n in ("one", "two", "three")]
    assert str(ended.turn_status) == "success"
    assert await house.broken() == []
