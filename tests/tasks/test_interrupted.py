"""Handlers that are interrupted, or interrupt themselves; and those who wait for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    app = Ferryman(database_url, worker={"poll": "0.1s", "grace": "1s"})

    @app.task(max_retries=1, backoff=0.01)
    async def cancels_itself(word: str | None = None) -> None:
        raise asyncio.CancelledError(*[word] if word else [])

    @app.task(timeout=0.1, max_retries=0)
    async def swallows() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "I go on"
        return "never"

    @app.task
    async def waits() -> None:
        await asyncio.sleep(3600)

    async with app:
        yield app


@pytest.mark.contract("K9", "T4")
@pytest.mark.parametrize("word", [None, "lease lost", "handed back"])
async def test_a_handler_that_cancels_itself_ends_at_its_cap(app: Ferryman, word: str | None) -> None:
    async with app.worker():
        handle = await app.tasks.create("cancels_itself", word=word)

        with pytest.raises(errors.TaskRetryExhausted):
            await handle.result(timeout=PATIENCE_SECONDS)

    assert (await handle.refresh()).attempt == 2


@pytest.mark.contract("T6")
async def test_a_handler_that_swallows_its_timeout_has_timed_out_all_the_same(app: Ferryman) -> None:
    async with app.worker():
        handle = await app.tasks.create("swallows")

        with pytest.raises(errors.TaskRetryExhausted, match="TASK_TIMEOUT"):
            await handle.result(timeout=PATIENCE_SECONDS)


@pytest.mark.contract("T18")
async def test_a_waiter_that_gave_up_leaves_nothing_behind(app: Ferryman) -> None:
    handle = await app.tasks.create("waits")
    another = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))

    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.05)

    waiting = app.tasks._waits.of("default")
    assert list(waiting._ends) == [str(handle.id)]
    await handle.cancel()
    with pytest.raises(errors.TaskCancelled):
        await another
    assert (waiting._ends, dict(waiting._waiters)) == ({}, {})
