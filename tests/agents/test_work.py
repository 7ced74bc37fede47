"""Turns under a real pump, with tools that are tasks: rung, resumed, stopped, handed back; and workers that are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from ferryman.agents.model import Accepted
from ferryman.app import wiring
from ferryman.kernel import invariants
from tests.agents.house import House
from tests.agents.pilot import build, worker
from tests.crash.yard import TERMS
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SOON = timedelta(seconds=20)


@pytest.mark.contract("A9", "A10", "A11", "K6")
async def test_a_turn_calls_a_tool_and_goes_on_with_its_result(database_url: str) -> None:
    app = build(database_url)
    async with app, app.worker():
        turns = worker(app)
        turns.start()
        await asyncio.gather(*(app.agents.create(f"agent{n}", profile="writer") for n in range(5)))
        answers = await asyncio.gather(*(app.agents.enqueue(f"agent{n % 5}", "write") for n in range(10)))
        assert all(isinstance(each, Accepted) for each in answers)
        records = [await app.agents.wait(each.id, timeout=SOON) for each in answers]  # type: ignore[union-attr]
        await turns.drain(SOON)
        await turns.close()
        async with app.database.transaction() as tx:
            broken = await invariants.check(tx, wiring.invariants())
    assert {record.turn_status for record in records} == {"success"}
    assert broken == []


@pytest.mark.contract("A16", "K17")
async def test_a_stopped_turn_is_taken_from_its_worker(database_url: str) -> None:
    started, gone = asyncio.Event(), asyncio.Event()
    app = build(database_url)

    class Endless:
        profiles = ("writer",)

        async def prepare(self, tx: object, taken: object) -> None:
            pass

        def forget(self, ids: object) -> None:
            pass

        async def run(self, taken: object) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()

    async with app:
        turns = worker(app)
        turns._crew._runs = Endless()
        turns.start()
        await app.agents.create("ann", profile="writer")
        asked = await app.agents.enqueue("ann", "write")
        assert isinstance(asked, Accepted)
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

        assert (await app.agents.stop(asked.id)).status == "accepted"

        record = await app.agents.wait(asked.id, timeout=SOON)
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        await turns.drain(timedelta(0))
        await turns.close()
    assert (record.turn_status, record.error_code) == ("failed", "stopped")


@pytest.mark.contract("K17", "A2")
async def test_a_draining_worker_hands_its_turns_back_at_once(house: House, database_url: str) -> None:
    started = asyncio.Event()
    app = build(database_url)

    class Endless:
        profiles = ("writer",)

        async def prepare(self, tx: object, taken: object) -> None:
            pass

        def forget(self, ids: object) -> None:
            pass

        async def run(self, taken: object) -> None:
            started.set()
            await asyncio.Event().wait()

    async with app:
        turns = worker(app)
        turns._crew._runs = Endless()
        turns.start()
        await house.agent()
        turn = await house.enqueue()
        turns.pump.look()
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await turns.drain(timedelta(0))
        await turns.close()
    [taken] = await house.claim()
    assert (taken.id, taken.was) == (turn, "running")
    assert taken.epoch >= 2  # the other lane may look after it is handed back, and hands it back again
    assert await house.value("select requeue_count from ferryman.agent_inbox") == 0  # nobody died


POINTS = ("claim.committed", "settle.before", "settle.inside", "settle.committed")


@pytest.mark.contract("R1", "W21", "W7", "K5")
async def test_workers_die_at_every_point_and_a_fresh_one_brings_everything_to_its_end(
    house: House, database_url: str
) -> None:
    """Each of the dead leaves turns in its hands; from nothing, one fresh process ends them all, once each."""
    turns: list[UUID] = []
    for n in range(6):
        await house.agent(f"agent{n}")
        turns.append(await house.enqueue(f"agent{n}"))
    environment = {
        **os.environ, **TERMS, "FERRYMAN_DATABASE_URL": database_url,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "FERRYMAN_PMO__DISPATCHED_TIMEOUT_SECONDS": "120",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.agents.pilot"]
    for point in POINTS:
        armed = {**environment, "FERRYMAN_FAULTS": f"{point}=kill@2"}
        died = await asyncio.to_thread(
            subprocess.run, command, env=armed, cwd=ROOT, capture_output=True, timeout=60, check=False
        )
        if died.returncode == 0:
            break  # everything had ended before this one could die
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    fresh = await asyncio.to_thread(
        subprocess.run, command, env=environment, cwd=ROOT, capture_output=True, timeout=90, check=False
    )

    assert fresh.returncode == 0, fresh.stderr.decode()
    assert [await house.ends(turn) for turn in turns] == [[("success", None)]] * len(turns)
    assert await house.broken() == []
