"""R2: a worker frozen past its lease comes back, before or after its successor has ended the work: it changes nothing."""

import os
import signal
from pathlib import Path
from uuid import UUID

import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import Ship, keep_house, until
from tests.freeze import freeze, stands_still
from tests.spread import paired

# Where the zombie freezes: with the claim unknown to it, before its handler, with a result in hand, on the way to settle it,
# inside the transaction that settles it, and while it renews its lease.
PLANS = {
    "claim.committed": "claim.committed=stop@1",
    "handler.started": "handler.started=stop@1",
    "handler.returned": "handler.returned=stop@1",
    "settle.before": "settle.before=stop@1",
    "settle.inside": "settle.inside=stop@1",
    "renew.before": "renew.before=stop@1",
}
ENDS = ("before it comes back", "after it has come back")


async def frozen(zombie: Ship, point: str) -> None:
    await until(lambda: zombie.strikes(point), f"the fault at {point}", also=zombie.output)
    await stands_still(zombie.pid)


async def holders(url: str, table: str) -> set[int]:
    """Give the backends whose open transactions have rows of a table in hand."""
    rows = await judge.read(
        url,
        "select pid from pg_locks where relation = $1::text::regclass and granted"
        " and mode in ('RowShareLock', 'RowExclusiveLock')",
        table,
    )
    return {row["pid"] for row in rows}


async def living(url: str) -> set[int]:
    """Give all backends that there are."""
    return {row["pid"] for row in await judge.read(url, "select pid from pg_stat_activity")}


