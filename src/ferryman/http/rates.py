"""How fast requests may come: for each caller a bucket that fills at a rate, and from which each request takes one.

Kept in this process alone, which is what it protects: a server beside it counts for itself. Only so many callers are
remembered; who is forgotten first is who has not asked for longest, and then has a full bucket in any case.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

MOST: Final = 20_000


class Rates:
    """Buckets, one for each key."""

    def __init__(self, *, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Let each key ask `rate` times a second, and save up `burst`."""
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> int:
        """Take one; return 0, or how many whole seconds to wait because there was none."""
        now = self._clock()
        left = self._now(key, now)
        taken = left >= 1
        self._left[key] = (left - 1 if taken else left, now)
        self._left.move_to_end(key)
        if len(self._left) > MOST:
            self._left.popitem(last=False)
        return 0 if taken else self._seconds(left)

    def wait(self, key: str) -> int:
        """Return how many whole seconds to wait for the next, and take none."""
        left = self._now(key, self._clock())
        return 0 if left >= 1 else self._seconds(left)

    def _now(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (self._burst, now))
        return min(self._burst, left + (now - at) * self._rate)

    def _seconds(self, left: float) -> int:
        return max(1, math.ceil((1 - left) / self._rate))


class Open:
    """What is open at once, in all and of one key."""

    def __init__(self, *, most: int, each: int) -> None:
        """Let so many be open."""
        self._most = most
        self._each = each
        self._open: Counter[str] = Counter()

    def enter(self, key: str) -> bool:
        """Open one more; False if there is no room."""
        if self._open.total() >= self._most or self._open[key] >= self._each:
            return False
        self._open[key] += 1
        return True

    def leave(self, key: str) -> None:
        """Close one."""
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]
