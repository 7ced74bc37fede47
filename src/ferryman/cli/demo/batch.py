"""An agent that asks eight others at once: one fails, one is slow, and the join comes back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from ferryman.agents.work.turn import Turn
from ferryman.app.ferryman import Ferryman
from ferryman.cli.demo.stage import PATIENCE_SECONDS, Stage

SHOPS = 8
WRONG, SLOW = 3, 5
SLOW_SECONDS = 0.8


def register(app: Ferryman) -> None:
    """Let an app have the buyer and those it asks."""

    @app.agent(tools=[])
    async def shop(turn: Turn) -> dict[str, Any]:
        """Say a price; one cannot, and one takes its time."""
        number = int(turn.instruction.rpartition(" ")[2])
        if number == WRONG:
            raise ValueError("sold out")
        if number == SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        return {"summary": f"shop {number}: {90 + number} coins"}

    @app.agent
    async def buyer(turn: Turn) -> Any:
        """Ask every shop at once."""
        tasks = [
            {"target_strategy": "new", "target_ref": "shop", "instruction": f"the price of a rope, shop {n}"}
            for n in range(SHOPS)
        ]
        return await turn.fork_join(tasks, **turn.instruction)


async def forking(stage: Stage) -> None:
    """A batch that comes back partial, and one that fails fast."""
    stage.tale.act(f"An agent asks {SHOPS} others at once: one fails, one is slow, and the join comes back")
    await stage.app.agents.ensure("bea", "buyer")
    result, took = await _ask(stage, {})
    for each in result["results"]:
        stage.tale.tell(
            f"{each['task_index']}: {each['status']:<9} {each.get('summary', each.get('error', ''))}", mark="  "
        )
    met = Counter(each["status"] for each in result["results"])
    stage.tale.hold(
        result["status"] == "partial" and met == {"success": SHOPS - 1, "failed": 1},
        f"partial after {took:.1f} s: {met['success']} answers in the order asked, one failure, and nobody was lost",
    )
    result, took = await _ask(stage, {"fail_fast": True})
    left = sum(each["status"] == "canceled" for each in result["results"])
    stage.tale.hold(
        result["status"] == "failed" and result["results"][SLOW]["status"] == "canceled",
        f"with fail_fast: back after {took * 1000:.0f} ms; {left} that had not ended {'was' if left == 1 else 'were'} stopped",
    )


async def _ask(stage: Stage, asked: dict[str, Any]) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    turn = await stage.app.agents.send("bea", asked)
    return await turn.result(timeout=PATIENCE_SECONDS), time.monotonic() - began
