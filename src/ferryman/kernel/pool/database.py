"""The pool behind the doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg

from ferryman.kernel import errors
from ferryman.kernel.db import SCHEMA
from ferryman.kernel.pool.builtin_types import Connection
from ferryman.kernel.pool.commits import commit_durably
from ferryman.kernel.pool.reads import read_little
from ferryman.kernel.pool.said import readable, sentence, translated
from ferryman.kernel.pool.session import Session
from ferryman.kernel.pool.terms import (
    CONNECT_TIMEOUT_SECONDS,
    PATIENCE,
    POOL_SETTINGS,
    STATEMENTS_KEPT,
    STATEMENTS_KEPT_BY_A_POOLER,
    within,
)
from ferryman.kernel.pool.turnstile import LOOKS, Turnstile
from ferryman.kernel.timed import timed


class Database:
    """The pool behind the doors."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = SCHEMA,
        size: int = 10,
        settings: Mapping[str, str] | None = None,
        keeps: float = 0.0,
    ) -> None:
        """Remember where the database is; nothing is connected yet. Settings are beside those of all pools.

        A connection that comes back sound is kept at hand for the next caller, until nobody wanted it for `keeps` seconds: the
        driver's pool takes more of the processor to book one in and out than a short statement does.
        """
        self._settings = POOL_SETTINGS | dict(settings or {})
        self._bounds = ""
        self.url = url
        self.schema = schema
        self._size = size
        self._turnstile = Turnstile(size, patience=CONNECT_TIMEOUT_SECONDS)
        self._lent = 0
        self._pool: asyncpg.Pool[Any] | None = None
        self._keeps = keeps
        self._kept: list[Any] = []
        self._unused = 0  # of those at hand, from the first on, that nobody took since the last look
        self._look: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect once, so that a wrong address is told at the start."""
        if self._pool is None:
            with readable(), translated():
                self._pool = await self._make_pool(self._settings)

    async def _make_pool(self, settings: dict[str, str] | None) -> asyncpg.Pool[Any]:
        try:
            return await asyncpg.create_pool(
                self.url,
                # One at the start, and no floor: asyncpg would restore it behind our back, with a traceback for every try.
                init_size=1,
                min_size=0,
                max_size=self._size,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=PATIENCE.total_seconds(),
                server_settings=settings,
                init=partial(_begin, settings),
                statement_cache_size=STATEMENTS_KEPT if settings is not None else STATEMENTS_KEPT_BY_A_POOLER,
                # By their age the driver lets go of them as cycles (decision 44); PostgreSQL plans anew by itself here.
                max_cached_statement_lifetime=0,
                # What stays in a session harms nobody who comes next: a reset would cost a round trip a release.
                reset=_nothing_to_reset,
                connection_class=Connection,
            )
        except asyncpg.ProtocolViolationError as error:
            if settings is None or "startup parameter" not in str(error):
                raise
            self._bounds = within(self._settings)
            return await self._make_pool(None)
        except asyncpg.ObjectNotInPrerequisiteStateError as error:
            raise errors.DatabaseUnavailable(sentence(error)) from error

    async def close(self) -> None:
        """Give the connections back; what is still running is ended after a moment."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._look is not None:
            self._look.cancel()
            self._look = None
        kept, self._kept = self._kept, []
        await self._give_back(pool, kept)
        try:
            await timed(pool.close(), CONNECT_TIMEOUT_SECONDS)
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Lend a connection on which each statement commits itself."""
        if self._pool is None:
            raise errors.NotOpen()
        pool = self._pool
        await self._turnstile.enter()
        connection = await self._acquire(pool)
        self._lent += 1
        sound = False
        try:
            yield Session(connection, self.schema, bounds=self._bounds)
            sound = self._keeps > 0 and _sound(connection)
        finally:
            try:
                if sound and self._pool is pool:
                    self._keep(connection)
                else:
                    with translated():
                        await pool.release(connection)
            finally:
                self._lent -= 1
                self._turnstile.leave()

    async def _acquire(self, pool: asyncpg.Pool[Any]) -> Any:
        """Take a connection for the place that was entered; without one the place is given up."""
        moves = self._turnstile.moves
        try:
            with translated():
                self._check_open(pool)
                while self._kept:
                    kept = self._kept.pop()
                    self._unused = min(self._unused, len(self._kept))
                    if _sound(kept):
                        return kept
                    await pool.release(kept)
                return await pool.acquire(timeout=CONNECT_TIMEOUT_SECONDS)
        except BaseException as error:
            pause = 0.0
            if isinstance(error, errors.DatabaseUnavailable) and self._pool is pool:
                if self._lent or moves != self._turnstile.moves:
                    # Others are served: those in line go on behind them, and do not fail one after the other at this place.
                    pause = CONNECT_TIMEOUT_SECONDS / LOOKS
                else:
                    self._turnstile.tell(error)
            self._turnstile.leave_empty(pause)
            self._check_open(pool)
            raise

    def _keep(self, connection: Any) -> None:
        self._kept.append(connection)
        if self._look is None:
            self._look_later()

    def _look_later(self) -> None:
        self._unused = len(self._kept)
        self._look = asyncio.get_running_loop().call_later(self._keeps, self._let_go)

    def _let_go(self) -> None:
        """Give back what nobody wanted; the last that came back is the first that is taken, so those are the first ones."""
        idle, self._kept[: self._unused] = self._kept[: self._unused], []
        self._look = None
        if self._kept or self._lent:
            self._look_later()
        if idle and self._pool is not None:
            returning = asyncio.get_running_loop().create_task(self._give_back(self._pool, idle))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _give_back(self, pool: asyncpg.Pool[Any], connections: Sequence[Any]) -> None:
        for each in connections:
            with suppress(Exception), translated():  # one that is broken is no loss
                await pool.release(each)

    def _check_open(self, pool: asyncpg.Pool[Any]) -> None:
        if self._pool is not pool:
            raise errors.NotOpen()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Lend a connection inside a transaction."""
        async with self.session() as session, session.transaction():
            yield session


async def _begin(settings: Mapping[str, str] | None, connection: Any) -> None:
    await commit_durably(connection, settings)
    read_little(connection)


def _sound(connection: Any) -> bool:
    """Tell whether somebody else can be served with a connection."""
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:  # the driver has seen its end, and taken it out of our hands
        return False


async def _nothing_to_reset(_connection: Any) -> None:
    return
