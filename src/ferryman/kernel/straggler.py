"""Outcomes that take too long, and what they leave to others (K25).

A set that was broken off in the middle would be so again, and the claim beside it and whoever joins it would wait each time. So
it goes apart, in halves, until what takes too long by itself stands alone; one half at a time, without a claim, and after each
that was sent in vain others have the lanes for as long as it took. An outcome is put apart from the first time on, though that
may have been the fault of a claim beside it, or of a connection that was cut: then its own turn ends that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Generic
from uuid import UUID

from ferryman.kernel.crew import Outcome

Turn = Callable[[list[Outcome], int, object], Awaitable[None]]


class Stragglers(Generic[Outcome]):
    """The stragglers of one pump."""

    def __init__(self, rouse: Callable[[], None]) -> None:
        """Begin with none; `rouse` lets the pump look whether some may go."""
        self._rouse = rouse
        self._sets: deque[list[Outcome]] = deque()
        self._barred = 0  # by the set under way, and by its rest
        self._sent: list[Outcome] | None = None
        self._began = 0.0

    @property
    def ready(self) -> bool:
        """Whether some may go."""
        return bool(self._sets) and not self._barred

    def put(self, outcomes: list[Outcome]) -> None:
        """Put a set apart, in halves. If that was the one under way, none goes for as long as it was."""
        half = len(outcomes) // 2
        self._sets.extend(part for part in (outcomes[:half], outcomes[half:]) if part)
        if outcomes is self._sent:
            self._barred += 1
            asyncio.get_running_loop().call_later(time.monotonic() - self._began, self._let)

    def give_up(self, ids: Collection[UUID]) -> Sequence[Outcome]:
        """Send no more those whose claims are no longer ours, but for the set under way; return them."""
        gone = [each for some in self._sets for each in some if each.id in ids]
        if gone:
            left = ([each for each in some if each.id not in ids] for some in self._sets)
            self._sets = deque(some for some in left if some)
        return gone

    def send(self, turn: Turn[Outcome]) -> Coroutine[Any, Any, None]:
        """Give a turn to the set that may go; no other goes before it has ended."""
        self._barred += 1
        return self._send(turn, self._sets.popleft())

    async def _send(self, turn: Turn[Outcome], outcomes: list[Outcome]) -> None:
        self._sent, self._began = outcomes, time.monotonic()
        try:
            await turn(outcomes, 0, object())
        finally:
            self._sent = None
            self._let()

    def _let(self) -> None:
        self._barred -= 1
        self._rouse()
