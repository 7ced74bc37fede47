"""Where runs write: connections of their own, asked again while the database is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol, TypeVar
from uuid import UUID

from ferryman.ingest.model import Claimed
from ferryman.ingest.store import plans, tasks
from ferryman.kernel import errors, outage, telemetry
from ferryman.kernel.db import Tx, sqlstate
from ferryman.kernel.patience import outlast

log = telemetry.logger("ingest")

Answered = TypeVar("Answered")


def _comes_back(error: errors.FerrymanError) -> bool:
    """Tell whether the database will take it later; what a table of the user's does not allow, or lacks, stays so."""
    return isinstance(error, errors.DatabaseUnavailable | errors.DatabaseRefused) and error.retryable


class Pool(Protocol):
    """Connections for runs, beside those of the pump."""

    def session(self) -> AbstractAsyncContextManager[Tx]:
        """Lend one on which each statement commits itself."""

    def transaction(self) -> AbstractAsyncContextManager[Tx]:
        """Lend one for a transaction."""


class Stale(Exception):
    """The claim is not ours any more."""


class Desk:
    """What the runs of one executor write with."""

    def __init__(self, pool: Pool, *, owner: UUID, strikes: int, pause: timedelta) -> None:
        """Write under one boot id; `strikes` failed requests in a row open the circuit breaker for `pause`."""
        self.owner = owner
        self._pool = pool
        self._strikes = strikes
        self._pause = pause

    async def write(self, act: Callable[[Tx], Awaitable[Answered]], *, whole: bool = False) -> Answered:
        """Do something, `whole` in a transaction, again while the database is away; the pump ends the wait with the lease.

        What may be the fault of a sink's statement, or of its records, is told to it (kernel/outage.py).
        """

        async def attempt() -> Answered:
            connected = False
            try:
                async with self._pool.transaction() if whole else self._pool.session() as tx:
                    connected = True
                    return await act(tx)
            except errors.DatabaseUnavailable as error:
                state = sqlstate(error.__cause__) if error.__cause__ is not None else None
                if state is None or not connected or not outage.theirs(state):
                    raise
                raise errors.StatementRefused(error.message, sqlstate=state) from error

        return await outlast(attempt, over=_comes_back)

    async def clock(self) -> datetime:
        """Read the time of the database."""
        return await self.write(plans.clock)

    async def strike(self, task: Claimed) -> timedelta | None:
        """Count a failed request; say how long the circuit breaker is open, if it is."""
        row = await self.write(
            lambda tx: tasks.strike(tx, tenant=task.tenant, source=task.source, most=self._strikes, pause=self._pause)
        )
        if row is None or row["failures"] < self._strikes:
            return None
        log.warning("the circuit breaker of %s is open", task.source, extra={"source": task.source})
        return self._pause
