"""A pool that is listened to, a gate that says what it is told to, a watch: what a walk meets on its way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ferryman.ingest.ports import Allow, Answer, Decision, GateKey
from ferryman.kernel import errors
from ferryman.kernel.db import Row
from ferryman.kernel.pool import Database, Session
from tests.ingest.harbour import Harbour

PAGES = 6


class Heard:
    """A pool that writes down what goes over; every `losing`th answer is lost after its statement has committed."""

    def __init__(self, pool: Database, *, losing: int = 0, watch: "Watch | None" = None) -> None:
        self._pool = pool
        self._losing = losing
        self._watch = watch
        self.said: list[str] = []
        self.transactions = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        async with self._pool.session() as tx:
            yield Ear(tx, self.said)
        if self._watch is not None:
            self._watch.now += 1.0
        if self._losing and len(self.said) % self._losing == 0:
            raise errors.DatabaseUnavailable("The answer was lost.")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        self.transactions += 1
        async with self._pool.transaction() as tx:
            yield tx


class Ear:
    """A session that is listened to."""

    def __init__(self, tx: Session, said: list[str]) -> None:
        self._tx, self._said, self.schema = tx, said, tx.schema

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        self._said.append(query.partition("\n")[0])
        return await self._tx.fetch(query, *args)


class Watch:
    """What a walk takes the time by: it stands still, unless every statement is to take a second."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now


class Guide:
    """A gate that says what it is told to, and then lets everybody pass; told nothing, it says nothing."""

    def __init__(self, *words: Decision | Exception | None) -> None:
        self._words = list(words)
        self.asked = 0
        self.silent = asyncio.Event()

    async def acquire(self, key: GateKey) -> Decision:
        self.asked += 1
        word = self._words.pop(0) if self._words else Allow()
        if isinstance(word, Exception):
            raise word
        if word is None:
            self.silent.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody ends it")
        return word

    def told(self, key: GateKey, answer: Answer) -> None:
        """Learn nothing."""


async def written_once(here: Harbour) -> None:
    assert await here.sunk() == [(n, f"v{n}") for n in range(10 * PAGES)]
    assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
    assert len(here.server.asked) == PAGES
    assert await here.states("task") == ["SUCCEEDED"]
    assert set(await here.states("batch")) == {"SUCCEEDED"}
    await here.sound()
