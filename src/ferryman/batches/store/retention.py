"""Ended batches leave."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_WALK = load("ferryman.batches", "retention/walk")
_FORGET = load("ferryman.batches", "retention/forget")


async def walk(tx: Tx, limit: int, *, kept: timedelta, span: int, pace: timedelta, rest: timedelta) -> Sequence[Row]:
    """Find batches past their keeping, in the next `span` rows of the walk; at its end it rests."""
    return await many(tx, _WALK, limit=limit, kept=kept, span=span, pace=pace, rest=rest)


async def forget(tx: Tx, ids: Collection[UUID]) -> Sequence[Row]:
    """Delete batches that have ended, with their tasks; answer with a row for each, and for each task without a turn."""
    return await many(tx, _FORGET, ids=list(ids))
