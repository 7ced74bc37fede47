"""Which window an operation takes (I2).

Harvest goes on from its frontier (finished coverage and what somebody is still at) up to now less the safety lag; its first
window is as long as configured. Backfill stays below the forward watermark; update takes what it is told. Nothing reaches into
the safety lag, because a source may still be writing there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ferryman.ingest.window import Window

HARVEST, BACKFILL, UPDATE = "HARVEST", "BACKFILL", "UPDATE"
OPERATIONS = (HARVEST, BACKFILL, UPDATE)
PRIORITY = {HARVEST: 1, UPDATE: 5, BACKFILL: 9}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller said of the window."""

    since: datetime | None
    until: datetime | None


def window(
    operation: str,
    wanted: Wanted,
    *,
    now: datetime,
    lag: timedelta,
    first: timedelta,
    frontier: datetime | None,
    watermark: datetime | None,
) -> Window | None:
    """Return the window, or None when it is empty: then no plan is made."""
    edge = now - lag
    until = min(wanted.until or edge, edge)
    if operation == BACKFILL and watermark is not None:
        until = min(until, watermark)
    since = wanted.since
    if operation == HARVEST and frontier is not None:
        since = frontier if since is None else max(since, frontier)
    if since is None:
        since = until - first
    return Window(since, until) if since < until else None
