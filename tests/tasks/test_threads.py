"""Threads whose attempts are over: counted, bounded, and gone when they are done (T6)."""

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from ferryman.kernel import errors, telemetry
from ferryman.tasks.work.threads import LEFT_MAX, Threads, TooManyLeftBehind
from tests.tasks.conftest import MakeApp


def left_behind() -> float:
    return telemetry.registry().get_sample_value("ferryman_threads_left_behind") or 0.0


def handlers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "ferryman-handler"}


async def leave(threads: Threads, function: Callable[[], object]) -> None:
    """Begin something and do not wait for it."""
    threads.run(function).cancel()
    await asyncio.sleep(0)  # where a future tells of its end


@pytest.mark.contract("T6", "K19")
async def test_threads_left_behind_are_counted_and_have_a_bound() -> None:
    release, before = threading.Event(), left_behind()
    threads = Threads(1)
    others = handlers()

    for _ in range(LEFT_MAX):
        await leave(threads, release.wait)
    assert left_behind() == before + LEFT_MAX
    with pytest.raises(TooManyLeftBehind, match=f"{LEFT_MAX} threads of this worker go on"):
        threads.run(int)
    threads.close()
    release.set()
    for thread in handlers() - others:
        await asyncio.to_thread(thread.join, 10)

    assert left_behind() == before
    assert not handlers() - others
    assert await threads.run(int) == 0


@pytest.mark.contract("T6")
async def test_a_busy_thread_leaves_when_it_is_done_after_the_close() -> None:
    release = threading.Event()
    threads = Threads(1)
    others = handlers()
    future = threads.run(release.wait)
    [busy] = handlers() - others

    threads.close()
    release.set()

    assert await future
    await asyncio.to_thread(busy.join, 10)
    assert not busy.is_alive()


@pytest.mark.contract("T6", "T4", "K25")
async def test_a_worker_full_of_deaf_threads_says_so_and_recovers(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    others = handlers()

    def deaf() -> None:
        release.wait(60)

    def quick() -> int:
        return 1

    app = await make_app(deaf, quick)
    stuck = [await app.tasks.create(deaf, timeout=0.05, max_retries=0) for _ in range(LEFT_MAX)]

    async with app.worker(concurrency=1):
        for handle in stuck:
            with pytest.raises(errors.TaskRetryExhausted):
                await handle.result(timeout=15)
        refused = [await app.tasks.create(quick, max_retries=0) for _ in range(2)]
        for handle in refused:
            with pytest.raises(errors.TaskRetryExhausted) as failure:
                await handle.result(timeout=15)
            assert "TASK_EXECUTION_FAILED: TooManyLeftBehind: 4 threads" in str(failure.value.details["reason"])
        assert len(handlers() - others) == LEFT_MAX
        release.set()
        after = await app.tasks.create(quick, max_retries=10, backoff=0.05)
        assert await after.result(timeout=15) == 1

    said = [record for record in caplog.records if "no other is begun" in record.message]
    assert [record.levelno for record in said] == [logging.ERROR]
