import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors, retry, waiting
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Heard, NoDoorbell
from ferryman.kernel.pool import Database
from ferryman.tasks.intake.result import Waiting
from ferryman.tasks.states import READY, RUNNING, TASK
from ferryman.testing import plant
from tests.patience import PATIENCE_SECONDS


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

    def tell(self, *hints: str) -> None:
        for heard in list(self.listeners):
            heard(frozenset(hints))


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
    await asyncio.wait_for(held.wait(), PATIENCE_SECONDS)  # the other has read what is old by now

    async with db.session() as tx:
        await tx.fetch("insert into ferryman.task_progress (id, percent, at) values ($1, 50, now())", task)
    bell.tell()
    seen = await asyncio.wait_for(first, PATIENCE_SECONDS)
    go.set()

    assert (seen.percent, (await asyncio.wait_for(second, PATIENCE_SECONDS)).percent) == (50, 50)
    await one.aclose()  # type: ignore[attr-defined]  # an iterator that is a generator
    await other.aclose()  # type: ignore[attr-defined]


class Asked:
    """Sessions whose every statement is written down: which tasks it asked for."""

    def __init__(self, db: Database) -> None:
        self.looks: list[set[UUID]] = []
        self._db = db
        self.looked = asyncio.Event()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Tx]:
        async with self._db.session() as tx:
            yield Heeded(tx, self)

    async def until(self, count: int) -> None:
        """Wait until there were so many looks."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.looks) < count:
                self.looked.clear()
                await self.looked.wait()


class Heeded:
    """A Tx that tells what is asked."""

    def __init__(self, tx: Tx, asked: Asked) -> None:
        self.schema = tx.schema
        self._tx, self._asked = tx, asked

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        rows = await self._tx.fetch(query, *args)
        self._asked.looks.append({each for arg in args if isinstance(arg, list) for each in arg})
        self._asked.looked.set()
        return rows


async def end(db: Database, task: UUID) -> None:
    async with db.session() as tx:
        await tx.fetch(
            "update ferryman.tasks set state = 'cancelled', finished_at = now(), rank = null where id = $1", task
        )


@pytest.fixture
async def three(db: Database) -> list[UUID]:
    async with db.transaction() as tx:
        return [await plant(tx, TASK, READY) for _ in range(3)]


@pytest.mark.contract("T18", "P1")
async def test_a_ring_that_names_a_task_asks_for_that_one_alone(db: Database, three: list[UUID]) -> None:
    bell, asked = Bell(), Asked(db)
    waiting = Waiting(asked.session, bell, tenant="default", poll=600)
    waiters = [asyncio.ensure_future(waiting.end(task)) for task in three]
    await asked.until(1)

    await end(db, three[1])
    bell.tell(str(three[1]), "somebody else's")
    await asyncio.wait_for(waiters[1], PATIENCE_SECONDS)

    assert asked.looks[:2] == [set(three), {three[1]}]
    await waiting.close()
    await asyncio.gather(*waiters, return_exceptions=True)


@pytest.mark.contract("T18", "K2")
@pytest.mark.parametrize("how", ["a ring without names", "the poll"])
async def test_without_names_everything_is_asked_for(db: Database, three: list[UUID], how: str) -> None:
    bell, asked = Bell(), Asked(db)
    waiting = Waiting(asked.session, bell, tenant="default", poll=600 if how == "a ring without names" else 0.05)
    waiters = [asyncio.ensure_future(waiting.end(task)) for task in three]
    await asked.until(1)

    await end(db, three[2])
    if how == "a ring without names":
        bell.tell()
    await asyncio.wait_for(waiters[2], PATIENCE_SECONDS)

    assert asked.looks[1] == set(three)
    await waiting.close()
    await asyncio.gather(*waiters, return_exceptions=True)


@pytest.mark.contract("T18", "K2")
async def test_rings_about_others_do_not_keep_the_poll_from_its_look(db: Database, three: list[UUID]) -> None:
    bell, asked = Bell(), Asked(db)
    waiting = Waiting(asked.session, bell, tenant="default", poll=0.1)
    waiters = [asyncio.ensure_future(waiting.end(task)) for task in three]
    await asked.until(1)
    await end(db, three[0])  # and nobody rings for it

    async def chatter() -> None:
        while True:
            asked.looked.clear()
            bell.tell(str(three[1]))
            await asked.looked.wait()

    chatting = asyncio.ensure_future(chatter())
    await asyncio.wait_for(waiters[0], PATIENCE_SECONDS)

    chatting.cancel()
    await waiting.close()
    await asyncio.gather(chatting, *waiters, return_exceptions=True)


@pytest.mark.contract("T18", "K24")
@pytest.mark.parametrize("back", [True, False])
async def test_who_waits_outlasts_an_outage_and_looks_no_more_often_than_the_backoff_lets_it(
    monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    pause = timedelta(milliseconds=1) if back else timedelta(hours=1)
    monkeypatch.setattr(waiting, "RECONNECT", retry.Backoff.fixed(pause))
    looks = 0

    async def read(ids: Collection[UUID]) -> dict[UUID, str | Exception]:
        nonlocal looks
        looks += 1
        if looks <= 3:
            raise errors.DatabaseUnavailable("away")
        return dict.fromkeys(ids, "over")

    place = waiting.Waiting(read, Bell(), topic="done", poll=600)
    waiters = []
    for _ in range(10):
        waiters.append(asyncio.ensure_future(place.end(uuid4())))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    if back:
        assert await asyncio.wait_for(asyncio.gather(*waiters), PATIENCE_SECONDS) == ["over"] * 10
    else:
        assert looks == 1
        await place.close()
        told = await asyncio.gather(*waiters, return_exceptions=True)
        assert {type(each) for each in told} == {errors.NotOpen}
