"""What tasks wait for without a worker: their children, a person's word, a free slot."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from ferryman.cli.demo.handlers import STRAIT, STRAIT_SLOTS
from ferryman.cli.demo.stage import PATIENCE_SECONDS, Stage
from ferryman.tasks.states import READY, RUNNING, SUCCEEDED

CHILDREN = 5
BOATS = 40
PILOTS = 2
ROOM = 2
THINKING_SECONDS = 1.0


async def approving(stage: Stage) -> None:
    """A workflow that waits for its children, and then for a person."""
    stage.tale.act(f"A workflow with {CHILDREN} children and a join, and a person who must approve")
    handle = await stage.app.tasks.create("quote", shops=CHILDREN)
    told = await stage.explained(handle, "waiting_for_event")
    claims = [event for event in await stage.app.tasks.events(handle.id) if event.to_state == RUNNING]
    children = await stage.app.tasks.list(name="price")
    # More than once only if a child ended before its parent had parked.
    woken = "once" if len(claims) == 2 else f"{len(claims) - 1} times"
    stage.tale.hold(
        [(child.state, child.attempt) for child in children] == [(SUCCEEDED, 1)] * CHILDREN,
        f"{len(children)} children ended, each ran once; their parent was woken {woken}",
    )
    for reason in told.reasons:
        stage.tale.tell(reason.says)
    task, held = await handle.refresh(), await stage.held()
    stage.tale.hold(
        task.state is READY and task.lease_owner is None and held == 0,
        f"it is {task.state.value}, held by nobody: all workers together hold {held} tasks",
    )
    await asyncio.sleep(THINKING_SECONDS)
    began = time.monotonic()
    await handle.send_event("approval", {"by": "Ada"})
    answer = await handle.result(timeout=PATIENCE_SECONDS)
    took = (time.monotonic() - began) * 1000
    stage.tale.tell(repr(answer))
    task = await handle.refresh()
    stage.tale.hold(
        task.state is SUCCEEDED and task.attempt == 1,
        f"it ended {took:.0f} ms after the approval, still at attempt {task.attempt}",
    )


async def limiting(stage: Stage) -> None:
    """More tasks than their queue lets run at once."""
    stage.tale.act(f"{BOATS} tasks in a queue that lets {STRAIT_SLOTS} run at once")
    there = len(stage.hands.alive)
    # One has less room than the queue and both have more: together they reach the limit, and only it holds them back.
    pilots = [await stage.hands.start("--queues", STRAIT, "--concurrency", str(ROOM)) for _ in range(PILOTS)]
    came = len(await stage.crew(there + PILOTS)) - there
    stage.tale.hold(came == PILOTS, f"{came} workers came for this queue alone, with room for {ROOM} tasks each")
    with tempfile.TemporaryDirectory(prefix="ferryman-demo-") as folder:
        sluice = Path(folder) / "open"
        boats = [{"boat": boat, "sluice": str(sluice)} for boat in range(BOATS)]
        handles = await stage.app.tasks.create_many("pass_through", boats)
        told = await stage.explained(handles[-1], "queue_limit")
        stage.tale.tell(f"explain the last one: {told.doing}")
        for reason in told.reasons:
            stage.tale.tell(f"{reason.says} ({reason.code})", mark="  ")
        stage.tale.hold("queue_limit" in told.codes(), f"what it waits for is a slot of {STRAIT}")
        sluice.touch()
        passed = await asyncio.gather(*(handle.result(timeout=PATIENCE_SECONDS) for handle in handles))
    most = max(sum(each["began"] <= at < each["ended"] for each in passed) for at in (each["began"] for each in passed))
    stage.measured.limited = len(passed)
    stage.measured.most_at_once = most
    pids = {each["pid"] for each in passed}
    stage.tale.hold(
        most == STRAIT_SLOTS and pids == {pilot.pid for pilot in pilots},
        f"{len(passed)} ran, in {len(pids)} processes; by their own clocks at most {most} at once",
    )
    await asyncio.gather(*(pilot.leave() for pilot in pilots))
