"""Our own connections to PostgreSQL.

Two kinds, so that user code can never starve the machinery (K24): a `Database` is the pool behind the doors (create, read,
cancel, a handler's own transactions); a `Line` is one connection held by one part of the machinery (a lane of the pump, the
lease keeper, the watchdog, the doorbell). A line that broke heals itself at its next use. No session state is relied on, so
both work through PgBouncer in transaction mode; settings that a pooler refuses are left out at the next try.

Cancelled does not mean uncommitted, and a connection lost during a commit does not say what became of it: every write
behind these doors is either fenced or keyed, so that it can be repeated.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg

from ferryman.kernel import errors, telemetry
from ferryman.kernel.db import SCHEMA, Row

log = telemetry.logger("pool")

CONNECT_TIMEOUT_SECONDS = 5.0
COMMAND_TIMEOUT_SECONDS = 60.0
# A plan made on an empty table can be wrong for a full one: it is made anew now and then, whoever analyses when.
STATEMENT_LIFETIME_SECONDS = 60
SCRIPT_TIMEOUT_SECONDS = 6 * 3600.0  # an index of a large table takes its time

# What our own connections ask of the server. Plans: hot statements find their rows by index whatever the statistics say
# (a plan made while the table was empty must not scan it when it is full), and jit would be switched on by the price that
# the planner puts on what is forbidden. Life: a peer that vanished is noticed in seconds, a transaction that was left
# open (a worker frozen inside it) is ended so that it does not hide its rows. Durability: what was told is done is on the
# disk, whatever this database or user was set to.
LINE_SETTINGS = {
    "application_name": "ferryman",
    "synchronous_commit": "on",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# A handler's own transaction may think for longer than ours, but not for ever.
POOL_SETTINGS = {
    "application_name": "ferryman",
    "synchronous_commit": "on",
    "jit": "off",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}

GUARD_SQLSTATE = "FM001"

_UNAVAILABLE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server hung up in the middle of something, and the driver lost its thread
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,  # out of connections, memory or disk
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,  # a primary that has just become a standby
)
_NOT_LET_IN = (
    asyncpg.InvalidAuthorizationSpecificationError,  # no such user, or a wrong password
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
_NOT_MIGRATED = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError)


@contextmanager
def translated() -> Iterator[None]:
    """Let driver errors out as ours: a stable code, a sentence, what to do next."""
    try:
        yield
    except errors.FerrymanError:
        raise
    except _NOT_MIGRATED as error:
        raise errors.DatabaseNotMigrated(reason=str(error)) from error
    except asyncpg.InvalidCachedStatementError as error:
        raise errors.DatabaseUnavailable("A migration changed the tables under this connection.") from error
    except _NOT_LET_IN as error:
        login = not isinstance(error, asyncpg.InsufficientPrivilegeError)
        raise errors.DatabaseRefused(f"PostgreSQL refuses: {str(error).rstrip('.')}.", login=login) from error
    except _UNAVAILABLE as error:
        raise errors.DatabaseUnavailable(_sentence(error)) from error
    except asyncpg.PostgresError as error:
        if error.sqlstate == GUARD_SQLSTATE:
            raise _refused(error) from error
        raise


def told(error: BaseException) -> errors.FerrymanError | None:
    """Say for a person what the driver raised, at a door, where one statement stands alone; None if it was not the driver.

    Behind the doors such an error stays as it is: one bad row of a set must be told from a database that is away.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return None
    said = str(error).partition("\n")[0].rstrip(".")
    return errors.StatementRefused(f"PostgreSQL refused a statement: {said}.", sqlstate=error.sqlstate)


@contextmanager
def spoken() -> Iterator[None]:
    """Let out of a door what the driver raised as a sentence."""
    try:
        yield
    except Exception as error:
        sentence = told(error)
        if sentence is None:
            raise
        raise sentence from error


def _sentence(error: BaseException) -> str:
    said = str(error).strip().rstrip(".") or type(error).__name__
    return f"PostgreSQL cannot be used now: {said}."


def _refused(error: asyncpg.PostgresError) -> errors.InvalidTransition:
    told = json.loads(error.detail or "{}")
    return errors.InvalidTransition(
        code=error.message, from_=told.get("from"), to=told.get("to"), id=told.get("id"), table=told.get("table")
    )


async def _connect(url: str, settings: dict[str, str]) -> asyncpg.Connection[Any]:
    """Connect; where a pooler in between refuses our settings, go without them."""
    wanted: dict[str, str] | None = settings
    while True:
        try:
            return await asyncpg.connect(
                url,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=COMMAND_TIMEOUT_SECONDS,
                server_settings=wanted,
                max_cached_statement_lifetime=STATEMENT_LIFETIME_SECONDS,
            )
        except asyncpg.ProtocolViolationError as error:
            if wanted is None or "startup parameter" not in str(error):
                raise
            wanted = None
        except asyncpg.ObjectNotInPrerequisiteStateError as error:  # it takes no connections now
            raise errors.DatabaseUnavailable(_sentence(error)) from error


