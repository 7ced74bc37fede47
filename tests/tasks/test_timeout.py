"""The end of an attempt by its time (T6): async handlers are cancelled, threads told and fenced, processes killed."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ferryman import Context, Handle
from ferryman.kernel import errors
from ferryman.tasks.states import FAILED, SUCCEEDED
from tests.patience import PATIENCE_SECONDS
from tests.tasks import children
from tests.tasks.conftest import MakeApp
from tests.tasks.remains import gone, until, written


async def timed_out(handle: Handle) -> Any:
    with pytest.raises(errors.TaskRetryExhausted) as failure:
        await handle.result(timeout=PATIENCE_SECONDS)
    assert "TASK_TIMEOUT: start_to_close timeout" in str(failure.value.details["reason"])
    return await handle.refresh()


@pytest.mark.contract("T6")
async def test_an_async_handler_is_cancelled_at_its_timeout(make_app: MakeApp) -> None:
    cancelled = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    app = await make_app(waits)
    handle = await app.tasks.create(waits, timeout=0.05, max_retries=0)

    async with app.worker():
        task = await timed_out(handle)

    assert cancelled.is_set()
    assert task.state == FAILED


@pytest.mark.contract("T6")
async def test_a_handler_that_swallows_its_cancellation_has_timed_out_all_the_same(make_app: MakeApp) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all is well"
        return ""

    app = await make_app(stubborn)
    handle = await app.tasks.create(stubborn, timeout=0.05, max_retries=0)

    async with app.worker():
        task = await timed_out(handle)

    assert task.result is None


@pytest.mark.contract("T6", "T7")
async def test_a_thread_is_told_and_its_result_fenced(make_app: MakeApp) -> None:
    pause, told = threading.Event(), threading.Event()

    def waits(ctx: Context) -> str:
        while not ctx.ended:
            pause.wait(0.005)
        told.set()
        return "too late"

    app = await make_app(waits)
    handle = await app.tasks.create(waits, timeout=0.05, max_retries=0)

    async with app.worker():
        task = await timed_out(handle)
        await asyncio.to_thread(told.wait, 60)

    assert told.is_set()
    assert (await handle.refresh()) == task
    assert task.result is None


@pytest.mark.contract("T6")
async def test_threads_that_do_not_listen_take_no_place_from_the_living(make_app: MakeApp) -> None:
    release = threading.Event()

    def deaf() -> None:
        release.wait(600)

    def quick() -> int:
        return 1

    app = await make_app(deaf, quick)
    stuck = [await app.tasks.create(deaf, timeout=0.05, max_retries=0) for _ in range(3)]

    async with app.worker(concurrency=3):
        for handle in stuck:
            await timed_out(handle)
        after = await app.tasks.create(quick)
        assert await after.result(timeout=PATIENCE_SECONDS) == 1
    release.set()

    assert (await after.refresh()).state == SUCCEEDED


@pytest.mark.contract("T6", "T16")
async def test_a_process_and_what_it_started_are_killed(make_app: MakeApp, tmp_path: Path) -> None:
    app = await make_app((children.hang, {"process": True}))
    file = tmp_path / "pids"

    async with app.worker():
        for timeout in (2, 8, 32):  # how long a child takes to say who it is depends on the machine
            await timed_out(await app.tasks.create(children.hang, file=str(file), timeout=timeout, max_retries=0))
            if len(written(file)) == 2:
                break

    assert len(written(file)) == 2
    await until(lambda: gone(file))


@pytest.mark.contract("T6", "T4")
async def test_a_timeout_is_tried_again(make_app: MakeApp) -> None:
    async def slow_at_first(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    app = await make_app(slow_at_first)
    handle = await app.tasks.create(slow_at_first, timeout=0.1, backoff=0)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == 2

    codes = [event.reason_code for event in await app.tasks.events(handle.id)]
    assert codes == [None, None, "TASK_TIMEOUT", None, None]
