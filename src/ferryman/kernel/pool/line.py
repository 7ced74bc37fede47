"""One connection of one part of the machinery.

A connection whose packets are lost looks alive to both ends. So a statement that does not come back within the line's patience
is given up together with the connection. The server is told to give up a little earlier: when the line tries again, what it
tried before is over, done or not. It waits for a lock for less than that, so that a row which somebody holds is told from a
database that is away (kernel/outage.py). Behind a pooler that takes no settings a lonely statement has no session to tell it
in, and whoever gave it up would leave a server waiting, which does the work when nobody wants it any more: claims that nobody
holds. There it stands in a transaction that is told.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg

from ferryman.kernel import errors, locks, telemetry
from ferryman.kernel.db import SCHEMA, Row
from ferryman.kernel.pool.builtin_types import Connection
from ferryman.kernel.pool.commits import commit_durably
from ferryman.kernel.pool.reads import read_little
from ferryman.kernel.pool.said import readable, sentence, translated
from ferryman.kernel.pool.session import Session
from ferryman.kernel.pool.terms import (
    CONNECT_TIMEOUT_SECONDS,
    LINE_SETTINGS,
    PATIENCE,
    STATEMENTS_KEPT,
    STATEMENTS_KEPT_BY_A_POOLER,
    bounds,
    within,
)
from ferryman.kernel.pool.turnstile import Turnstile

# A plan made on an empty table can be wrong for a full one: it is made anew now and then, whoever analyses when. The server
# is asked for that, because statements that the driver lets go of by their age are cycles, which stay until all of a process
# that lives long is searched for garbage (decision 44).
PLANS_KEPT_SECONDS = 60.0


class Line:
    """One connection of our own that heals itself."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = SCHEMA,
        settings: Mapping[str, str | None] | None = None,
        patience: timedelta | None = None,
    ) -> None:
        """Remember where to connect, and how long to wait for a statement; the first use connects.

        `settings` are added to those of all lines. A setting that is None is left to the server.
        """
        self.url = url
        self.schema = schema
        self._patience = (patience or PATIENCE).total_seconds()
        self._short = bounds(patience, lock=locks.SHORT)["lock_timeout"]
        wanted = LINE_SETTINGS | bounds(patience) | dict(settings or {})
        self._settings = {name: value for name, value in wanted.items() if value is not None}
        self._connection: asyncpg.Connection[Any] | None = None
        self._session: Session | None = None
        self._plans_until = 0.0
        self.refused = False  # a pooler in between takes no settings
        self._turn = Turnstile(1)
        self._listening: dict[str, Callable[[str], None]] = {}
        self._lost: Callable[[], None] | None = None

    def hurry(self) -> Line:
        """Wait for no lock for long, because others stand behind; said before the line is used."""
        self._settings = self._settings | {"lock_timeout": self._short}
        return self

    async def open(self) -> Session:
        """Connect if need be, and listen again to what was listened to."""
        session = self._whole()
        if session is not None:
            return session
        if self._session is not None and self._connection is not None and not self._connection.is_closed():
            return await self._plan_anew(self._session)
        if self._connection is not None:
            telemetry.reconnected("line")
        try:
            with translated():
                connection, self.refused = await _connect(self.url, self._settings, patience=self._patience)
                return await self._take_up(connection)
        except errors.DatabaseUnavailable as error:
            self._turn.tell(error)
            raise

    def _whole(self) -> Session | None:
        """Return the session of a connection that needs nothing; on the way to every lonely statement, so it does not wait."""
        connection = self._connection
        if connection is None or connection.is_closed() or time.monotonic() >= self._plans_until:
            return None
        return self._session

    async def _plan_anew(self, session: Session) -> Session:
        """Let the server forget its plans; what was prepared stays. Behind a pooler nothing is."""
        if not self.refused:
            await session.execute("discard plans", timeout=None)
        self._plans_until = time.monotonic() + PLANS_KEPT_SECONDS
        return session

    async def _take_up(self, connection: asyncpg.Connection[Any]) -> Session:
        """Keep a connection once it commits durably and listens: one that does not would look whole."""
        await commit_durably(connection, None if self.refused else self._settings)
        try:
            for channel in self._listening:
                await connection.add_listener(channel, self._heard)
        except BaseException:
            connection.terminate()
            raise
        read_little(connection)
        connection.add_termination_listener(self._terminated)
        self._connection = connection
        self._plans_until = time.monotonic() + PLANS_KEPT_SECONDS
        self._session = Session(connection, self.schema, bounds=within(self._settings) if self.refused else "")
        return self._session

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement that commits itself."""
        async with self._turn:
            session = self._whole() or await self.open()
            return await session.fetch(query, *args)

    async def execute(self, script: str) -> None:
        """Run plain statements that commit together, as text: the shortest way for what takes no parameters."""
        async with self._turn:
            await (await self.open()).together(script)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Hold the line for one transaction."""
        async with self._turn:
            session = await self.open()
            async with session.transaction():
                yield session

    async def listen(self, channel: str, heard: Callable[[str], None], *, lost: Callable[[], None]) -> None:
        """Call `heard` with the payload of each notification, and `lost` when the connection is gone."""
        self._listening[channel] = heard
        self._lost = lost
        async with self._turn:
            connection = self._connection
            if connection is None or connection.is_closed():
                await self.open()
                return
            with translated():
                await connection.add_listener(channel, self._heard)

    def _heard(self, _connection: Any, _pid: int, channel: str, payload: object) -> None:
        self._listening[channel](str(payload))

    def _terminated(self, _connection: Any) -> None:
        if self._lost is not None:
            self._lost()

    def drop(self) -> None:
        """Give up the connection without a word, because it may be dead and not know it; the next use makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """Hang up."""
        self._lost = None
        connection, self._connection = self._connection, None
        if connection is None or connection.is_closed():
            return
        try:
            await connection.close(timeout=2)
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()


async def _connect(url: str, settings: dict[str, str], *, patience: float) -> tuple[asyncpg.Connection[Any], bool]:
    """Connect; where a pooler in between refuses our settings, go without them, and say so."""
    wanted: dict[str, str] | None = settings
    while True:
        try:
            with readable():
                connection = await asyncpg.connect(
                    url,
                    timeout=CONNECT_TIMEOUT_SECONDS,
                    command_timeout=patience,
                    server_settings=wanted,
                    statement_cache_size=STATEMENTS_KEPT if wanted is not None else STATEMENTS_KEPT_BY_A_POOLER,
                    max_cached_statement_lifetime=0,
                    connection_class=Connection,
                )
        except asyncpg.ProtocolViolationError as error:
            if wanted is None or "startup parameter" not in str(error):
                raise
            wanted = None
        except asyncpg.ObjectNotInPrerequisiteStateError as error:  # it takes no connections now
            raise errors.DatabaseUnavailable(sentence(error)) from error
        else:
            return connection, wanted is None