class Session:
    """A connection, seen as a `Tx`."""

    __slots__ = ("_connection", "schema")

    def __init__(self, connection: Any, schema: str) -> None:
        """Wrap an asyncpg connection that is in our hands."""
        self._connection = connection
        self.schema = schema

    @property
    def in_transaction(self) -> bool:
        """Whether statements wait for a commit."""
        return bool(self._connection.is_in_transaction())

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement."""
        with self._translated():
            rows: Sequence[Row] = await self._connection.fetch(query, *args)
            return rows

    async def execute(self, script: str) -> None:
        """Run a script of several statements (migrations)."""
        with self._translated():
            await self._connection.execute(script, timeout=SCRIPT_TIMEOUT_SECONDS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with translated():
            try:
                yield
            except asyncpg.InternalClientError:
                self._connection.terminate()  # it does not know itself that it cannot be used any more
                raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Open a transaction, or a savepoint inside one.

        Only our own steps are translated: an OSError of the caller's code is no word about the database.
        """
        transaction = self._connection.transaction()
        with self._translated():
            await transaction.start()
        try:
            yield self
        except BaseException:
            await _undo(transaction)
            raise
        with self._translated():
            await transaction.commit()


async def _undo(transaction: Any) -> None:
    """Roll back; where the connection is gone, PostgreSQL has done so."""
    try:
        await transaction.rollback()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        log.debug("could not roll back", exc_info=error)


class Database:
    """The pool behind the doors."""

    def __init__(self, url: str, *, schema: str = SCHEMA, size: int = 10) -> None:
        """Remember where the database is; nothing is connected yet."""
        self.url = url
        self.schema = schema
        self._size = size
        self._pool: asyncpg.Pool[Any] | None = None

    async def open(self) -> None:
        """Connect once, so that a wrong address is told at the start."""
        if self._pool is None:
            with translated():
                self._pool = await self._make_pool(POOL_SETTINGS)

    async def _make_pool(self, settings: dict[str, str] | None) -> asyncpg.Pool[Any]:
        try:
            return await asyncpg.create_pool(
                self.url,
                # One at the start, and no floor: asyncpg would restore it behind our back, with a traceback for every try.
                init_size=1,
                min_size=0,
                max_size=self._size,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=COMMAND_TIMEOUT_SECONDS,
                server_settings=settings,
                # No session state is ever set, so there is nothing to reset: it would cost a round trip a release.
                reset=_nothing_to_reset,
            )
        except asyncpg.ProtocolViolationError as error:
            if settings is None or "startup parameter" not in str(error):
                raise
            return await self._make_pool(None)
        except asyncpg.ObjectNotInPrerequisiteStateError as error:
            raise errors.DatabaseUnavailable(_sentence(error)) from error

    async def close(self) -> None:
        """Give the connections back; what is still running is ended after a moment."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            await asyncio.wait_for(pool.close(), timeout=CONNECT_TIMEOUT_SECONDS)
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Lend a connection on which each statement commits itself."""
        if self._pool is None:
            raise errors.NotOpen()
        pool = self._pool
        with translated():
            connection = await pool.acquire(timeout=CONNECT_TIMEOUT_SECONDS)
        try:
            yield Session(connection, self.schema)
        finally:
            with translated():
                await pool.release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Lend a connection inside a transaction."""
        async with self.session() as session, session.transaction():
            yield session


async def _nothing_to_reset(_connection: Any) -> None:
    return


class Line:
    """One connection of our own that heals itself."""

    def __init__(self, url: str, *, schema: str = SCHEMA, settings: dict[str, str] | None = None) -> None:
        """Remember where to connect; the first use connects."""
        self.url = url
        self.schema = schema
        self._settings = LINE_SETTINGS | (settings or {})
        self._connection: asyncpg.Connection[Any] | None = None
        self._turn = asyncio.Lock()
        self._listening: dict[str, Callable[[str], None]] = {}
        self._lost: Callable[[], None] | None = None

    async def open(self) -> Session:
        """Connect if need be, and listen again to what was listened to."""
        connection = self._connection
        if connection is None or connection.is_closed():
            with translated():
                if connection is not None:
                    telemetry.reconnected("line")
                connection = self._connection = await _connect(self.url, self._settings)
                connection.add_termination_listener(self._terminated)
                for channel in self._listening:
                    await connection.add_listener(channel, self._heard)
        return Session(connection, self.schema)

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement that commits itself."""
        async with self._turn:
            return await (await self.open()).fetch(query, *args)

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
