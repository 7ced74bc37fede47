"""A caller's own open transaction, seen as a `Tx` (K16).

What runs through it commits and rolls back with everything else the caller does there; nothing here begins, commits or rolls
back anything. The object is known by the modules of its classes and no driver is imported: whoever holds a psycopg connection
has loaded psycopg. A connection on which each statement would commit itself is refused, because then nothing would be
undone with the caller's work.

Statements are written for positions (`$1`). asyncpg and psycopg's raw cursors take them as they are; SQLAlchemy gets names.
A plain (synchronous) connection answers without ever waiting, so that `drive` can run a coroutine on it in the caller's own
thread, without an event loop.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from ferryman.kernel import errors, outage
from ferryman.kernel.db import SCHEMA, Row, Tx
from ferryman.kernel.pool import Session

Value = TypeVar("Value")

IDLE = 0  # what libpq calls a connection that is in no transaction

_POSITION = re.compile(r"\$(\d+)")
_DRIVERS = frozenset({"asyncpg", "psycopg", "sqlalchemy"})

# SQLSTATEs, or their first two characters, by what they mean to whoever lent the connection.
_NOT_MIGRATED = ("42P01", "3F000", "42883")
_NOT_ALLOWED = "42501"
_RUN_AGAIN = ("40001", "40P01")  # a serialization failure, a deadlock


def borrow(connection: object, *, schema: str = SCHEMA) -> Tx:
    """See a caller's async connection or session as a Tx; a Tx of our own is taken as it is."""
    if isinstance(connection, Borrowed):
        return connection
    if isinstance(connection, Session):
        if not connection.in_transaction:
            raise _autocommit("session")
        return connection
    kind = _kind(connection)
    if kind in _PLAIN:
        raise errors.ConnectionUnfit(
            f"{_shown(connection)} is not async: it would hold up the event loop. Use it with `Client`."
        )
    if kind not in _ASYNC:
        raise _unknown(connection)
    return _ASYNC[kind](connection, schema)


def borrow_plain(connection: object, *, schema: str = SCHEMA) -> Tx:
    """See a caller's plain connection or session as a Tx that never waits."""
    kind = _kind(connection)
    if kind in _ASYNC:
        raise errors.ConnectionUnfit(
            f"{_shown(connection)} is async and belongs to its own event loop. Use it with `app.tasks`."
        )
    if kind not in _PLAIN:
        raise _unknown(connection)
    return _PLAIN[kind](connection, schema)


