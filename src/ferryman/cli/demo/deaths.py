"""What becomes of tasks whose workers die or freeze."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

from ferryman.cli.demo.handlers import CRATES, RESTS_AFTER
from ferryman.cli.demo.hands import LEASE_SECONDS, Hand
from ferryman.cli.demo.stage import LOOK_SECONDS, PATIENCE_SECONDS, Stage
from ferryman.tasks.states import RUNNING, SUCCEEDED

SWEEP_SECONDS = 1
SLACK_SECONDS = 0.5  # of a machine that does something else beside the story


async def killing(stage: Stage) -> None:
    """A worker that is killed in the middle of a task."""
    stage.tale.act(f"A worker is killed with SIGKILL in the middle (lease {LEASE_SECONDS} s)")
    handle = await stage.app.tasks.create("cross", seconds=1.5)
    victim = await stage.holder(handle)
    await _kill(stage, victim)
    killed = await stage.now()
    answer = await handle.result(timeout=PATIENCE_SECONDS)
    again = [event.at for event in await stage.app.tasks.events(handle.id) if event.to_state == RUNNING][-1]
    recovery = (again - killed).total_seconds()
    stage.measured.recovery_seconds = recovery
    promised = LEASE_SECONDS + SWEEP_SECONDS
    late, load = recovery > promised + SLACK_SECONDS, os.getloadavg()[0]
    excuse = f", late: this machine has a load of {load:.0f}" if late and load > (os.cpu_count() or 1) else ""
    stage.tale.hold(
        answer["pid"] != victim.pid and (not late or bool(excuse)),
        f"worker {answer['pid']} ran it again {recovery:.2f} s after the kill (promised: {promised} s{excuse})",
    )
    task = await handle.refresh()
    stage.tale.hold(task.state is SUCCEEDED and task.attempt == 2, "it succeeded at attempt 2")


async def _kill(stage: Stage, victim: Hand) -> None:
    stage.tale.tell(f"worker {victim.pid} holds it; kill -KILL {victim.pid}")
    victim.send(signal.SIGKILL)
    await victim.process.wait()


async def surviving(stage: Stage) -> None:
    """A workflow whose worker is killed between two of its steps."""
    stage.tale.act(f"A workflow of {len(CRATES)} steps; its worker is killed after step {RESTS_AFTER}")
    with tempfile.TemporaryDirectory(prefix="ferryman-demo-") as folder:
        ledger = Path(folder) / "ledger"
        handle = await stage.app.tasks.create("load", ledger=str(ledger))
        victim = await stage.holder(handle)
        stage.tale.tell(f"in the ledger: {_spelled(_read(ledger))}")
        await _kill(stage, victim)
        stage.tale.tell(f"worker {(await stage.hands.start()).pid} is started in its place")
        answer = await handle.result(timeout=PATIENCE_SECONDS)
        calls = _read(ledger)
    stage.measured.steps, stage.measured.step_calls = len(CRATES), len(calls)
    stage.tale.tell(f"worker {answer['pid']} went on: {_spelled(calls[RESTS_AFTER:])}")
    stage.tale.hold(
        [crate for crate, _pid in calls] == list(CRATES),
        f"{len(CRATES)} steps, {len(calls)} calls in the ledger: no step was done again",
    )
    doers = [pid == victim.pid for _crate, pid in calls]
    stage.tale.hold(
        doers == [n < RESTS_AFTER for n in range(len(CRATES))] and answer["attempt"] == 2,
        f"what was done before the kill stood; attempt {answer['attempt']} did the rest",
    )


def _read(ledger: Path) -> list[tuple[str, int]]:
    """Read which steps were really done, and by which process."""
    lines = (line.split() for line in ledger.read_text().splitlines())
    return [(crate, int(pid)) for crate, pid in lines]


def _spelled(calls: list[tuple[str, int]]) -> str:
    return ", ".join(crate for crate, _pid in calls)


async def freezing(stage: Stage) -> None:
    """A worker that is frozen, loses its task, and comes back."""
    await stage.crew(2)
    stage.tale.act("A worker is frozen with SIGSTOP, and wakes up too late")
    handle = await stage.app.tasks.create("insist", seconds=1.0)
    frozen = await stage.holder(handle)
    before = await frozen.fenced()
    stage.tale.tell(f"worker {frozen.pid} holds it; kill -STOP {frozen.pid}")
    frozen.send(signal.SIGSTOP)
    try:
        answer = await handle.result(timeout=PATIENCE_SECONDS)
    finally:
        frozen.send(signal.SIGCONT)
    stage.tale.tell(f"worker {answer['pid']} took it over and finished it; kill -CONT {frozen.pid}")
    stage.measured.fenced = await _fenced(frozen, above=before) - before
    task = await handle.refresh()
    stage.tale.hold(stage.measured.fenced > 0, f"the late result of worker {frozen.pid} was fenced: it touched nothing")
    stage.tale.hold(
        answer["pid"] != frozen.pid and task.state is SUCCEEDED and task.attempt == 2,
        "the successor's result stands",
    )


async def _fenced(hand: Hand, *, above: int) -> int:
    """Wait until a worker has sent a late result, and say how many it has."""
    until = time.monotonic() + PATIENCE_SECONDS
    count = await hand.fenced()
    while count <= above and time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        count = await hand.fenced()
    return count
