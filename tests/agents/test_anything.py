"""Turns, steps and tools that return or raise anything end their own turn only (R6, K25): worker and neighbours go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from ferryman.kernel.errors import ToolFailed
from tests.agents.crew import at_work, fresh
from tests.patience import PATIENCE_SECONDS
from tests.tasks.anything import ANYTHING

CODES = {"result_not_serializable", "handler_failed"}


async def ends(app: Ferryman, profile: str) -> dict[str, tuple[str, str | None, Any]]:
    """Let one agent of the profile meet each of them, all at once."""

    async def one(number: int, what: str) -> tuple[str, str | None, Any]:
        await app.agents.ensure(f"{profile}-{number}", profile)
        turn = await app.agents.send(f"{profile}-{number}", what)
        found = await turn.end(timeout=PATIENCE_SECONDS)
        return str(found.turn_status), found.error_code, await turn.deliverable(found)

    answers = await asyncio.gather(*(one(number, what) for number, what in enumerate(ANYTHING)))
    return dict(zip(ANYTHING, answers, strict=True))


@pytest.mark.contract("R6", "K25", "A16")
async def test_a_turn_a_step_or_a_tool_that_does_anything_ends_its_own_turn_only(database_url: str) -> None:
    app = fresh(database_url)

    @app.tool(retries=0)
    async def trick(what: str) -> Any:
        return ANYTHING[what][0]()

    @app.agent
    async def rogue(turn: Turn) -> Any:
        return ANYTHING[turn.instruction][0]()

    @app.agent
    async def stumbler(turn: Turn) -> Any:
        async def stumble() -> Any:
            return ANYTHING[turn.instruction][0]()

        return await turn.step("stumble", stumble)

    @app.agent
    async def user(turn: Turn) -> str:
        try:
            return f"came to {await turn.call_tool('trick', what=turn.instruction)}"
        except ToolFailed as error:
            return f"failed: {error.code}"

    @app.agent
    async def sound(turn: Turn) -> str:
        return str(turn.instruction)

    async with at_work(app, concurrency=6):
        for profile in ("rogue", "stumbler"):
            told = {what: end[:2] for what, end in (await ends(app, profile)).items()}
            assert {what: end for what, end in told.items() if end[0] != "failed" or not end[1]} == {}, profile
            if profile == "rogue":
                assert {end[1] for end in told.values()} <= CODES
        used = await ends(app, "user")
        assert {what: end for what, end in used.items() if end[0] != "success" or "failed" not in str(end[2])} == {}
        # Nobody's place was lost, and no worker died of it.
        beside = {what: end[2] for what, end in (await ends(app, "sound")).items()}
        assert beside == {what: what for what in ANYTHING}
