"""Letting in what has come due.

What waits for its time is not in the order of claiming; a bounded sweep puts it there. The sweep looks when the next task
will be due, when it is rung, and every poll interval in any case. Any number of workers may sweep at once.
"""

from __future__ import annotations

import asyncio
import logging

from ferryman.kernel import errors
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Line
from ferryman.tasks import store

log = logging.getLogger("ferryman.tasks")

SET = 500


class Sweep:
    """Promote tasks when they are due."""

    def __init__(self, line: Line, doorbell: Doorbell, *, poll: float) -> None:
        """Sweep over a line of its own."""
        self._line = line
        self._doorbell = doorbell
        self._poll = poll
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
        count, lanes, next_seconds = await store.promote(self._line, limit=SET)
        if lanes:
            self._doorbell.ring("ready", lanes)
        if count == SET:
            return 0.0
        return self._poll if next_seconds is None else min(self._poll, max(0.001, next_seconds))

    async def _rest(self, pause: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), pause)
        except TimeoutError:
            return
