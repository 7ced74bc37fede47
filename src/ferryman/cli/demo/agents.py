"""An agent whose worker dies while it waits for a person."""

from __future__ import annotations

import asyncio
import signal
import time

from ferryman.app.turns import TurnHandle
from ferryman.cli.demo.stage import LOOK_SECONDS, PATIENCE_SECONDS, Stage
from ferryman.kernel import payload

QUESTION = "How does a ferry cross a river?"


async def researching(stage: Stage) -> None:
    """A turn that waits for an editor; its worker is killed meanwhile, and another goes on."""
    stage.tale.act("An agent with two tools waits for a person; its worker is killed, and another goes on")
    await stage.app.agents.ensure("ada", "assistant")
    turn = await stage.app.agents.send("ada", QUESTION)
    call = await _waits(stage, turn)
    told = await stage.app.tasks.explain(turn.id)
    stage.tale.tell(f"explain: {told.doing}")
    for reason in told.reasons:
        stage.tale.tell(reason.says, mark="  ")
    held = await stage.held()
    stage.tale.hold(told.state == "suspended" and held == 0, f"it is suspended: all workers together hold {held} tasks")
    steps = [each for each in await turn.timeline() if each.kind == "step"]
    victim = await _drafter(stage, turn)
    stage.tale.tell(f"worker {victim} made the draft; kill -KILL {victim}")
    hand = stage.hands.by_pid(victim)
    hand.send(signal.SIGKILL)
    await hand.process.wait()
    began = time.monotonic()
    await stage.app.agents.report(call, result="print it")
    answer = await turn.result(timeout=PATIENCE_SECONDS)
    took = (time.monotonic() - began) * 1000
    after = [each for each in await turn.timeline() if each.kind == "step"]
    stage.tale.tell(repr(answer["text"]))
    stage.tale.hold(
        answer["pids"][0] == victim != answer["pids"][1] and len(after) == len(steps) + 1,
        f"worker {answer['pids'][1]} went on {took:.0f} ms after the answer; of {len(after)} steps none was done twice",
    )
    used = sum(each.details.get("input_tokens", 0) + each.details.get("output_tokens", 0) for each in after)
    stage.tale.tell(f"{used} tokens, each counted once")
    await stage.hands.start()


async def _waits(stage: Stage, turn: TurnHandle) -> str:
    """Wait until the turn waits for its editor, and return the call."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for each in await turn.timeline():
            if each.kind == "call" and each.name == "ask_editor":
                return str(each.details["tool_call_id"])
        await asyncio.sleep(LOOK_SECONDS)
    raise TimeoutError("the turn never came to ask its editor")


async def _drafter(stage: Stage, turn: TurnHandle) -> int:
    """Say who made the draft, by what its step remembers."""
    steps = await stage.app.agents.steps(turn.id)
    [draft] = [each for each in steps if each.name == "draft"]
    return int(payload.decode(draft.result or "{}")["pid"])
