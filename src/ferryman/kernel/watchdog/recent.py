"""A look at what has come due lately, where a look at everything takes long.

While somebody keeps a transaction open PostgreSQL removes nothing that has died since, and a look along an index by time walks
over all of it: with millions of dead entries for longer than its rule has time, and then nothing is ended any more. So looks
at everything get no more than a share of the time, and the looks between them see what has come due since the last one that
found nothing. As a rule a look takes a moment, and each of them sees everything: also what comes due by a clock that jumped.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from ferryman.kernel.db import Row, Tx

# A look that takes less is nobody's trouble.
LONG_SECONDS = 0.5
# A longer look at everything may take one part of so many; what only it can find waits no longer than this.
SHARE = 8
REST_SECONDS_MAX = 60.0
# How much further back than its time a look sees: transactions that were under way, and clocks that do not agree to the moment.
SLACK_SECONDS = 5.0

Find = Callable[[Tx, int, timedelta | None], Awaitable[Sequence[Row]]]


class Recent:
    """Find by windows, and now and then everything."""

    def __init__(self, find: Find, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Ask `find` for so many of what has come due within a time, or ever."""
        self._find = find
        self._clock = clock
        self._whole_at = self._since = clock()

    async def __call__(self, tx: Tx, limit: int) -> Sequence[Row]:
        """Look."""
        begun = self._clock()
        whole = begun >= self._whole_at
        window = None if whole else timedelta(seconds=begun - self._since + SLACK_SECONDS)
        try:
            found = await self._find(tx, limit, window)
        finally:
            if whole:  # also one that was broken off: the next would be, too
                took = self._clock() - begun
                rest = min(REST_SECONDS_MAX, SHARE * took) if took > LONG_SECONDS else 0.0
                self._whole_at = begun + took + rest
        if not found:
            self._since = begun
        return found
