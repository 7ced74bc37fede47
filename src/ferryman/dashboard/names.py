"""How agents that were made for a task, and the windows of slices, are called on pages: as short as they stay distinct."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ferryman.ingest.rules import keys

_MADE = re.compile(r"(.+)_([0-9a-f]{32})")


def agent(name: str) -> str:
    """Return the name of an agent; of one that was made for a task, its profile and the end of its id."""
    made = _MADE.fullmatch(name)
    return name if made is None else f"{made[1]} …{made[2][-6:]}"


def window(first: object, last: object) -> str:
    """Return a window in words; the day once if it is the same, and no more digits than are needed."""
    since, until = _instant(first), _instant(last)
    if since is None or until is None:
        return f"{first} to {last}"
    day = "" if since.date() == until.date() else f"{until:%Y-%m-%d} "
    return f"{since:%Y-%m-%d} {_clock(since)} to {day}{_clock(until)}"


def _clock(at: datetime) -> str:
    if at.microsecond:
        return f"{at:%H:%M:%S}.{at.microsecond:06}".rstrip("0")
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _instant(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found.astimezone(UTC)


def instant(position: int | None) -> datetime | None:
    """Return the instant of a position that counts by time."""
    return None if position is None else keys.moment(position)


FILTERS: Mapping[str, Callable[..., Any]] = {"agent": agent, "window": window, "instant": instant}
