"""A Tx that counts what goes over the wire."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ferryman.kernel.db import Row
from ferryman.kernel.pool import Line, Session


class Counted:
    """Each statement, and each begin and commit, is one trip."""

    def __init__(self, inner: Line | Session) -> None:
        self.schema = inner.schema
        self.statements: list[str] = []
        self.transactions = 0
        self._inner = inner

    @property
    def trips(self) -> int:
        return len(self.statements)

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        self.statements.append(query.partition("\n")[0])
        return await self._inner.fetch(query, *args)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Counted"]:
        yield self

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Counted"]:
        self.transactions += 1
        async with self._inner.transaction() as session:
            outer, self._inner = self._inner, session
            try:
                yield self
            finally:
                self._inner = outer
