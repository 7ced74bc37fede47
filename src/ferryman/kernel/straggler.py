"""Outcomes that take too long by themselves, and what they leave to others (K25).

In a set each would have the others wait, and the claim beside them, and then all would be sent again. So a straggler goes alone
and claims nothing, one of them at a time, and after each that was sent in vain others have the lanes for as long as it took. It
is one from the first time on, though that may have been the fault of a claim beside it: then its own turn ends that.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic

from ferryman.kernel.crew import Outcome

Turn = Callable[[list[Outcome], int, object], Awaitable[None]]


class Stragglers(Generic[Outcome]):
    """The stragglers of one pump."""

    def __init__(self, rouse: Callable[[], None]) -> None:
        """Begin with none; `rouse` lets the pump look whether one may go."""
        self._rouse = rouse
        self._outcomes: deque[Outcome] = deque()
        self._barred = 0  # by the one under way, and by its rest
        self._sent: Outcome | None = None
        self._began = 0.0

    @property
    def ready(self) -> bool:
        """Whether one may go."""
        return bool(self._outcomes) and not self._barred

    def put(self, outcome: Outcome) -> None:
        """Put one aside. If that was the one under way, none goes for as long as it was."""
        self._outcomes.append(outcome)
        if outcome is self._sent:
            self._barred += 1
            asyncio.get_running_loop().call_later(time.monotonic() - self._began, self._let)

    def send(self, turn: Turn[Outcome]) -> Coroutine[Any, Any, None]:
        """Give a turn to the one that may go; no other goes before it has ended."""
        self._barred += 1
        return self._send(turn, self._outcomes.popleft())

    async def _send(self, turn: Turn[Outcome], outcome: Outcome) -> None:
        self._sent, self._began = outcome, time.monotonic()
        try:
            await turn([outcome], 0, object())
        finally:
            self._sent = None
            self._let()

    def _let(self) -> None:
        self._barred -= 1
        self._rouse()
