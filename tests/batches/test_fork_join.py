"""fork_join as users see it: from an agent's turn and from outside, with real workers."""

import asyncio
from typing import Any

import pytest

from ferryman import Ferryman, Turn
from tests.agents.crew import SECONDS, at_work, end, fresh, send, until


def task(ref: str, instruction: str = "go", strategy: str = "new", **more: Any) -> dict[str, Any]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": instruction, **more}


def an_app(database_url: str, **settings: Any) -> Ferryman:
    app = fresh(database_url, **settings)

    @app.agent
    async def child(turn: Turn) -> Any:
        if turn.instruction == "fail":
            raise ValueError("no")
        if turn.instruction == "slow":
            await asyncio.sleep(60)
        return {"summary": f"did {turn.instruction}"}

    @app.agent
    async def parent(turn: Turn) -> Any:
        return await turn.fork_join(**turn.instruction)

    return app


@pytest.mark.contract("B1", "B4", "B6", "B7", "B9", "A9")
async def test_a_turn_forks_children_and_gets_their_results_in_order(database_url: str) -> None:
    async with at_work(an_app(database_url)) as app:
        asked = {"tasks": [task("child", str(n)) for n in range(8)]}
        status, code, result = await end(app, "parent", asked)

        assert (status, code) == ("success", None), result
        assert result["status"] == "success"
        assert [each["task_index"] for each in result["results"]] == list(range(8))
        assert [each["summary"] for each in result["results"]] == [f"did {n}" for n in range(8)]
        assert all(set(each) == {"task_index", "status", "summary", "output_box_id"} for each in result["results"])


@pytest.mark.contract("B10", "B7", "B9")
async def test_a_batch_from_outside_comes_back_partial(database_url: str) -> None:
    async with at_work(an_app(database_url)) as app:
        result = await app.fork_join([task("child", "a"), task("child", "fail"), task("child", "b")])

        assert result["status"] == "partial"
        assert [(each["status"], each.get("error")) for each in result["results"]] == [
            ("success", None), ("failed", "handler_failed"), ("success", None),
        ]  # fmt: skip
