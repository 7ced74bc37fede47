"""The result of a claim that is no longer current is ignored and counted (T7, K4, K5)."""

import asyncio
import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ferryman import Context
from ferryman.kernel import faults, loop, telemetry, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Line
from ferryman.tasks import watch
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import READY, RUNNING
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp


def counted(move: str) -> float:
    return telemetry.registry().get_sample_value("ferryman_fenced_total", {"domain": "task", "move": move}) or 0.0


@pytest.mark.contract("T7", "K4", "K19")
async def test_a_result_of_a_claim_that_was_taken_over_is_ignored_and_counted(make_app: MakeApp) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def waits() -> str:
        started.set()
        await go.wait()
        return "too late"

    app = await make_app(waits)
    handle = await app.tasks.create(waits)
    before = counted("settle")
    async with app.worker(lease=timedelta(minutes=10)):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        async with app.database.session() as tx:
            await tx.fetch("update ferryman.tasks set epoch = epoch + 1, lease_owner = gen_random_uuid()")
        go.set()

    task = await handle.refresh()
    assert (task.state, task.result) == (RUNNING, None)
    assert counted("settle") == before + 1


@pytest.mark.contract("K5")
async def test_two_workers_of_one_host_hold_their_leases_under_names_of_their_own(make_app: MakeApp) -> None:
    started, go = asyncio.Semaphore(0), asyncio.Event()

    async def waits() -> None:
        started.release()
        await go.wait()

    app, other = await make_app(waits), await make_app(waits)
    await app.tasks.create_many(waits, [{}, {}])
    async with app.worker(concurrency=1), other.worker(concurrency=1):
        for _ in range(2):
            await asyncio.wait_for(started.acquire(), PATIENCE_SECONDS)
        async with app.database.session() as tx:
            owners = await tx.fetch("select lease_owner from ferryman.tasks where state = 'running'")
        go.set()

    assert len({row["lease_owner"] for row in owners}) == len(owners) == 2


@pytest.mark.contract("K5", "K4")
async def test_a_worker_whose_renewal_is_refused_aborts_the_handler(make_app: MakeApp) -> None:
    started, aborted = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            aborted.set()

    app = await make_app(waits)
    await app.tasks.create(waits)
    async with app.worker(lease=timedelta(seconds=2)):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        async with app.database.session() as tx:
            await tx.fetch("update ferryman.tasks set epoch = epoch + 1")

        await asyncio.wait_for(aborted.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("K4", "K5", "R2")
async def test_a_claim_that_arrives_after_its_lease_is_handed_back_and_not_begun(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    stood_still = [0.0]

    async def tells(ctx: Context) -> None:
        begun.append(ctx.task.epoch)

    def stand_still() -> None:
        stood_still[0] = 700.0  # once: later turns see a clock that goes on from there

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + stood_still[0]))
    app = await make_app(tells)
    handle = await app.tasks.create(tells)
    with faults.armed({"claim.committed": stand_still}):
        # One at a time: a turn of another lane that is under way would come late too.
        async with app.worker(lease=timedelta(minutes=10), concurrency=1):
            await handle.result(timeout=PATIENCE_SECONDS)

    assert (begun, (await handle.refresh()).attempt) == ([2], 1)


@pytest.mark.contract("K5")
async def test_a_handler_that_blocks_the_loop_for_longer_than_the_lease_keeps_it(make_app: MakeApp) -> None:
    async def blocks() -> str:
        time.sleep(5)
        return "done"

    blocked = await make_app(blocks)
    watching: dict[str, Any] = {}

    def look() -> None:
        """A watchdog of another process, on a loop that nobody blocks."""
        watching["ended"] = asyncio.run(reap_for_a_while())

    async def reap_for_a_while() -> int:
        line = Line(blocked.settings.database_url or "")
        acted = 0
        while not done.is_set():
            made = watch.rules(Owners(), NoDoorbell(), sweep=timedelta(seconds=1), interval=timedelta(seconds=1))
            acted += (await watchdog.tick(line, made)).acted()
            done.wait(0.05)
        await line.close()
        return acted

    done = threading.Event()
    thread = threading.Thread(target=look)
    handle = await blocked.tasks.create(blocks)
    thread.start()
    async with blocked.worker(lease=timedelta(seconds=4)):
        result = await handle.result(timeout=PATIENCE_SECONDS)
    done.set()
    thread.join(15)

    task = await handle.refresh()
    assert (result, task.attempt, watching["ended"]) == ("done", 1, 0)


@pytest.mark.contract("K17")
async def test_a_drained_worker_hands_back_what_does_not_finish_without_using_an_attempt(make_app: MakeApp) -> None:
    started, aborted = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            aborted.set()

    app = await make_app(waits)
    handle = await app.tasks.create(waits)
    async with app.worker(grace=timedelta(0), lease=timedelta(minutes=10)):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

    task = await handle.refresh()
    async with app.database.session() as tx:
        [row] = await tx.fetch("select rank is not null as claimable from ferryman.tasks")
    assert aborted.is_set()
    assert (task.state, task.attempt, task.lease_owner) == (READY, 1, None)
    assert row["claimable"]


@pytest.mark.contract("K17")
async def test_a_drained_worker_lets_what_runs_finish_within_its_grace(make_app: MakeApp) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def waits() -> str:
        started.set()
        await go.wait()
        return "done"

    app = await make_app(waits)
    running = await app.tasks.create(waits)
    async with app.worker(grace=timedelta(seconds=30), concurrency=1):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        waiting = await app.tasks.create(waits)
        asyncio.get_running_loop().call_soon(go.set)

    assert (await running.refresh()).state == "succeeded"
    assert (await waiting.refresh()).attempt == 1
