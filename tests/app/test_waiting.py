import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Heard, NoDoorbell
from ferryman.kernel.pool import Database
from ferryman.tasks.intake.result import Waiting
from ferryman.tasks.states import RUNNING, TASK
from ferryman.testing import plant


async def test_a_wait_that_was_given_up_is_not_told_of_when_the_app_closes(database_url: str) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    async with Ferryman(database_url) as app:
        handle = await app.tasks.create("greet", {})
        waiting = asyncio.create_task(handle.result())
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
        del waiting  # it holds the frame that holds what it waited for
    gc.collect()

    assert told == []


class Bell(NoDoorbell):
    """A doorbell that rings when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Heard] = []

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        self.listeners.append(heard)
        return lambda: self.listeners.remove(heard)

    def tell(self) -> None:
        for heard in list(self.listeners):
            heard(frozenset())


@pytest.mark.contract("T18")
async def test_two_who_watch_one_task_do_not_take_each_others_rings(db: Database) -> None:
    bell, held, go = Bell(), asyncio.Event(), asyncio.Event()
    slow: list[bool] = []

    @asynccontextmanager
    async def session() -> AsyncIterator[Tx]:
        hold = bool(slow and slow.pop())
        async with db.session() as tx:
            yield tx
        if hold:
            held.set()
            await go.wait()

    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING)
    waiting = Waiting(session, bell, tenant="default", poll=600)
    one, other = waiting.watch(task), waiting.watch(task)
    await anext(one)
    await anext(other)
    first, second = asyncio.ensure_future(anext(one)), asyncio.ensure_future(anext(other))
    slow += [True, False]  # the second to look
    bell.tell()
    await asyncio.wait_for(held.wait(), 60)  # the other has read what is old by now

    async with db.session() as tx:
        await tx.fetch("insert into ferryman.task_progress (id, percent, at) values ($1, 50, now())", task)
    bell.tell()
    seen = await asyncio.wait_for(first, 60)
    go.set()

    assert (seen.percent, (await asyncio.wait_for(second, 60)).percent) == (50, 50)
    await one.aclose()  # type: ignore[attr-defined]  # an iterator that is a generator
    await other.aclose()  # type: ignore[attr-defined]
