"""Finished tasks leave."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_WALK = load("ferryman.tasks", "retention/walk")
_FORGET = load("ferryman.tasks", "retention/forget")


async def walk(
    tx: Tx, limit: int, *, kept: timedelta, failed_kept: timedelta, span: int, pace: timedelta, rest: timedelta
) -> Sequence[Row]:
    """Find finished tasks past their keeping, in the next `span` rows of the walk; at its end it rests."""
    return await many(tx, _WALK, limit=limit, kept=kept, failed_kept=failed_kept, span=span, pace=pace, rest=rest)


async def forget(tx: Tx, ids: Collection[UUID]) -> int:
    """Delete finished tasks; answer with how many were."""
    return len(await many(tx, _FORGET, ids=list(ids)))
