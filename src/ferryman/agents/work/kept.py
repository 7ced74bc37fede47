"""Handlers of suspended turns that are still here.

A turn that waits holds no worker. Its handler stays in this process for a while, and if the turn comes back to it, it goes on
without a replay. That is a saving and no promise: of the handlers that wait, only so many are kept, and each only so long; the
others are ended, and their turns are replayed. So a crowd of waiting turns costs rows, not coroutines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from uuid import UUID

from ferryman.agents.work.life import Life

MOST = 100
SECONDS = 30.0


class Kept:
    """The handlers that wait, oldest first."""

    def __init__(self, *, most: int = MOST, seconds: float = SECONDS) -> None:
        """Keep so many, for so long."""
        self._most = most
        self._seconds = seconds
        self._lives: dict[UUID, tuple[Life, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def put(self, life: Life) -> None:
        """Keep a handler whose turn is suspended."""
        loop = asyncio.get_running_loop()
        self.drop([life.id])
        self._lives[life.id] = (life, loop.time() + self._seconds)
        while len(self._lives) > self._most:
            self.drop([next(iter(self._lives))])
        if self._timer is None and self._lives:
            self._timer = loop.call_later(self._seconds, self._sweep)

    def take(self, id: UUID, epoch: int) -> Life | None:
        """Return the handler of a turn that goes on at this epoch; one that stands at another is ended."""
        life, _ = self._lives.pop(id, (None, 0.0))
        if life is not None and life.epoch + 1 == epoch and not life.ended:
            return life
        if life is not None:
            life.abandon()
        return None

    def holds(self, id: UUID, epoch: int) -> bool:
        """Tell whether a turn could go on here at this epoch."""
        life, _ = self._lives.get(id, (None, 0.0))
        return life is not None and life.epoch + 1 == epoch and not life.ended

    def drop(self, ids: Collection[UUID]) -> None:
        """End handlers whose turns go on elsewhere, or are over."""
        for id in ids:
            life, _ = self._lives.pop(id, (None, 0.0))
            if life is not None:
                life.abandon()

    def among(self, test: Callable[[UUID], bool]) -> list[UUID]:
        """Return those that a test picks."""
        return [id for id in self._lives if test(id)]

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        self.drop([id for id, (_, until) in self._lives.items() if until <= loop.time()])
        if self._lives:
            _, soonest = next(iter(self._lives.values()))
            self._timer = loop.call_at(soonest, self._sweep)

    def close(self) -> None:
        """End them all."""
        self.drop(list(self._lives))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
