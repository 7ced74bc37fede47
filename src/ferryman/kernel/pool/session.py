"""One connection in our hands, seen as a `Tx`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from io import BytesIO
from typing import Any

import asyncpg

from ferryman.kernel import errors, telemetry
from ferryman.kernel.db import Row
from ferryman.kernel.pool.said import sentence, translated

log = telemetry.logger("pool")

SCRIPT_TIMEOUT_SECONDS = 6 * 3600.0  # an index of a large table takes its time


class Session:
    """A connection, seen as a `Tx`."""

    __slots__ = ("_bounds", "_connection", "schema")

    def __init__(self, connection: Any, schema: str, *, bounds: str = "") -> None:
        """Wrap an asyncpg connection; `bounds` are statements that each transaction begins with (terms.py)."""
        self._connection = connection
        self._bounds = bounds
        self.schema = schema

    @property
    def in_transaction(self) -> bool:
        """Whether statements wait for a commit."""
        return bool(self._connection.is_in_transaction())

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement."""
        try:
            if self._bounds and not self.in_transaction:
                return await self._alone(query, *args)
            rows: Sequence[Row] = await self._connection.fetch(query, *args)
        except Exception:
            # Entered by who needs it: on the way to every lonely statement it would cost as much as the payload's checks.
            with self._translated():
                raise
        return rows

    async def _alone(self, query: str, /, *args: Any) -> Sequence[Row]:
        """Run one statement in a transaction of its own that begins with the bounds, in two more round trips.

        What nobody waits for any more is then never committed: that takes a word of ours, after its answer has come. Whoever is
        cancelled does not wait for the answer to a rollback either, on a connection that may be silent: it is given up with it.
        """
        with self._whole():
            try:
                await self.execute(f"begin;{self._bounds}", timeout=None)
                with self._translated():
                    rows: Sequence[Row] = await self._connection.fetch(query, *args)
            except Exception:
                await _undo(partial(self._connection.execute, "rollback"))
                raise
            await self.execute("commit", timeout=None)
        return rows

    async def together(self, script: str) -> None:
        """Run plain statements as one message, which is one transaction, with its bounds in front."""
        await self.execute(f"{self._bounds};{script}" if self._bounds else script, timeout=None)

    async def execute(self, script: str, *, timeout: float | None = SCRIPT_TIMEOUT_SECONDS) -> None:
        """Run a script of several statements (migrations); no timeout of its own means that of any statement."""
        with self._translated():
            await self._connection.execute(script, timeout=timeout)

    async def copy(self, table: str, columns: Sequence[str], text: bytes) -> None:
        """Load rows in the text format of COPY; the table is found by the search path."""
        with self._translated():
            await self._connection.copy_to_table(table, source=BytesIO(text), columns=columns, format="text")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with translated():
            try:
                yield
            except (asyncpg.InternalClientError, TimeoutError) as error:
                self._connection.terminate()  # it does not know itself that it cannot be used any more
                raise errors.DatabaseUnavailable(sentence(error), unfinished=True) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Open a transaction, or a savepoint inside one.

        Only our own steps are translated: an OSError of the caller's code is no word about the database.
        """
        transaction = self._connection.transaction()
        with self._translated():
            inside = self.in_transaction
            with nullcontext() if inside else self._whole():
                await transaction.start()
        try:
            if self._bounds and not inside:
                await self.execute(self._bounds, timeout=None)
            yield self
        except BaseException:
            with nullcontext() if inside else self._whole():
                await _undo(transaction.rollback)
            raise
        with self._translated(), nullcontext() if inside else self._whole():
            await transaction.commit()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Give up the connection of who is cancelled while a transaction begins or ends.

        It may be left in one that nobody knows of: whoever comes next would write into that, be told that it is committed, and
        lose it when it is ended as an idle one.
        """
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self._connection.terminate()
            raise


async def _undo(rollback: Callable[[], Awaitable[object]]) -> None:
    """Roll back; where the connection is gone, PostgreSQL has done so."""
    try:
        await rollback()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        log.debug("could not roll back", exc_info=error)