@pytest.mark.contract("R2", "K4", "T7")
@pytest.mark.parametrize(("point", "ends"), paired(PLANS, ENDS))
async def test_a_frozen_worker_cannot_overwrite_its_successor(
    point: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    load = cargo.load_owing if point == "settle.inside" else cargo.load
    # The zombie must reach its point; its successor ends when the test says so.
    gate = tmp_path / "gate"
    gated = point in ("claim.committed", "handler.started", "renew.before")
    if not gated:
        gate.touch()
    [task] = await load(database_url, 1, gate=str(gate))
    zombie = ship(database_url).start(FERRYMAN_FAULTS=PLANS[point], FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults"))
    await frozen(zombie, point)
    if not gated:
        gate.unlink()

    successor = ship(database_url).start()
    await successor.seen("start", task=task)
    if ends == "before it comes back":
        gate.touch()
        await judge.all_ended(database_url)
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")
    else:
        os.kill(zombie.pid, signal.SIGCONT)
        await zombie.seen("fenced")
        gate.touch()
        await judge.all_ended(database_url)

    lines = [*zombie.lines(), *successor.lines()]
    await judge.judge(database_url, [task], lines)
    [row] = await judge.read(database_url, "select state, epoch, attempt from ferryman.tasks")
    # A claim whose answer did not come in time is made anew, on a busy machine: what counts is the last, and not the zombie's.
    assert row["state"] == "succeeded"
    assert row["epoch"] == max(line["epoch"] for line in lines if line["what"] == "start") > 1
    assert row["attempt"] > 1
    assert await cargo.broken(database_url) == []
    if point == "settle.inside":
        assert await cargo.debts(database_url) == [1]


@pytest.mark.contract("R2", "K5")
async def test_a_worker_frozen_and_thawed_within_its_lease_keeps_its_work(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """While it is frozen a lease that is over is reaped, and its own is not."""
    # Or the worker would take a database that nobody has watched for one after an outage, and give all a grace of its lease.
    await keep_house(ship(database_url))
    gate = tmp_path / "gate"
    [task] = await cargo.load(database_url, 1, gate=str(gate))
    worker = ship(database_url).start(FERRYMAN_WORKER__LEASE="300s")
    await worker.seen("start", task=task)
    await freeze(worker.pid)
    [other] = await cargo.load(database_url, 1, gate=str(gate))
    dead = ship(database_url).start()
    await dead.seen("start", task=other)
    os.kill(dead.pid, signal.SIGKILL)
    await dead.ended()
    witness = ship(database_url).start()
    await witness.seen("start", task=other)

    os.kill(worker.pid, signal.SIGCONT)
    gate.touch()
    await judge.all_ended(database_url)

    await judge.judge(database_url, [task, other], [*worker.lines(), *dead.lines(), *witness.lines()])
    [row] = await judge.read(database_url, "select epoch, attempt from ferryman.tasks where id = $1", UUID(task))
    assert tuple(row) == (1, 1)


@pytest.mark.contract("K4", "R2")
async def test_a_thawed_worker_goes_on_with_new_work(database_url: str, ship: Launch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    [task] = await cargo.load(database_url, 1, gate=str(gate))
    zombie = ship(database_url).start()
    await zombie.seen("start", task=task)
    await freeze(zombie.pid)
    successor = ship(database_url).start()
    await successor.seen("start", task=task)
    os.kill(zombie.pid, signal.SIGCONT)
    await zombie.seen("abort", task=task)
    os.kill(successor.pid, signal.SIGKILL)
    await successor.ended()

    later = await cargo.load(database_url, 5)
    gate.touch()
    await judge.all_ended(database_url)

    await judge.judge(database_url, [task, *later], [*zombie.lines(), *successor.lines()])
    assert {line["task"] for line in zombie.lines("end")} == {task, *later}


@pytest.mark.contract("R2", "T19", "T7")
async def test_a_frozen_worker_cannot_write_a_step_of_what_its_successor_holds(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    [task] = await cargo.load(database_url, 1, name="voyage")
    zombie = ship(database_url).start(
        FERRYMAN_FAULTS="step.before=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults")
    )
    await frozen(zombie, "step.before")

    successor = ship(database_url).start()
    await successor.seen("ran", task=task, step="load")
    os.kill(zombie.pid, signal.SIGCONT)
    await zombie.seen("fenced", move="step")
    await judge.all_ended(database_url)

    # Once the zombie is back both may work on; what it ran under its lost claim is not remembered.
    lines = [line for line in [*zombie.lines(), *successor.lines()] if (line["what"], line.get("epoch")) != ("ran", 1)]
    await judge.judge(database_url, [task], [*zombie.lines(), *successor.lines()])
    await judge.remembered(database_url, [task], lines)
    assert await cargo.broken(database_url) == []


async def stopped(zombie: Ship) -> None:
    """Let a frozen process go on and leave: all that it had in hand has been tried when it is gone."""
    os.kill(zombie.pid, signal.SIGCONT)
    os.kill(zombie.pid, signal.SIGTERM)
    await zombie.seen("stopped")


@pytest.mark.contract("R2", "T11", "T10", "K4")
@pytest.mark.parametrize(("point", "ends"), paired(["fire.held", "fire.written", "fire.committed"], ENDS))
async def test_a_scheduler_frozen_past_its_transaction_fires_nothing_twice(
    point: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """The server ends what it left open, and another fires; after its commit it has nothing left but to ring.

    It reads what is due and writes under one lock, so it never comes to its fence: that is in sql/test_schedules.py.
    """
    count, gate = 6, tmp_path / "gate"
    if ends == "before it comes back":
        gate.touch()
    await cargo.load_schedules(database_url, count, gate=str(gate))
    zombie = ship(database_url).start(
        FERRYMAN_FAULTS=f"{point}=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults")
    )
    await frozen(zombie, point)
    held = await holders(database_url, "ferryman.schedules")
    fired = await judge.read(database_url, "select id from ferryman.tasks")
    assert len(fired) == (count if point == "fire.committed" else 0)
    successor = ship(database_url).start()
    await judge.all_fired(database_url, count)
    await successor.seen("start", count=count)
    assert held - await living(database_url) or point == "fire.committed"
    if ends == "before it comes back":
        await judge.all_ended(database_url)

    await stopped(zombie)
    gate.touch()
    await judge.all_ended(database_url)

    fired = await judge.read(database_url, "select schedule, count(*) as n from ferryman.tasks group by schedule")
    assert [row["n"] for row in fired] == [1] * count
    told = await judge.read(
        database_url,
        "select sum(fired) as fired, sum(missed) as missed, sum(skipped) as skipped from ferryman.schedules",
    )
    assert tuple(told[0]) == (count, 0, 0)
    await judge.judge(database_url, [], [*zombie.lines(), *successor.lines()])
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R2", "W13", "W23")
@pytest.mark.parametrize("point", ["watchdog.found", "watchdog.acted"])
async def test_a_watchdog_that_was_frozen_reaps_nothing_twice(
    point: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """It comes back with what it found, or finds its transaction ended, while another has the tasks in hand."""
    await keep_house(ship(database_url))
    gate = tmp_path / "gate"
    acknowledged = await cargo.load(database_url, 4, gate=str(gate))
    first = ship(database_url, lives=["handler.started=kill@4"]).start()
    await first.seen("died")
    zombie = ship(database_url, patient=point == "watchdog.found")
    zombie.start(FERRYMAN_FAULTS=f"{point}=stop@1", FERRYMAN_FAULTS_LOG=str(zombie.faults_file))
    await frozen(zombie, point)
    successor = ship(database_url).start(FERRYMAN_WORKER__LEASE="30s")
    await successor.seen("start", count=4)

    await stopped(zombie)

    # The dead used one attempt of each; two watchdogs that took it back would have used two.
    rows = await judge.read(database_url, "select state, attempt, epoch from ferryman.tasks")
    assert [tuple(row) for row in rows] == [("running", 2, 2)] * 4
    gate.touch()
    await judge.all_ended(database_url)
    await judge.judge(database_url, acknowledged, [*first.lines(), *zombie.lines(), *successor.lines()])
    assert await cargo.broken(database_url) == []


@pytest.mark.contract("R2", "W13", "K5")
async def test_a_watchdog_that_was_frozen_reaps_no_lease_that_was_renewed_meanwhile(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    await keep_house(ship(database_url))
    gate = tmp_path / "gate"
    [task] = await cargo.load(database_url, 1, gate=str(gate))
    # It does not judge its own lease when it comes back.
    holder = ship(database_url).start(FERRYMAN_WORKER__LEASE_SWEEP_SECONDS="1000")
    await holder.seen("start", task=task)
    await freeze(holder.pid)
    zombie = ship(database_url, patient=True)
    zombie.start(FERRYMAN_FAULTS="watchdog.found=stop@1", FERRYMAN_FAULTS_LOG=str(zombie.faults_file))
    await frozen(zombie, "watchdog.found")
    os.kill(holder.pid, signal.SIGCONT)
    await judge.all_held(database_url)

    await stopped(zombie)

    [row] = await judge.read(database_url, "select state, attempt, epoch from ferryman.tasks")
    assert tuple(row) == ("running", 1, 1)
    gate.touch()
    await judge.all_ended(database_url)
    await judge.judge(database_url, [task], [*holder.lines(), *zombie.lines()])
    assert zombie.lines("start") == holder.lines("abort") == []
