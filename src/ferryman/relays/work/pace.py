"""When a relay looks at the log again.

It is rung by whatever rings for a move of work, and looks every poll interval in any case. Under load it does not look for each
event: after a look it rests for a moment, so that the next one finds a set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.timed import timed

# Rings that come with a new row in the log.
TOPICS: Final = ("ready", "due", "done", "cancel", "webhooks")
LEAST_SECONDS: Final = 0.05


class Pace:
    """Rest until there may be something to read."""

    def __init__(self, doorbell: Doorbell, *, poll: float) -> None:
        """Listen from now on."""
        self._poll = poll
        self._rung = asyncio.Event()
        self._stopped = asyncio.Event()
        self._hushes: list[Callable[[], None]] = [
            doorbell.listen(topic, lambda _hints: self._rung.set()) for topic in TOPICS
        ]

    @property
    def stopped(self) -> bool:
        """Whether somebody asked for the end."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Rest no more."""
        self._stopped.set()
        self._rung.set()

    async def rest(self) -> None:
        """Rest a moment, and then until somebody rings or the poll interval is over."""
        await self.wait(LEAST_SECONDS)
        if not self._rung.is_set() and not self.stopped:
            try:
                await timed(self._rung.wait(), max(0.0, self._poll - LEAST_SECONDS))
            except TimeoutError:
                return
        self._rung.clear()

    async def wait(self, seconds: float) -> None:
        """Wait, whoever rings; not past the end."""
        try:
            await timed(self._stopped.wait(), seconds)
        except TimeoutError:
            return

    def close(self) -> None:
        """Listen no more."""
        for hush in self._hushes:
            hush()
