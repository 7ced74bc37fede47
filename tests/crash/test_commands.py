"""R1, R2 for commands: killed between any two steps, frozen past a lease: nothing stays, and nothing is done twice."""

import os
import signal
from pathlib import Path

import pytest

from tests.crash import judge, orders
from tests.crash.conftest import Launch
from tests.crash.test_zombies import frozen

# One life for each: after the claim, with a plan in hand, with the plan half written, with it written, with ends half written,
# and after a commit of which nobody was told.
LIVES = {
    "claim.committed": "claim.committed=kill@1",
    "handler.returned": "handler.returned=kill@3",
    "command.processed": "command.processed=kill@1",
    "settle.inside": "settle.inside=kill@1",
    "async_task.settled": "async_task.settled=kill@1",
    "settle.committed": "settle.committed=kill@2",
}


@pytest.mark.contract("R1", "C2", "C7", "K6")
async def test_commands_survive_the_death_of_their_workers_at_every_point(database_url: str, ship: Launch) -> None:
    acknowledged = await orders.send(database_url, 12)
    worker = ship(database_url, lives=[*LIVES.values(), ""]).start()

    await orders.all_ended(database_url)

    assert {point: worker.strikes(point) for point in LIVES} == dict.fromkeys(LIVES, 1)
    assert [line["signal"] for line in worker.lines("died")][: len(LIVES)] == [signal.SIGKILL] * len(LIVES)
    await orders.done_once(database_url, acknowledged)


@pytest.mark.contract("R1", "C1", "K11")
async def test_a_sender_that_dies_sends_nothing_twice_and_nothing_half(database_url: str, ship: Launch) -> None:
    kills = 2
    sender = ship(database_url, role="sender", count=6, lives=[*["command.sent=kill@2"] * kills, ""]).start()
    await sender.seen("stopped")
    worker = ship(database_url).start()

    await orders.all_ended(database_url)

    assert sender.strikes("command.sent") == kills
    acknowledged = {line["key"]: line["task"] for line in sender.lines("ok")}
    assert len(acknowledged) == 6
    await orders.done_once(database_url, list(acknowledged.values()))
    assert worker.alive()


@pytest.mark.contract("R2", "K4", "C6")
async def test_a_frozen_worker_ends_nothing_of_its_successors(database_url: str, ship: Launch, tmp_path: Path) -> None:
    """It wakes with a result in hand for an async task that its successor has ended."""
    gate = tmp_path / "gate"
    gate.touch()
    acknowledged = await orders.send(database_url, 1, gate=str(gate))
    # The first to return is the mapping; the second a capability.
    plan = {"FERRYMAN_FAULTS": "handler.returned=stop@2", "FERRYMAN_FAULTS_LOG": str(tmp_path / "ship0.faults")}
    zombie = ship(database_url).start(**plan)
    await frozen(zombie, "handler.returned")
    ship(database_url).start()
    await orders.all_ended(database_url)
    before = await judge.read(database_url, "select * from ferryman.async_tasks order by id")

    os.kill(zombie.pid, signal.SIGCONT)
    await zombie.seen("fenced")

    assert before == await judge.read(database_url, "select * from ferryman.async_tasks order by id")
    await orders.done_once(database_url, acknowledged)
