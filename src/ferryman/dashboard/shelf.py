"""What is costly to read, kept by name for a moment and shared by all who look at the same page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from ferryman.app.shared import Shared

EVERY = 1.0
MOST = 256

Value = TypeVar("Value")


class Shelf:
    """Values by name; each is made anew when somebody asks and it is old. What nobody asked for longest leaves."""

    def __init__(self, *, every: float = EVERY, most: int = MOST) -> None:
        """Begin empty."""
        self._every = every
        self._most = most
        self._kept: dict[Hashable, Shared[Any]] = {}

    async def get(self, name: Hashable, make: Callable[[], Awaitable[Value]]) -> Value:
        """Return a value; a name stands for one thing of one tenant, however it is made."""
        kept = self._kept.pop(name, None) or Shared(make, every=self._every)
        self._kept[name] = kept
        while len(self._kept) > self._most:
            self._kept.pop(next(iter(self._kept)))
        value: Value = await kept.get()
        return value

    def __len__(self) -> int:
        return len(self._kept)
