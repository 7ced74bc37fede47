"""K17: a worker that is told to go finishes what it can, hands back the rest at once, and loses nothing."""

import os
import signal
from pathlib import Path

import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import LEASE_SECONDS, until

# So long a lease that nothing in these tests can be the end of one.
LONG = {"FERRYMAN_WORKER__LEASE": "300s", "FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS": "100"}


def heard(folder: Path) -> dict[str, str]:
    """Arm a fault that does nothing, but is written down: so it is known when the first ship has heard the signal."""
    return {"FERRYMAN_FAULTS": "drain.begun=delay:0", "FERRYMAN_FAULTS_LOG": str(folder / "ship0.faults")}


@pytest.mark.contract("K17")
async def test_running_work_finishes_within_the_grace_period(database_url: str, ship: Launch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, 4, gate=str(gate))
    worker = ship(database_url).start(**LONG, FERRYMAN_WORKER__GRACE="60s")
    await worker.seen("start", count=4)

    worker.signal(signal.SIGTERM)
    gate.touch()

    assert await worker.ended() == 0
    await judge.judge(database_url, held, worker.lines())
    assert worker.lines("abort") == []


@pytest.mark.contract("K17", "T7")
@pytest.mark.parametrize("owing", [False, True], ids=["plain", "owing"])
async def test_the_rest_is_handed_back_at_once_and_uses_no_attempt(
    owing: bool, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await (cargo.load_owing if owing else cargo.load)(database_url, 4, gate=str(gate))
    leaver = ship(database_url).start(**LONG, FERRYMAN_WORKER__GRACE="0.2s")
    await leaver.seen("start", count=4)
    successor = ship(database_url).start(**LONG)
    await successor.seen("working")

    leaver.signal(signal.SIGTERM)
    await successor.seen("start", count=4)

    assert await leaver.ended() == 0
    rows = await judge.read(database_url, "select state, attempt, epoch from ferryman.tasks")
    assert [tuple(row) for row in rows] == [("running", 1, 2)] * 4
    gate.touch()
    await judge.all_ended(database_url)
    await judge.judge(database_url, held, [*leaver.lines(), *successor.lines()])
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K17", "W13")
async def test_a_worker_killed_while_it_drains_loses_nothing(database_url: str, ship: Launch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, 4, gate=str(gate))
    leaver = ship(database_url).start(**heard(tmp_path), FERRYMAN_WORKER__GRACE="60s")
    await leaver.seen("start", count=4)
    leaver.signal(signal.SIGTERM)
    await until(lambda: leaver.strikes("drain.begun"), "the leaver to stop claiming", also=leaver.output)
    os.kill(leaver.pid, signal.SIGKILL)
    await leaver.ended()

    gate.touch()
    successor = ship(database_url).start()
    await judge.all_ended(database_url)

    await judge.judge(database_url, held, [*leaver.lines(), *successor.lines()])
    both_there = max(line["at"] for line in [*leaver.lines("start"), *successor.lines("working")])
    assert max(line["at"] for line in successor.lines("start")) - both_there < LEASE_SECONDS + 6.0
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("K17")
async def test_nothing_is_claimed_while_a_worker_drains(database_url: str, ship: Launch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(database_url, 1, gate=str(gate))
    leaver = ship(database_url).start(**LONG, **heard(tmp_path), FERRYMAN_WORKER__GRACE="60s")
    await leaver.seen("start")
    leaver.signal(signal.SIGTERM)
    await until(lambda: leaver.strikes("drain.begun"), "the leaver to stop claiming", also=leaver.output)
    later = await cargo.load(database_url, 3)
    successor = ship(database_url).start(**LONG)
    await successor.seen("end", count=3)

    gate.touch()
    assert await leaver.ended() == 0
    await judge.all_ended(database_url)

    assert {line["task"] for line in leaver.lines("start")} == set(held)
    await judge.judge(database_url, [*held, *later], [*leaver.lines(), *successor.lines()])
