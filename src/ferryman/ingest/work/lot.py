"""Slots that one process has leased from a gate: moments at which a request may begin, one interval apart.

A slot that is not used in its time is lost, or the slots of many would come together in a burst. A process that sleeps is let a
little late: a tenth of a second, or a quarter of the interval where that is longer.

Who has to wait is told a moment of its own, so that of many who wait only one comes back for each slot. It is no more than
advice: a slot belongs to whoever asks for it in its time.
"""

from __future__ import annotations

LATE_SECONDS = 0.1
LATE_SHARE = 0.25
# A timer may go off a little early.
EARLY_SECONDS = 0.005


class Lot:
    """Slots in this process's own time, in seconds."""

    __slots__ = ("_begun", "_count", "_early", "_every", "_first", "_late", "_named", "_next", "wasted")

    def __init__(self, first: float, every: float, count: int, *, begun: float) -> None:
        """Hold `count` slots, from `first` on; those from before `begun` are the burst, and as good as new then."""
        self.wasted = 0
        self._first = first
        self._every = every
        self._count = count
        self._begun = begun
        self._next = 0
        self._named = 0
        self._late = max(LATE_SECONDS, LATE_SHARE * every)
        self._early = min(EARLY_SECONDS, LATE_SHARE * every)

    def take(self, now: float) -> bool:
        """Use the first slot whose time it is, if there is one."""
        while self._next < self._count:
            at = self._at(self._next)
            if at > now + self._early:
                return False
            self._next += 1
            if now <= at + self._late:
                return True
            self.wasted += 1
        return False

    def name(self, now: float) -> float | None:
        """Return the time of the next slot to come that nobody was told to come back for, or None."""
        place = max(self._named, self._next)
        while place < self._count and self._at(place) <= now:
            place += 1
        if place >= self._count:
            return None
        self._named = place + 1
        return self._at(place)

    def unused(self, now: float) -> int:
        """Count the slots at the end that are still to come."""
        return sum(1 for place in range(self._next, self._count) if self._at(place) > now)

    @property
    def over(self) -> bool:
        """Whether every slot was used or lost."""
        return self._next >= self._count

    def _at(self, place: int) -> float:
        return max(self._first + place * self._every, self._begun)
