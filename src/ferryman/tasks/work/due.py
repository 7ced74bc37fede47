"""Letting in what has come due.

What waits for its time is not in the order of claiming; a bounded sweep puts it there. The same look tells whether a schedule
is due, which is then fired. The sweep looks when the next of both will be due, when it is rung, and every poll interval in
any case. Any number of workers may sweep at once.
"""

from __future__ import annotations

import asyncio
import logging

from ferryman.kernel import errors
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Line
from ferryman.kernel.timed import timed
from ferryman.tasks import store
from ferryman.tasks.work.scheduler import Scheduler

log = logging.getLogger("ferryman.tasks")

SET = 500
BUSY_SECONDS = 0.05


class Sweep:
    """Promote tasks when they are due."""

    def __init__(self, line: Line, doorbell: Doorbell, *, poll: float, scheduler: Scheduler | None = None) -> None:
        """Sweep over a line of its own; the scheduler may share it, as the two take turns."""
        self._line = line
        self._doorbell = doorbell
        self._poll = poll
        self._scheduler = scheduler
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Sweep until cancelled."""
        stop = self._doorbell.listen("due", lambda _hints: self._wake.set())
        failures = 0
        try:
            while True:
                self._wake.clear()
                try:
                    pause = await self.once()
                    failures = 0
                except errors.FerrymanError as error:
                    failures += 1
                    pause = RECONNECT.delay(failures).total_seconds()
                    log.warning("due tasks could not be let in", extra={"code": error.code, "reason": error.message})
                except Exception:
                    failures += 1
                    pause = RECONNECT.delay(failures).total_seconds()
                    log.exception("due tasks could not be let in")
                if pause > 0:
                    await self._rest(pause)
        finally:
            stop()

    async def once(self) -> float:
        """Let in one set; return how many seconds until the next look."""
        aside = self._scheduler.aside() if self._scheduler is not None else ()
        count, lanes, next_seconds = await store.promote(self._line, limit=SET, aside=aside)
        if lanes:
            self._doorbell.ring("ready", lanes)
        pause = self._poll if next_seconds is None else min(self._poll, max(0.001, next_seconds))
        if next_seconds is not None and next_seconds <= 0 and self._scheduler is not None:
            pause = await self._fire(self._scheduler)
        return 0.0 if count == SET else pause

    async def _fire(self, scheduler: Scheduler) -> float:
        # When none went on, others hold what is due, for a moment; or it was put aside, and the next look passes over it.
        return 0.0 if await scheduler.once() else min(self._poll, BUSY_SECONDS)

    async def _rest(self, pause: float) -> None:
        try:
            await timed(self._wake.wait(), pause)
        except TimeoutError:
            return
