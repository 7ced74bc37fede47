"""Threads whose attempts are over: counted, bounded, and gone when they are done (T6)."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from ferryman import Ferryman
from ferryman.app.doctor.report import BAD
from ferryman.app.doctor.work import workers
from ferryman.kernel import errors, telemetry
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.tasks.model import Claimed
from ferryman.tasks.states import READY
from ferryman.tasks.work.durable import Desk
from ferryman.tasks.work.run import Runner
from ferryman.tasks.work.scribe import Scribe
from ferryman.tasks.work.threads import LEFT_MAX, Threads, TooManyLeftBehind
from ferryman.tasks.work.words import Words
from tests.patience import PATIENCE_SECONDS
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
        await asyncio.to_thread(thread.join, 60)

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
    await asyncio.to_thread(busy.join, 60)
    assert not busy.is_alive()


@pytest.mark.contract("T6", "K19")
async def test_room_that_comes_back_is_told() -> None:
    release, freed = threading.Event(), asyncio.Event()
    threads = Threads(1, freed=freed.set)
    for _ in range(LEFT_MAX):
        await leave(threads, release.wait)
    with pytest.raises(TooManyLeftBehind):
        threads.run(int)

    release.set()

    await asyncio.wait_for(freed.wait(), PATIENCE_SECONDS)
    assert await threads.run(int) == 0
    threads.close()


class Crowd:
    """An app whose worker is full of threads that nobody can end."""

    def __init__(self, app: Ferryman, release: threading.Event) -> None:
        self.app, self.release = app, release

    async def fill(self) -> None:
        stuck = [await self.app.tasks.create("deaf", timeout=0.05, max_retries=0) for _ in range(LEFT_MAX)]
        for handle in stuck:
            with pytest.raises(errors.TaskRetryExhausted):
                await handle.result(timeout=PATIENCE_SECONDS)


@pytest.fixture
async def crowd(make_app: MakeApp) -> AsyncIterator[Crowd]:
    release = threading.Event()

    def deaf() -> None:
        release.wait(600)

    def quick() -> int:
        return 1

    async def light() -> int:
        return 2

    yield Crowd(await make_app(deaf, quick, light), release)
    release.set()


@pytest.mark.contract("T6", "T4")
async def test_a_worker_full_of_deaf_threads_leaves_plain_functions_alone_and_does_the_rest(
    crowd: Crowd, caplog: pytest.LogCaptureFixture
) -> None:
    app = crowd.app
    async with app.worker(concurrency=1):
        await crowd.fill()
        waiting = [await app.tasks.create("quick", max_retries=0) for _ in range(3)]
        beside = [await app.tasks.create("light") for _ in range(3)]

        assert [await handle.result(timeout=PATIENCE_SECONDS) for handle in beside] == [2, 2, 2]
        assert {(await handle.refresh()).state for handle in waiting} == {READY}
        crowd.release.set()
        assert [await handle.result(timeout=PATIENCE_SECONDS) for handle in waiting] == [1, 1, 1]

    assert {(await handle.refresh()).attempt for handle in waiting} == {1}
    said = [record for record in caplog.records if "no plain function is claimed" in record.message]
    assert [record.levelno for record in said] == [logging.ERROR]


@pytest.mark.contract("T6", "K19")
async def test_a_worker_full_of_deaf_threads_is_a_finding_of_the_doctor(crowd: Crowd) -> None:
    app = crowd.app
    async with app.worker(concurrency=1, lease=timedelta(seconds=2)):
        await crowd.fill()
        async with app.database.session() as tx, asyncio.timeout(PATIENCE_SECONDS):
            while not (found := [each for each in await workers(tx) if each.name == "threads"]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the next beat tells

    assert (found[0].verdict, "takes no deaf, quick" in found[0].says) == (BAD, True)


@pytest.mark.contract("T6", "K17")
async def test_what_was_claimed_before_there_was_no_room_is_handed_back(crowd: Crowd) -> None:
    app = crowd.app
    words = Words(app.database.session, NoDoorbell())
    scribe = Scribe(app._open.line(), NoDoorbell(), owner=uuid4(), ends_after=timedelta(days=1))
    desk = Desk(scribe, app._open.drafts, limit=1)
    runner = Runner(app._handlers.handlers, words, desk, owner=uuid4(), limit=1, concurrency=1)
    for _ in range(LEFT_MAX):
        await leave(runner._threads, crowd.release.wait)
    claimed = Claimed(uuid4(), 1, "default", None, "default", "quick", 1, 0, 1000, None, None, None, None, "{}")

    outcome = await runner.run(claimed)

    assert outcome is not None
    assert (outcome.state, outcome.used, outcome.code) == (READY, 0, None)
