"""Turns that a worker takes in hand and does not run: what was made ready for them goes with the claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from ferryman.agents.model import Release
from ferryman.agents.work.turns import TurnWorker
from ferryman.app import crews
from ferryman.kernel import faults, ids
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.work.worker import Terms
from tests.agents.crew import fresh, send
from tests.patience import PATIENCE_SECONDS

LEASE = timedelta(seconds=10)
TERMS = Terms((), 8, 8, 1, LEASE, grace=LEASE, poll=LEASE, result_limit=1000, version="0")


@asynccontextmanager
async def idle(app: Ferryman) -> AsyncIterator[TurnWorker]:
    """Give a worker of turns whose pump stands still."""
    async with app:
        made = crews.turns(app._open, TERMS, line=app._open.line, boot_id=ids.boot_id())
        try:
            yield made
        finally:
            made.runner.close()
            for line in (*made._worker._lines, made._line):
                await line.close()


@pytest.mark.contract("A9", "K5")
@pytest.mark.parametrize("way", ["handed back", "reclaimed"])
async def test_a_turn_that_is_taken_and_not_run_leaves_no_handler_behind(database_url: str, way: str) -> None:
    app = fresh(database_url)
    ended = asyncio.Event()

    @app.tool(external=True)
    def outside() -> None: ...

    @app.agent
    async def waiter(turn: Turn) -> Any:
        try:
            return await turn.call_tool("outside")
        finally:
            ended.set()

    async with idle(app) as worker:
        crew, [line] = worker._worker._crew, worker._worker._lines
        turn = await send(app, waiter)
        [taken] = (await crew.turn(line, [], 8)).items
        suspended = await crew.run(taken)
        assert suspended is not None
        await crew.turn(line, [suspended], 0)
        [call] = await app.agents.waits(turn.id)
        await app.agents.report(call.tool_call_id, result=1)
        crew.doubt()
        [again] = (await crew.turn(line, [], 8)).items
        assert again.id == turn.id
        assert len(worker.runner._ready) == 1  # with the handler that was kept

        if way == "handed back":
            crew.hand_back(again)  # its lease was over before the answer came
        else:
            assert await crew.reclaim(line, ()) == 1  # the answer never came

        assert worker.runner._ready == {}
        assert await crew.run(again) is None
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)


HELD = "select from ferryman.agent_state_head where active_agent_turn_id = $1 for update"
FREE = """
select head.status, head.ready_at is not null as ready, head.leased_until <= ferryman.clock() as free,
       message.requeue_count as lost
from ferryman.agent_state_head as head
join ferryman.agent_inbox as message on message.id = head.active_agent_turn_id
where message.id = $1
"""


@asynccontextmanager
async def stranger(url: str, turn: Any) -> AsyncIterator[None]:
    """Hold the row of a turn's agent, as whoever asks it for another turn does for a moment."""
    line = Line(url)
    try:
        async with line.transaction() as tx:
            await tx.fetch(HELD, turn)
            yield
    finally:
        await line.close()


async def standing(db: Database, turn: Any) -> tuple[Any, ...]:
    async with db.session() as tx:
        [row] = await tx.fetch(FREE, turn)
    return tuple(row)  # type: ignore[arg-type]  # a record is a sequence


@pytest.mark.contract("K17", "A9")
async def test_a_turn_whose_row_is_held_while_its_worker_drains_is_free_when_it_has_drained(
    database_url: str, db: Database
) -> None:
    app = fresh(database_url, **{"worker.lease": 30})
    begun, stop, brought = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.agent
    async def endless(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app:
        working = asyncio.create_task(app.work(stop=stop, grace=timedelta(0)))
        turn = await send(app, endless)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        async with stranger(database_url, turn.id):
            with faults.armed({"settle.committed": brought.set}):
                stop.set()
                await asyncio.wait_for(brought.wait(), PATIENCE_SECONDS)
        await asyncio.wait_for(working, PATIENCE_SECONDS)

    assert await standing(db, turn.id) == ("running", True, True, 0)


@pytest.mark.contract("K17", "K5")
@pytest.mark.parametrize("way", ["handed back", "reclaimed"])
async def test_a_turn_that_cannot_be_handed_back_while_its_row_is_held_is_not_let_go_of(
    database_url: str, db: Database, way: str
) -> None:
    app = fresh(database_url)

    @app.agent
    async def waiter(turn: Turn) -> None: ...

    async with idle(app) as worker:
        crew, [line] = worker._worker._crew, worker._worker._lines
        turn = await send(app, waiter)
        [taken] = (await crew.turn(line, [], 8)).items
        back = crew.hand_back(taken)
        assert isinstance(back, Release)

        async with stranger(database_url, turn.id):
            left = (await crew.turn(line, [back], 0)).left if way == "handed back" else await crew.reclaim(line, ())
        assert left == ({turn.id} if way == "handed back" else None)
        again = (await crew.turn(line, [back], 0)).left if way == "handed back" else await crew.reclaim(line, ())

    assert again == (set() if way == "handed back" else 1)
    assert await standing(db, turn.id) == ("running", True, True, 0)