def drive(work: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine that waits for nothing but a plain connection, in this thread."""
    try:
        work.send(None)
    except StopIteration as done:
        value: Value = done.value
        return value
    work.close()
    raise errors.ConnectionUnfit("Something else than the plain connection was waited for. Do this with an async one.")


class Borrowed(ABC):
    """A caller's connection."""

    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    @abstractmethod
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement in the caller's transaction."""


class _Asyncpg(Borrowed):
    def __init__(self, connection: Any, schema: str) -> None:
        super().__init__(connection, schema)
        with _translated():
            if not connection.is_in_transaction():
                raise _autocommit("asyncpg connection")

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        with _translated():
            rows: Sequence[Row] = await self.connection.fetch(query, *args)
            return rows


class _AsyncPsycopg(Borrowed):
    def __init__(self, connection: Any, schema: str) -> None:
        super().__init__(connection, schema)
        _refuse_psycopg_autocommit(connection)

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        psycopg = sys.modules["psycopg"]
        with _translated():
            async with psycopg.AsyncRawCursor(self.connection, row_factory=psycopg.rows.dict_row) as cursor:
                await cursor.execute(query, _lists(args))
                return [] if cursor.description is None else await cursor.fetchall()


class _Psycopg(Borrowed):
    def __init__(self, connection: Any, schema: str) -> None:
        super().__init__(connection, schema)
        _refuse_psycopg_autocommit(connection)

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        psycopg = sys.modules["psycopg"]
        with _translated(), psycopg.RawCursor(self.connection, row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(query, _lists(args))
            return [] if cursor.description is None else cursor.fetchall()


class _AsyncSqlalchemy(Borrowed):
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        with _translated():
            connection = await self._opened()
            _refuse_sqlalchemy_autocommit(connection.sync_connection)
            return _mappings(await connection.execute(_named(query), _names(args)))

    async def _opened(self) -> Any:
        return self.connection


class _AsyncSqlalchemySession(_AsyncSqlalchemy):
    async def _opened(self) -> Any:
        return await self.connection.connection()


class _Sqlalchemy(Borrowed):
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        with _translated():
            connection = self._opened()
            _refuse_sqlalchemy_autocommit(connection)
            return _mappings(connection.execute(_named(query), _names(args)))

    def _opened(self) -> Any:
        return self.connection


class _SqlalchemySession(_Sqlalchemy):
    def _opened(self) -> Any:
        return self.connection.connection()


_ASYNC: dict[tuple[str, str], Callable[[Any, str], Tx]] = {
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("sqlalchemy", "AsyncConnection"): _AsyncSqlalchemy,
    ("sqlalchemy", "AsyncSession"): _AsyncSqlalchemySession,
    ("sqlalchemy", "async_scoped_session"): _AsyncSqlalchemySession,
}
_PLAIN: dict[tuple[str, str], Callable[[Any, str], Tx]] = {
    ("psycopg", "Connection"): _Psycopg,
    ("sqlalchemy", "Connection"): _Sqlalchemy,
    ("sqlalchemy", "Session"): _SqlalchemySession,
    ("sqlalchemy", "scoped_session"): _SqlalchemySession,
}


def _kind(connection: object) -> tuple[str, str] | None:
    """Find the class that we know among those that an object is made of."""
    for each in type(connection).__mro__:
        kind = (each.__module__.partition(".")[0], each.__name__)
        if kind in _ASYNC or kind in _PLAIN:
            return kind
    return None


def _shown(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _unknown(connection: object) -> errors.ConnectionUnfit:
    known = "of asyncpg or psycopg, or a connection or session of SQLAlchemy"
    return errors.ConnectionUnfit(f"connection: expected a connection {known}, got {_shown(connection)}.")


def _autocommit(what: str) -> errors.ConnectionUnfit:
    return errors.ConnectionUnfit(f"This {what} is in no transaction: what is written through it would stay at once.")


def _refuse_psycopg_autocommit(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == IDLE:
        raise _autocommit("psycopg connection commits each statement and")


def _refuse_sqlalchemy_autocommit(connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise errors.ConnectionUnfit(f"This connection is one to {connection.dialect.name}, not to PostgreSQL.")
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise _autocommit("SQLAlchemy connection commits each statement and")


def _lists(args: Sequence[Any]) -> list[Any]:
    """Return the arguments as psycopg wants them: to it a list is an array, and a tuple a row."""
    return [list(each) if isinstance(each, tuple) else each for each in args]


def _names(args: Sequence[Any]) -> dict[str, Any]:
    return {f"p{place}": value for place, value in enumerate(_lists(args), 1)}


@lru_cache(maxsize=256)
def _named(query: str) -> Any:
    """Write a statement as SQLAlchemy wants it: every other colon is escaped, and a cast must not touch a name."""
    return sys.modules["sqlalchemy"].text(_POSITION.sub(r"(:p\1)", query.replace(":", r"\:")))


def _mappings(result: Any) -> Sequence[Row]:
    rows: Sequence[Row] = result.mappings().all() if result.returns_rows else []
    return rows


@contextmanager
def _translated() -> Iterator[None]:
    """Let driver errors out as ours; what is no word of the database's stays as it is."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _DRIVERS:
            raise
        ours = _told(error)
        if ours is None:
            raise
        raise ours from error


def _told(error: Exception) -> errors.FerrymanError | None:
    origin = getattr(error, "orig", None) or error  # SQLAlchemy wraps what the driver raised
    state = getattr(origin, "sqlstate", None)
    said = str(origin).partition("\n")[0].rstrip(".")
    if state is None:
        away = isinstance(error, OSError) or {"OperationalError", "InterfaceError"} & _class_names(error)
        return errors.DatabaseUnavailable(f"PostgreSQL cannot be used now: {said}.") if away else None
    if state == outage.FAILED_BEFORE:
        return errors.ConnectionUnfit("The transaction has failed before: it can only be rolled back.")
    if outage.passing(state):
        again = f"{said}. Roll back, and run the whole transaction again."
        return outage.told(state, again if state in _RUN_AGAIN else f"PostgreSQL cannot be used now: {said}.")
    if state in _NOT_MIGRATED:
        return errors.DatabaseNotMigrated(reason=said)
    if state == _NOT_ALLOWED:
        return errors.DatabaseRefused(f"PostgreSQL refuses: {said}.")
    return errors.StatementRefused(f"PostgreSQL refused a statement: {said}.", sqlstate=state)


def _class_names(error: Exception) -> set[str]:
    return {each.__name__ for each in type(error).__mro__}
