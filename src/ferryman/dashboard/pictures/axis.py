"""Axes: round places for ticks, and how they are spelled."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

# Lengths that people count in, in seconds; below and above them powers of ten.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
DAY = 86400.0


class Tick(NamedTuple):
    """A place on an axis, from 0 to 1, and what stands beside it."""

    at: float
    says: str


def step(length: float, most: int) -> float:
    """Return a round length of which at most so many fit into a longer one."""
    least = max(length, 1e-9) / max(1, most)
    if least < STEPS[0]:
        return nice(least)
    for each in STEPS:
        if each >= least:
            return float(each)
    return nice(least / DAY) * DAY


def nice(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def elapsed(length: timedelta, *, most: int = 5) -> list[Tick]:
    """Return ticks that count from the beginning."""
    whole = max(length.total_seconds(), 1e-9)
    each = step(whole, most)
    return [Tick(n * each / whole, spelled(n * each)) for n in range(math.floor(whole / each + 1e-9) + 1)]


def spelled(seconds: float) -> str:
    """Return a length of time in one unit."""
    if seconds == 0:
        return "0"
    if seconds < 1:
        return f"{seconds * 1000:g} ms"
    for size, unit in ((DAY, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def instants(since: datetime, until: datetime, *, most: int = 4) -> list[Tick]:
    """Return ticks at round instants of a window, in UTC."""
    whole = max((until - since).total_seconds(), 1e-9)
    each = step(whole, most)
    first = math.ceil(since.timestamp() / each) * each
    found: list[Tick] = []
    before = None
    while first <= until.timestamp() + 1e-9:
        at = datetime.fromtimestamp(first, UTC)
        found.append(Tick((first - since.timestamp()) / whole, _instant(at, each, fresh=at.date() != before)))
        before = at.date()
        first += each
    return found


def _instant(at: datetime, each: float, *, fresh: bool) -> str:
    """Return an instant as exactly as ticks of this distance need it, with the day where it is a new one."""
    if each >= DAY:
        return f"{at:%Y-%m-%d}"
    clock = f"{at:%H:%M}" if each >= 60 else f"{at:%H:%M:%S}"
    return f"{at:%m-%d} {clock}" if fresh else clock


def numbers(lower: float, upper: float, *, most: int = 4) -> list[Tick]:
    """Return ticks at round numbers."""
    whole = max(upper - lower, 1e-9)
    each = nice(whole / max(1, most))
    first = math.ceil(lower / each) * each
    found = []
    while first <= upper + each * 1e-9:
        found.append(Tick((first - lower) / whole, f"{first:,.10g}".replace(",", "\u202f")))
        first += each
    return found
