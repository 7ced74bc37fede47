"""How much of the time looks may take that walk over what is dead.

While somebody keeps a transaction open PostgreSQL removes nothing that has died since, and a look along an index from its front
walks over all of it. That costs more than its time: the pages that it reads drive those that are in use out of memory, and
each that it is the first to read since it was written goes into the WAL as a whole. So the longer the walk gets, the smaller is
the share of the time that looks may have: one eighth where it takes a moment, 1 in 48 where it takes 0.25 s.

What is long because the machine is slow is no walk. So a look is compared with those that need not walk, where there are such,
and of the last few the shortest counts: a stall makes single ones long, the dead make all of them long.
"""

from __future__ import annotations

from collections import deque

# A look whose walk takes next to nothing may have one part of so many.
SHARE = 8
# One whose walk takes as long as this may have half of that share, one of twice this a third.
LONG_SECONDS = 0.05
# What only such a look can find waits no longer than this, unless looks would have more than their share then; and never longer
# than that. A machine that is starved by fits looks as if it walked.
REST_SECONDS = 30.0
REST_SECONDS_MAX = 60.0
LAST = 2


class Pace:
    """How long the last looks took, and how long to rest after one."""

    def __init__(self) -> None:
        """Know of none."""
        self._front = deque([0.0] * LAST, maxlen=LAST)
        self._behind: deque[float] = deque(maxlen=LAST)

    def looked(self, seconds: float, *, behind: bool = False) -> None:
        """Take note of a look from the front, or of one that began behind what is dead."""
        (self._behind if behind else self._front).append(seconds)

    @property
    def walk(self) -> float:
        """How many seconds of a look from the front are spent on what is dead."""
        return max(0.0, min(self._front) - min(self._behind, default=0.0))

    @property
    def long(self) -> bool:
        """Whether that is more than anybody should spend at every look."""
        return self.walk > LONG_SECONDS

    def rest(self) -> float:
        """Return how many seconds shall lie between two looks from the front."""
        share = SHARE * min(self._front)
        return min(REST_SECONDS_MAX, share * (1 + self.walk / LONG_SECONDS), max(REST_SECONDS, share))
