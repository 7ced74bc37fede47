"""What batches do in a worker: send tasks when somebody rings, and end batches whose parents were stopped.

Nothing is polled here: what no ring told of is found by the watchdog's sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.ends import Aftermath
from ferryman.batches.ends import BatchEnds, cancel
from ferryman.batches.store import batches
from ferryman.batches.work.dispatch import Pass, dispatch
from ferryman.batches.work.forks import PENDING
from ferryman.kernel import errors, faults, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Line

log = telemetry.logger("batches")

ORPHANED = "parent_ended"
LIMIT = 200
HELD_SECONDS = 0.02  # how long whoever holds a batch is left to be done with it


class BatchWorker:
    """Send tasks and end orphans; a part of a worker (kernel/part.py)."""

    def __init__(self, ends: BatchEnds, doorbell: Doorbell, *, line: Line) -> None:
        """Work under these terms, on a connection of its own."""
        self._ends = ends
        self._doorbell = doorbell
        self._line = line
        self._rung = asyncio.Event()
        self._stopping = False
        self._stopped: set[UUID] = set()
        self._any_stopped = False
        self._hushes: Sequence[Callable[[], None]] = ()
        self._own: asyncio.Task[None] | None = None

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to listen."""
        self._hushes = [
            self._doorbell.listen(PENDING, lambda _hints: self._rung.set()),
            self._doorbell.listen("stopped", self._hear_of_stopped),
        ]
        self._rung.set()
        self._own = asyncio.create_task(self._run())
        return {"batches": self._own}

    def _hear_of_stopped(self, hints: frozenset[str]) -> None:
        self._any_stopped |= not hints
        for each in hints:
            with contextlib.suppress(ValueError):  # it names no turn, so nobody of ours has rung
                self._stopped.add(UUID(each))
        self._rung.set()

    async def drain(self, grace: timedelta) -> None:
        """Send nothing more; what is under way is one short transaction."""
        self._stopping = True
        self._rung.set()

    async def close(self) -> None:
        """Let go."""
        for hush in self._hushes:
            hush()
        if self._own is not None:
            self._own.cancel()
            await asyncio.gather(self._own, return_exceptions=True)
        await self._line.close()

    async def _run(self) -> None:
        while True:
            await self._rung.wait()
            self._rung.clear()
            if self._stopping:
                await asyncio.Event().wait()  # no part of a worker ends by itself
            try:
                await self._orphans()
                while not self._stopping and (done := await self._pass()).more:
                    await self._orphans()
                    if not done.taken:
                        await asyncio.sleep(HELD_SECONDS)
            except errors.DatabaseUnavailable as error:
                log.warning("the database is away: the watchdog goes on with batches", extra={"error": error.message})
            except Exception:
                log.exception("a look at batches failed: the watchdog goes on with them")

    async def _pass(self) -> Pass:
        """Send one set; where that fails, a smaller one, each by itself."""
        after = Aftermath()
        try:
            async with self._line.transaction() as tx:
                done = await dispatch(tx, self._ends.parties, self._ends.terms, after=after)
        except errors.DatabaseUnavailable:
            raise
        except Exception:
            log.exception("a set of tasks could not be dispatched: each is tried by itself")
            after = Aftermath()
            async with self._line.transaction() as tx:
                done = await dispatch(tx, self._ends.parties, self._ends.terms, after=after, careful=True)
        if done.taken:
            faults.point("batch.sent")
        after.ring(self._doorbell)
        return done

    async def _orphans(self) -> None:
        """End batches whose parents were stopped, and so their children, down the tree (B11)."""
        turns, everybody = self._stopped, self._any_stopped
        self._stopped, self._any_stopped = set(), False
        if not turns and not everybody:
            return
        after = Aftermath()
        async with self._line.transaction() as tx:
            found = await batches.orphans(tx, LIMIT, turns=None if everybody else turns)
            if found:
                ids = [row["id"] for row in found]
                await cancel(tx, ids, self._ends.parties, self._ends.terms, reason=ORPHANED, after=after)
        after.ring(self._doorbell)
