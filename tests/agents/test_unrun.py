"""Turns that a worker takes in hand and does not run: what was made ready for them goes with the claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from ferryman.agents.work.turns import TurnWorker
from ferryman.app import crews
from ferryman.kernel import ids
from ferryman.tasks.work.worker import Terms
from tests.agents.crew import SECONDS, fresh, send

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
        await asyncio.wait_for(ended.wait(), SECONDS)
