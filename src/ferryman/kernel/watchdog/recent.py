"""A look at what has come due lately, where a look at everything takes long.

While somebody keeps a transaction open PostgreSQL removes nothing that has died since, and a look along an index by time walks
over all of it: with millions of dead entries for longer than its rule has time, and then nothing is ended any more. So looks
at everything get no more than a share of the time (kernel/looks.py), and the looks between them see what has come due since the
last one that found nothing. As a rule a look takes a moment, and each of them sees everything: also what comes due by a clock
that jumped.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from ferryman.kernel.db import Row, Tx
from ferryman.kernel.looks import Pace

# How much further back than its time a look sees: transactions that were under way (left alone they are ended after 2 s), and
# clocks that do not agree to the moment. All of it is walked over at every look.
SLACK_SECONDS = 3.0

Find = Callable[[Tx, int, timedelta | None], Awaitable[Sequence[Row]]]


class Recent:
    """Find by windows, and now and then everything."""

    def __init__(self, find: Find, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Ask `find` for so many of what has come due within a time, or ever."""
        self._find = find
        self._clock = clock
        self._pace = Pace()
        self._whole_at = self._since = clock()

    async def __call__(self, tx: Tx, limit: int) -> Sequence[Row]:
        """Look."""
        begun = self._clock()
        whole = not self._pace.long or begun >= self._whole_at + self._pace.rest()
        window = None if whole else timedelta(seconds=begun - self._since + SLACK_SECONDS)
        try:
            found = await self._find(tx, limit, window)
        finally:
            now = self._clock()  # also when it was broken off: the next would be, too
            self._pace.looked(now - begun, behind=not whole)
            if whole:
                self._whole_at = now
        if not found:
            self._since = begun
        return found
