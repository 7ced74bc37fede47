"""What a source says of its own limits: Retry-After, and the headers of a quota (I9).

Times are told in three ways: seconds from now, a date, seconds since 1970. All become a length of time, measured from the
answer's own `Date` where there is one: whether the two clocks agree does not matter then. What cannot be read says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

# A source that names a longer time is asked again after this one: a mistake over there must not end us here.
LONGEST = timedelta(days=1)
# Seconds since 1970 rather than from now: no quota runs for thirty years.
_EPOCH_FROM = 1_000_000_000
_MILLISECONDS_FROM = 100_000_000_000

_NUMBER = re.compile(r"\s*([0-9]{1,15})(?:\.[0-9]*)?\s*")
_PAIR = re.compile(r"(?:^|[,;])\s*(r|t|remaining|reset)\s*=\s*([0-9]{1,15})")
_LEFT = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
_RESET = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")
NAMES = frozenset({"retry-after", "ratelimit", "date", *_LEFT, *_RESET})


class Quota(NamedTuple):
    """How many requests are left, and for how long."""

    left: int
    lasts: timedelta


def told(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that speak of limits, by their names in small letters."""
    return {name: value for key, value in headers.items() if (name := key.lower()) in NAMES}


def retry_after(headers: Mapping[str, str], *, now: datetime) -> timedelta | None:
    """Return how long the source asks us to stay away."""
    said = told(headers)
    given = said.get("retry-after")
    return None if given is None else _length(given, _date(said.get("date")) or now)


def quota(headers: Mapping[str, str], *, now: datetime) -> Quota | None:
    """Return what is left of a quota, if the source says so."""
    said = told(headers)
    pairs = dict(_PAIR.findall(said.get("ratelimit", "")))
    left = pairs.get("r") or pairs.get("remaining") or _first(said, _LEFT)
    reset = pairs.get("t") or pairs.get("reset") or _first(said, _RESET)
    count = _NUMBER.fullmatch(left) if left else None
    lasts = _length(reset, _date(said.get("date")) or now) if reset else None
    return None if count is None or lasts is None else Quota(int(count[1]), lasts)


def _first(said: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((said[name] for name in names if name in said), None)


def _length(given: str, now: datetime) -> timedelta | None:
    """Return the time from now that a text stands for, at least none and at most the longest."""
    number = _NUMBER.fullmatch(given)
    if number is None:
        at = _date(given)
        return None if at is None else _bounded((at - now).total_seconds())
    seconds = int(number[1])
    if seconds >= _MILLISECONDS_FROM:
        seconds //= 1000
    return _bounded(seconds - now.timestamp() if seconds >= _EPOCH_FROM else seconds)


def _bounded(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), LONGEST.total_seconds()))


def _date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
