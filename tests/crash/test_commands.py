"""R1, R2 for commands: killed between any two steps, frozen past a lease: nothing stays, and nothing is done twice."""

import os
import signal
from pathlib import Path

import pytest

from tests.crash import judge, orders
from tests.crash.conftest import Launch
from tests.crash.test_zombies import ENDS, frozen
from tests.spread import KILLS, paired

# Nothing but commands is worked on here, so each point is passed by a mapping, a capability or what follows one.
LIVES = {
    "claim.sent": "claim.sent=kill@2",
    "claim.committed": "claim.committed=kill@1",
    "handler.started": "handler.started=kill@3",
    "handler.returned": "handler.returned=kill@3",
    "command.processed": "command.processed=kill@1",
    "async_task.settled": "async_task.settled=kill@1",
    "settle.before": "settle.before=kill@1",
    "settle.inside": "settle.inside=kill@1",
    "settle.committed": "settle.committed=kill@2",
    "renew.before": "renew.before=kill@1",
    "drain.begun": "drain.begun=kill@1",
}


@pytest.mark.contract("R1", "C2", "C7", "K6")
@pytest.mark.parametrize("point", LIVES)
async def test_commands_survive_the_death_of_their_workers_at_every_point(
    point: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"  # shut only where work must be in hand for a while
    held = point in ("renew.before", "drain.begun")
    if not held:
        gate.touch()
    acknowledged = await orders.send(database_url, 12, gate=str(gate))
    worker = ship(database_url, lives=[*[LIVES[point]] * KILLS, ""]).start()

    for life in range(1, KILLS + 1 if point == "drain.begun" else 1):
        begun = await worker.seen("working", count=life)
        await worker.seen("start", pid=begun["pid"])
        os.kill(begun["pid"], signal.SIGTERM)
    await worker.seen("died", count=KILLS)
    gate.touch()
    await orders.all_ended(database_url)

    assert worker.strikes(point) == KILLS
    assert [line["signal"] for line in worker.lines("died")][:KILLS] == [signal.SIGKILL] * KILLS
    await orders.done_once(database_url, acknowledged)


# Before its commit a sender leaves nothing, after it all; in both cases its next life sends the same keys again.
SENDER_POINTS = ("command.sent", "command.committed")


@pytest.mark.contract("R1", "C1", "K11")
@pytest.mark.parametrize("point", SENDER_POINTS)
async def test_a_sender_that_dies_sends_nothing_twice_and_nothing_half(
    point: str, database_url: str, ship: Launch
) -> None:
    kills = KILLS
    sender = ship(database_url, role="sender", count=6, lives=[*[f"{point}=kill@2"] * kills, ""]).start()
    await sender.seen("stopped")
    worker = ship(database_url).start()

    await orders.all_ended(database_url)

    assert sender.strikes(point) == kills
    # What was committed before its sender died is met by the next life.
    hits = sum(line["hit"] for line in sender.lines("ok"))
    assert hits == (kills if point == "command.committed" else 0)
    acknowledged = {line["key"]: line["task"] for line in sender.lines("ok")}
    assert len(acknowledged) == 6
    await orders.done_once(database_url, list(acknowledged.values()))
    assert worker.alive()


# The first to return is the mapping; the second a capability.
STOPS = {
    "a plan in hand": "handler.returned=stop@1",
    "a plan half written": "command.processed=stop@1",
    "a result in hand": "handler.returned=stop@2",
    "an end half written": "async_task.settled=stop@1",
}


@pytest.mark.contract("R2", "K4", "C6")
@pytest.mark.parametrize(("stop", "ends"), paired(STOPS, ENDS))
async def test_a_frozen_worker_ends_nothing_of_its_successors(
    stop: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """It wakes with what its successor is doing, or has done."""
    gate = tmp_path / "gate"
    gate.touch()
    acknowledged = await orders.send(database_url, 1, gate=str(gate))
    plan = {"FERRYMAN_FAULTS": STOPS[stop], "FERRYMAN_FAULTS_LOG": str(tmp_path / "ship0.faults")}
    zombie = ship(database_url).start(**plan)
    await frozen(zombie, STOPS[stop].partition("=")[0])
    gate.unlink()
    successor = ship(database_url).start()
    await successor.seen("start")
    if ends == "after it has come back":
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")
    gate.touch()
    await orders.all_ended(database_url)
    before = await judge.read(database_url, "select * from ferryman.async_tasks order by id")

    if ends == "before it comes back":
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")

    assert before == await judge.read(database_url, "select * from ferryman.async_tasks order by id")
    await orders.done_once(database_url, acknowledged)
