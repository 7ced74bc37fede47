"""How retention walks (T20): so many rows at a look, so often; when it has seen all, it rests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from ferryman.kernel.db import Row, Tx
from ferryman.kernel.watchdog.rule import Rule

SPAN = 5000
PACE = timedelta(seconds=5)
REST = timedelta(minutes=1)
LIMIT = 500

# Deletes these rows with all that belongs to them, and says how many.
Forget = Callable[[Tx, Sequence[UUID]], Awaitable[int]]


def retention(
    name: str,
    *,
    finds: str,
    does: str,
    walk: Callable[..., Awaitable[Sequence[Row]]],
    forget: Forget,
    limit: int = LIMIT,
) -> Rule:
    """Return the rule by which rows leave that were kept for long enough; `walk` finds them, a page at a time."""

    async def act(tx: Tx, found: Sequence[Row]) -> int:
        return await forget(tx, [row["id"] for row in found])

    return Rule(
        name=name,
        finds=finds,
        does=does,
        setting="worker.watchdog_interval_seconds",
        every=PACE,
        find=partial(walk, span=SPAN, pace=PACE, rest=REST),
        act=act,
        limit=limit,
    )
