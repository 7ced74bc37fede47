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
from ferryman.batches.work.dispatch import Pass, TooMuch, alone_instead, dispatch
from ferryman.batches.work.forks import PENDING
from ferryman.kernel import faults, outage, retry, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.follow import within
from ferryman.kernel.pool import Line

log = telemetry.logger("batches")

ORPHANED = "parent_ended"
LIMIT = 200
# How long whoever holds a batch, or an agent, is left to be done with it; at first.
HELD = retry.Backoff(base=timedelta(milliseconds=20), cap=timedelta(seconds=1))


class BatchWorker:
    """Send tasks and end orphans; a part of a worker (kernel/part.py)."""

    def __init__(self, ends: BatchEnds, doorbell: Doorbell, *, line: Line) -> None:
        """Work under these terms, on a connection of its own."""
        self._ends = ends
        self._doorbell = doorbell
        self._line = line.hurry()  # whoever holds one batch holds up no other
        self._room = ends.terms.dispatch_concurrency
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
                await self._look()
            except Exception as error:
                if outage.of_all(error):
                    log.warning("the database is away: the watchdog goes on with batches", extra={"error": str(error)})
                    continue
                outage.tell(error)
                log.exception("a look at batches failed: the watchdog goes on with them")

    async def _look(self) -> None:
        """Send while there is something to send, and end orphans meanwhile."""
        held = 0
        await self._orphans()
        while not self._stopping and (done := await self._pass()).more:
            held = 0 if done.taken else held + 1
            if held and await within(self._rung, HELD.delay(held).total_seconds()):
                self._rung.clear()
            await self._orphans()

    async def _pass(self) -> Pass:
        """Send one set; where it is too much, the next is smaller, and where it fails each of it goes by itself."""
        try:
            done = await self._send()
        except TooMuch as error:
            log.warning("half as many tasks are dispatched at a time: %s", error)
            self._room = error.size // 2
            return Pass(0, more=True)
        except Exception as error:
            if not alone_instead(error):
                raise
            done = await self._send(careful=True)
        if done.taken:
            self._room = min(self._ends.terms.dispatch_concurrency, self._room * 2)
        return done

    async def _send(self, *, careful: bool = False) -> Pass:
        after = Aftermath()
        async with self._line.transaction() as tx:
            done = await dispatch(
                tx, self._ends.parties, self._ends.terms, after=after, room=self._room, careful=careful
            )
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
        try:
            async with self._line.transaction() as tx:
                found = await batches.orphans(tx, LIMIT, turns=None if everybody else turns)
                if found:
                    ids = [row["id"] for row in found]
                    await cancel(tx, ids, self._ends.parties, self._ends.terms, reason=ORPHANED, after=after)
        except Exception as error:
            if outage.of_all(error):
                raise
            outage.tell(error)
            log.exception("orphans could not be ended: the watchdog goes on with each by itself")
            return
        after.ring(self._doorbell)
