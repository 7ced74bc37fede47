"""Plans of which everything has ended leave."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_WALK = load("ferryman.ingest", "retention/walk")
_FORGET = load("ferryman.ingest", "retention/forget")


async def walk(tx: Tx, limit: int, *, kept: timedelta, span: int, pace: timedelta, rest: timedelta) -> Sequence[Row]:
    """Find plans past their keeping, in the next `span` rows of the walk; at its end it rests."""
    return await many(tx, _WALK, limit=limit, kept=kept, span=span, pace=pace, rest=rest)


async def forget(tx: Tx, ids: Collection[UUID]) -> int:
    """Delete plans with all that came of them; answer with how many were."""
    return len(await many(tx, _FORGET, ids=list(ids)))
