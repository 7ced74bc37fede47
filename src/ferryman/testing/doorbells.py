"""Doorbells that misbehave, for suites that must pass all the same (R8).

Each wraps another doorbell and spoils what its listeners hear, whether it was rung in this process or in another one. What is
rung goes out untouched. `Lossy(inner, share=1.0)` is the harshest: nobody ever hears anything.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable

from ferryman.kernel.doorbell import Doorbell, Heard, Inside


class _Wrapped:
    """A doorbell that passes everything on."""

    def __init__(self, inner: Doorbell) -> None:
        self.inner = inner

    async def open(self) -> None:
        """Open the doorbell within."""
        await self.inner.open()

    async def close(self) -> None:
        """Close the doorbell within."""
        await self.inner.close()

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        """Ring the doorbell within."""
        self.inner.ring(topic, hints, inside=inside)

    def inside(self, topic: str, hints: Iterable[str] = ()) -> Inside | None:
        """Give what the doorbell within gives."""
        return self.inner.inside(topic, hints)


class Lossy(_Wrapped):
    """Loses a share of what would be heard; the same seed loses the same."""

    def __init__(self, inner: Doorbell, *, share: float = 0.5, seed: int = 0) -> None:
        super().__init__(inner)
        self.lost = 0
        self._share = share
        self._chance = random.Random(seed)

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear some of the rings."""

        def perhaps(hints: frozenset[str]) -> None:
            if self._chance.random() < self._share:
                self.lost += 1
            else:
                heard(hints)

        return self.inner.listen(topic, perhaps)


class Doubled(_Wrapped):
    """Everything is heard twice."""

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear each ring twice."""

        def twice(hints: frozenset[str]) -> None:
            heard(hints)
            heard(hints)

        return self.inner.listen(topic, twice)


class Late(_Wrapped):
    """Everything is heard late: when `behind` more rings, of any topic, have come, or at `release()`. No clock is involved."""

    def __init__(self, inner: Doorbell, *, behind: int = 1) -> None:
        super().__init__(inner)
        self._behind = behind
        self._held: deque[tuple[Heard, frozenset[str]]] = deque()

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear each ring when others have followed it; after stopping, nothing that is held comes any more."""
        listening = True

        def deliver(hints: frozenset[str]) -> None:
            if listening:
                heard(hints)

        def hold(hints: frozenset[str]) -> None:
            self._held.append((deliver, hints))
            self._let_go(keep=self._behind)

        stop_inner = self.inner.listen(topic, hold)

        def stop() -> None:
            nonlocal listening
            listening = False
            stop_inner()

        return stop

    def release(self) -> None:
        """Deliver all that is held."""
        self._let_go(keep=0)

    def _let_go(self, *, keep: int) -> None:
        while len(self._held) > keep:
            heard, hints = self._held.popleft()
            heard(hints)
