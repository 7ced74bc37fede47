"""One value for all who ask: made when somebody asks and the last one is old, once, however many ask at that moment.

What takes long is made less often, so that it costs a bounded part of the database's time. Who has little patience gets the
last value while the next one is being made.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ferryman.kernel.timed import timed

Value = TypeVar("Value")

SHARE = 20  # making may take one part in so many of the time


class Shared(Generic[Value]):
    """A value, and how it is made."""

    def __init__(
        self, make: Callable[[], Awaitable[Value]], *, every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make it at most once in so many seconds."""
        self._make = make
        self._every = every
        self._clock = clock
        self._due = 0.0
        self._value: Value | None = None
        self._making: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """Return the value, a new one if the last is old."""
        if self._value is not None and self._clock() < self._due:
            return self._value
        return await asyncio.shield(self._made())

    async def soon(self, otherwise: Value, *, patience: float) -> Value:
        """Return the value, the last one or `otherwise` if a new one takes longer than so many seconds."""
        with contextlib.suppress(TimeoutError):
            return await timed(self.get(), patience)
        return otherwise if self._value is None else self._value

    def _made(self) -> asyncio.Task[Value]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._anew())
        return self._making

    async def _anew(self) -> Value:
        begun = self._clock()
        self._value = await self._make()
        self._due = begun + max(self._every, (self._clock() - begun) * SHARE)
        return self._value

    async def close(self) -> None:
        """Make nothing more."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
