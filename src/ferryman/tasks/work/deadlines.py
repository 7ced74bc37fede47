"""The timeouts of everything that runs here, with one timer.

A timer for each attempt would cost more than a short handler does. Most attempts end long before their timeout, and most
timeouts are alike: so the one timer stands at the earliest deadline that was known when it was set, and when it rings the
few that have passed are cancelled and the next earliest is looked for.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Deadline:
    """The end of one attempt: cancels the asyncio task that runs it, once."""

    __slots__ = ("at", "expired", "task")

    def __init__(self, at: float, task: asyncio.Task[Any]) -> None:
        """Stand at a time of the loop's clock."""
        self.at = at
        self.task = task
        self.expired = False


class Deadlines:
    """All deadlines of one worker."""

    def __init__(self) -> None:
        """Begin with none."""
        self._running: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> Deadline:
        """Give the running asyncio task this many seconds."""
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        deadline = Deadline(loop.time() + seconds, task)
        self._running.add(deadline)
        if self._timer is None or deadline.at < self._timer.when():
            self._set(loop, deadline.at)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """Forget a deadline that was met."""
        self._running.discard(deadline)

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for deadline in [each for each in self._running if each.at <= now]:
            self._running.discard(deadline)
            deadline.expired = True
            deadline.task.cancel()
        if self._running:
            self._set(loop, min(each.at for each in self._running))
