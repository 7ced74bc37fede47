"""How tasks end: after some tries, for want of time, or because somebody says so."""

from __future__ import annotations

import time
from itertools import pairwise

from ferryman.cli.demo.stage import PATIENCE_SECONDS, Stage
from ferryman.kernel import errors
from ferryman.tasks.states import CANCELLED, FAILED, READY, RUNNING, SUCCEEDED


async def stumbling(stage: Stage) -> None:
    """A task that fails twice and succeeds."""
    stage.tale.act("A task that fails twice and succeeds")
    handle = await stage.app.tasks.create("stumble", falls=2)
    answer = await handle.result(timeout=PATIENCE_SECONDS)
    for event, after in pairwise(await stage.app.tasks.events(handle.id)):
        if event.to_state == READY and event.from_state == RUNNING:
            pause = (after.at - event.at).total_seconds()
            stage.tale.tell(f"attempt {event.attempt}: {event.reason_message}; the next {pause:.2f} s later")
    task = await handle.refresh()
    stage.tale.hold(task.attempt == 3 and task.state is SUCCEEDED, f"it {answer}")


async def timing_out(stage: Stage) -> None:
    """A task that takes too long."""
    stage.tale.act("A task that takes longer than its half second")
    handle = await stage.app.tasks.create("dawdle")
    code = None
    try:
        await handle.result(timeout=PATIENCE_SECONDS)
    except errors.FerrymanError as error:
        code = error.code
        stage.tale.tell(str(error.details.get("reason")))
    task = await handle.refresh()
    stage.tale.hold(
        task.state is FAILED and "TASK_TIMEOUT" in (task.last_error_reason or ""),
        f"it ended as a timeout, no try left: {code}",
    )


async def cancelling(stage: Stage) -> None:
    """A task that is cancelled while it runs."""
    stage.tale.act("A task that is cancelled while it runs")
    handle = await stage.app.tasks.create("cross", seconds=30)
    await stage.holder(handle)
    began = time.monotonic()
    await handle.cancel(reason="the story wants it")
    took = (time.monotonic() - began) * 1000
    task = await handle.refresh()
    stage.tale.hold(task.state is CANCELLED, f"cancelled in {took:.0f} ms; the handler is told to stop")
