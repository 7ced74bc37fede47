"""The keeper of leases: says for a worker that it lives.

It has a thread, an event loop and a connection of its own, because a handler may block the loop it runs on, or hold every
connection of the pool, and must not lose its lease by that (K5). What is refused is not ours any more (cancelled, reaped,
taken over): the keeper tells the pump, which aborts the handler. A lease is never renewed past the end of the attempt, so a
handler that blocks for ever is still taken from this worker in time.

A round that does not come back within a third of a lease is given up together with its connection, which may be dead without
knowing it, while there is still time for another. What somebody else is writing at this moment is not waited for: one
slow cancellation must not cost the other leases; it is looked at again in the next round. Nor must one row that cannot be
written now, as of a damaged page: it is found by halving, within the round, and tried again by the next ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.kernel import errors, faults, outage
from ferryman.kernel.hold import Holding
from ferryman.kernel.lease import patience
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Line
from ferryman.kernel.timed import timed

log = logging.getLogger("ferryman.keeper")

# However long the lease: whoever has a short one gives a short grace after an outage, and this keeper must be heard in it.
SOON_SECONDS = 1.0

# Answers for each that is still ours whether it was renewed; false where somebody is writing it at this moment.
Renew = Callable[[Line, Sequence[UUID], Sequence[int]], Awaitable[Mapping[UUID, bool]]]
Beat = Callable[[Line], Awaitable[None]]


class Keeper:
    """Renew what a pump holds, every third of a lease."""

    def __init__(
        self,
        line: Callable[[], Line],
        *,
        held: Mapping[UUID, Holding[Any]],
        renew: Renew,
        beat: Beat | None = None,
        refused: Callable[[Collection[UUID]], None],
        lease: timedelta,
    ) -> None:
        """Take what to renew and whom to tell; `line` makes the connection, on the keeper's own loop."""
        self._make_line = line
        self._held = held
        self._renew = renew
        self._beat = beat
        self._refused = refused
        self._third = lease.total_seconds() / 3
        self._patience = patience(lease).total_seconds()
        self._home: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look: asyncio.Event | None = None
        self._stopping = False
        self._all = False
        self._next_beat = 0.0
        self._over: asyncio.Future[None] | None = None

    def start(self) -> asyncio.Future[None]:
        """Begin; called on the loop that the handlers run on. What is returned is done when the thread has ended."""
        self._home = asyncio.get_running_loop()
        over: asyncio.Future[None] = self._home.create_future()
        threading.Thread(target=self._main, args=(over,), name="ferryman-keeper", daemon=True).start()
        self._over = over
        return over

    def check(self) -> None:
        """Look at every lease now: somebody may have cancelled a task that is held here."""
        self._all = True
        self._rouse()

    async def stop(self) -> None:
        """End the thread; nothing is renewed after that."""
        self._stopping = True
        self._rouse()
        if self._over is not None:
            await asyncio.wait([self._over], timeout=5.0)

    def _rouse(self) -> None:
        loop, look = self._loop, self._look
        if loop is not None and look is not None and not loop.is_closed():
            loop.call_soon_threadsafe(look.set)

    def _main(self, over: asyncio.Future[None]) -> None:
        failure: BaseException | None = None
        try:
            asyncio.run(self._keep())
        except BaseException as error:  # noqa: BLE001 - told to the worker, which cannot go on without its keeper
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            over.get_loop().call_soon_threadsafe(_end, over, failure)

    async def _keep(self) -> None:
        self._loop, self._look = asyncio.get_running_loop(), asyncio.Event()
        line = self._make_line()
        failures = 0
        try:
            while not self._stopping:
                try:
                    await timed(self._round(line), self._patience)
                    failures = 0
                except Exception as error:  # noqa: BLE001 - tried again: without this thread every lease is lost
                    failures += 1
                    self._failed(error, failures)
                    if not outage.narrow(error):
                        line.drop()
                # Twice a third's pace, so that a lease claimed just after a round is renewed well before its end.
                await self._rest(self._back_in(failures) if failures else self._third / 2)
        finally:
            await line.close()

    def _back_in(self, failures: int) -> float:
        """Return when to try again: soon, because a short outage gives no grace (decision 16)."""
        return min(self._third / 4, SOON_SECONDS, RECONNECT.delay(failures).total_seconds())

    def _failed(self, error: Exception, failures: int) -> None:
        if isinstance(error, errors.FerrymanError | TimeoutError):
            told = {"reason": str(error) or "no answer in time", "failures": failures}
            log.log(logging.WARNING if failures == 1 else logging.DEBUG, "leases could not be renewed", extra=told)
        else:
            log.error("leases could not be renewed", exc_info=error, extra={"failures": failures})

    async def _round(self, line: Line) -> None:
        left = await self._renew_due(line)
        if self._beat is not None and time.monotonic() >= self._next_beat:
            await self._beat(line)
            self._next_beat = time.monotonic() + self._third
        if left is not None:
            raise left  # after the beat: the worker lives, and its other leases are renewed

    async def _rest(self, pause: float) -> None:
        look = self._look
        assert look is not None
        try:
            await timed(look.wait(), pause)
        except TimeoutError:
            return
        look.clear()

    async def _renew_due(self, line: Line) -> Exception | None:
        everything = self._all
        self._all = False
        try:
            return await self._renew_those(line, everything)
        except BaseException:
            self._all = self._all or everything
            raise

    async def _renew_those(self, line: Line, everything: bool) -> Exception | None:
        now = time.monotonic()
        due = [each for each in list(self._held.values()) if everything or now - each.renewed >= self._third]
        if not due:
            return None
        due.sort(key=lambda each: each.item.id.int)
        faults.point("renew.before")
        return await self._renew_set(line, due, now)

    async def _renew_set(self, line: Line, due: list[Holding[Any]], now: float) -> Exception | None:
        """Renew a set; what cannot be renewed now is found by halving, and the reason returned."""
        try:
            kept = await self._renew(line, [each.item.id for each in due], [each.item.epoch for each in due])
        except (errors.DatabaseUnavailable, errors.DatabaseRefused) as error:
            # Rows that somebody holds are passed over: a lock is one of the table, and in everybody's way.
            if not outage.narrow(error) or outage.locked(error):
                raise
            if len(due) == 1:
                return error
            half = len(due) // 2
            first = await self._renew_set(line, due[:half], now)
            return await self._renew_set(line, due[half:], now) or first
        self._renewed(due, kept, now)
        return None

    def _renewed(self, due: list[Holding[Any]], kept: Mapping[UUID, bool], now: float) -> None:
        for each in due:
            if kept.get(each.item.id):
                each.renewed = now
        lost = [each for each in due if each.item.id not in kept]
        if lost and self._home is not None and not self._home.is_closed():
            # A claim that was settled meanwhile is refused too: only what is still held by the same claim is aborted.
            self._home.call_soon_threadsafe(self._tell, lost)

    def _tell(self, lost: list[Holding[Any]]) -> None:
        still = [each.item.id for each in lost if self._held.get(each.item.id) is each]
        if still:
            self._refused(still)


def _end(over: asyncio.Future[None], failure: BaseException | None) -> None:
    if failure is None:
        over.set_result(None)
    else:
        over.set_exception(failure)
        over.exception()  # seen: a worker that has stopped does not ask
