"""Cancelling works in every live state, and a running handler is told within one doorbell (T14)."""

import asyncio
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ferryman import Context
from ferryman.kernel import errors
from ferryman.kernel.pool import Line
from ferryman.tasks.states import CANCELLED, PENDING, READY, RUNNING, SUCCEEDED
from tests.patience import PATIENCE_SECONDS
from tests.sql.counted import Counted
from tests.tasks import children
from tests.tasks.conftest import MakeApp
from tests.tasks.remains import alive, until

# Far longer than any of these tests: nobody learns of a cancel by a renewal whose time has come.
LEASE = timedelta(minutes=10)


async def idle() -> None: ...


@pytest.mark.contract("T14", "T2")
@pytest.mark.parametrize("state", [PENDING, READY])
async def test_a_waiting_task_is_cancelled_and_never_runs(make_app: MakeApp, state: str) -> None:
    app = await make_app(idle)
    at = datetime.now(UTC) + timedelta(hours=1) if state == PENDING else None
    handle = await app.tasks.create(idle, at=at)

    assert await handle.cancel(reason="not wanted") is True

    async with app.worker():
        await (await app.tasks.create(idle)).result(timeout=PATIENCE_SECONDS)
    task = await handle.refresh()
    assert (task.state, task.started_at, task.finished_at is not None) == (CANCELLED, None, True)
    last = (await app.tasks.events(handle.id))[-1]
    assert (last.from_state, last.to_state, last.reason_code, last.reason_message) == (
        state, "cancelled", None, "not wanted",
    )  # fmt: skip


@pytest.mark.contract("T14", "K4", "K5")
async def test_a_running_async_handler_is_told_at_once(make_app: MakeApp) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
            raise

    app = await make_app(waits)
    handle = await app.tasks.create(waits)
    async with app.worker(lease=LEASE):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

        assert await handle.cancel()
        await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)

        with pytest.raises(errors.TaskCancelled):
            await handle.result(timeout=PATIENCE_SECONDS)


@pytest.mark.contract("T14", "T7")
async def test_a_running_thread_is_told_and_its_result_is_fenced(make_app: MakeApp) -> None:
    started, told, pause = threading.Event(), threading.Event(), threading.Event()

    def waits(ctx: Context) -> str:
        started.set()
        while not ctx.ended:
            pause.wait(0.005)
        told.set()
        return "too late"

    app = await make_app(waits)
    handle = await app.tasks.create(waits)
    async with app.worker(lease=LEASE):
        await asyncio.to_thread(started.wait, 60)

        await handle.cancel()

        assert await asyncio.to_thread(told.wait, 60)
    task = await handle.refresh()
    assert (task.state, task.result) == (CANCELLED, None)


@pytest.mark.contract("T14", "T16")
async def test_a_running_process_is_killed(make_app: MakeApp, tmp_path: Path) -> None:
    app = await make_app((children.hang, {"process": True}))
    file = tmp_path / "pids"
    os.mkfifo(file)
    handle = await app.tasks.create(children.hang, file=str(file))
    async with app.worker(lease=LEASE):
        said = await asyncio.to_thread(file.read_text, encoding="utf-8")
        pids = [int(pid) for pid in said.split()]

        await handle.cancel()
        await until(lambda: not any(alive(pid) for pid in pids))
    assert (await handle.refresh()).state == CANCELLED


@pytest.mark.contract("T14")
async def test_a_cancel_rung_by_another_process_reaches_the_worker(make_app: MakeApp) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    worker, canceller = await make_app(waits), await make_app(waits)
    handle = await canceller.tasks.create(waits)
    async with worker.worker(lease=LEASE):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

        await handle.cancel()

        await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("T14", "T2")
async def test_an_ended_task_cannot_be_cancelled(make_app: MakeApp) -> None:
    app = await make_app(idle)
    handle = await app.tasks.create(idle)
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    assert await handle.cancel() is False

    assert (await handle.refresh()).state == SUCCEEDED


@pytest.mark.contract("T14")
async def test_a_cancelled_task_is_cancelled_once(make_app: MakeApp) -> None:
    app = await make_app(idle)
    handle = await app.tasks.create(idle)

    answers = await asyncio.gather(*(handle.cancel() for _ in range(10)))

    assert answers.count(True) == 1
    assert [event.to_state for event in await app.tasks.events(handle.id)] == ["ready", "cancelled"]


@pytest.mark.contract("T14")
async def test_many_are_cancelled_at_once_whatever_they_are(make_app: MakeApp) -> None:
    started = asyncio.Event()

    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    app = await make_app(waits, (idle, {"queue": "unserved"}))
    waiting = await app.tasks.create_many(idle, [{} for _ in range(50)])
    later = await app.tasks.create(idle, at=datetime.now(UTC) + timedelta(hours=1), task_id="by_name")
    running = await app.tasks.create(waits)
    async with app.worker(lease=LEASE):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        assert (await running.refresh()).state == RUNNING

        told = await app.tasks.cancel(*(handle.id for handle in waiting), "by_name", running.task_id)

    assert sorted(told) == sorted([*(handle.id for handle in waiting), later.id, running.id])
    assert {task.state for task in await app.tasks.list(limit=100)} == {CANCELLED}


@pytest.mark.contract("T14", "K2")
async def test_without_any_doorbell_a_running_handler_learns_of_it_by_its_renewal(make_app: MakeApp) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    worker: Any = await make_app(waits, doorbell="none")
    canceller = await make_app(waits)
    handle = await canceller.tasks.create(waits)
    async with worker.worker(lease=timedelta(seconds=2)):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

        await handle.cancel()

        await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("T14", "T18", "T4")
@pytest.mark.parametrize("reason", ["not wanted", None])
async def test_a_waiter_is_told_why_it_was_cancelled_and_not_what_failed_before(
    make_app: MakeApp, reason: str | None
) -> None:
    failed = asyncio.Event()

    async def fails() -> None:
        failed.set()
        raise ValueError("an attempt before")

    app = await make_app((fails, {"backoff": 600}))
    handle = await app.tasks.create(fails)
    async with app.worker():
        await asyncio.wait_for(failed.wait(), PATIENCE_SECONDS)
    assert (await handle.refresh()).last_error_code == "TASK_EXECUTION_FAILED"

    await handle.cancel(reason=reason)

    with pytest.raises(errors.TaskCancelled) as told:
        await handle.result(timeout=PATIENCE_SECONDS)
    assert told.value.details["reason"] == reason
    assert (await handle.refresh()).last_error_reason == "ValueError: an attempt before"


@pytest.mark.contract("T14", "T17", "P1")
@pytest.mark.parametrize("door", ["cancel", "retry"])
async def test_many_names_are_looked_up_in_one_statement(make_app: MakeApp, database_url: str, door: str) -> None:
    app = await make_app(idle)
    made = [await app.tasks.create(idle, task_id=f"t{n}") for n in range(5)]
    if door == "retry":
        await app.tasks.cancel(*(each.id for each in made))
    line = Line(database_url)
    wire = Counted(line)
    app.tasks._db = wire  # type: ignore[assignment]  # counts what goes over it

    answered = await getattr(app.tasks, door)("t3", made[1].id, str(made[0].id), "t2", "t3")
    with pytest.raises(errors.TaskNotFound, match="There is no task t9 "):
        await getattr(app.tasks, door)("t2", "t9")
    await line.close()

    assert len(answered) == 4
    assert wire.trips == 2  # one for each call
