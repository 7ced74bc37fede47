"""Finished tasks leave, and what tasks and schedules leave behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_WALK = load("ferryman.tasks", "retention/walk")
_FORGET = load("ferryman.tasks", "retention/forget")
_SCHEDULES = load("ferryman.tasks", "retention/schedules")
_FORGET_SCHEDULES = load("ferryman.tasks", "retention/forget_schedules")
_SIGNALS = load("ferryman.tasks", "retention/signals")
_FORGET_SIGNALS = load("ferryman.tasks", "retention/forget_signals")
_WAITS = load("ferryman.tasks", "retention/waits")
_FORGET_WAITS = load("ferryman.tasks", "retention/forget_waits")


async def walk(
    tx: Tx, limit: int, *, kept: timedelta, failed_kept: timedelta, span: int, pace: timedelta, rest: timedelta
) -> Sequence[Row]:
    """Find finished tasks past their keeping, in the next `span` rows of the walk; at its end it rests."""
    return await many(tx, _WALK, limit=limit, kept=kept, failed_kept=failed_kept, span=span, pace=pace, rest=rest)


async def forget(tx: Tx, ids: Collection[UUID]) -> int:
    """Delete finished tasks; answer with how many were."""
    return len(await many(tx, _FORGET, ids=list(ids)))


async def schedules(tx: Tx, limit: int, *, kept: timedelta, span: int, rest: timedelta) -> Sequence[Row]:
    """Find schedules that ended longer ago than they are kept, in the next `span` rows of a walk; then it rests."""
    return await many(tx, _SCHEDULES, limit=limit, kept=kept, span=span, rest=rest)


async def forget_schedules(tx: Tx, found: Sequence[Row]) -> int:
    """Delete ended schedules; answer with how many were."""
    return len(await many(tx, _FORGET_SCHEDULES, ids=[row["id"] for row in found]))


async def signals(tx: Tx, limit: int, *, span: int, rest: timedelta) -> Sequence[Row]:
    """Find events for tasks that have ended, in the next `span` rows of a walk; then it rests."""
    return await many(tx, _SIGNALS, limit=limit, span=span, rest=rest)


async def forget_signals(tx: Tx, found: Sequence[Row]) -> int:
    """Delete events that nobody will take; answer with how many were."""
    return len(await many(tx, _FORGET_SIGNALS, ids=[row["id"] for row in found]))


async def waits(tx: Tx, limit: int, *, span: int, rest: timedelta) -> Sequence[Row]:
    """Find what tasks waited for that have gone on or ended, in the next `span` rows of a walk; then it rests."""
    return await many(tx, _WAITS, limit=limit, span=span, rest=rest)


async def forget_waits(tx: Tx, found: Sequence[Row]) -> int:
    """Delete what tasks wait for no more; answer with how many were."""
    ids, epochs = [row["id"] for row in found], [row["epoch"] for row in found]
    return len(await many(tx, _FORGET_WAITS, ids=ids, epochs=epochs))
