"""What may be agreed for a queue, checked before anything is stored (T17)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ferryman.kernel import duration, errors

WEIGHT_MAX = 1000
LIMIT_MAX = 1_000_000
INTERVAL_MAX = timedelta(days=31)
AT_LIMIT = ("refuse_newest", "cancel_oldest", "coalesce")
FIELDS = ("weight", "concurrency", "key_concurrency", "rate", "burst", "max_depth", "at_limit")

_UNITS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400}
_LETTERS = ("s", "m", "h", "d", "w")
_WORDS = {"1s": "second", "1m": "minute", "1h": "hour", "1d": "day"}
_STARTS = re.compile(r"[0-9]{1,9}")
RATE_EXPECTED = 'a rate such as "100/minute", "5/s" or "10/30s"'


class Rate(NamedTuple):
    """So many starts in so long."""

    starts: int
    interval: timedelta

    def __str__(self) -> str:
        """Return it as it can be written."""
        shown = duration.show(self.interval)
        return f"{self.starts}/{_WORDS.get(shown, shown)}"

    @property
    def burst(self) -> int:
        """How many may start at one moment if nobody says: what a second allows, and at least one."""
        return max(1, int(self.starts / self.interval.total_seconds()))


def columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check what is to be agreed, and return it as it is stored; a value of None takes a limit away."""
    for field in given:
        if field not in FIELDS:
            raise _refusal(field, f"one of {', '.join(FIELDS)}; this one is unknown")
    stored: dict[str, Any] = {}
    for field, most in (("concurrency", LIMIT_MAX), ("key_concurrency", LIMIT_MAX), ("max_depth", LIMIT_MAX)):
        if field in given:
            stored[field] = None if given[field] is None else _whole(given[field], field, most)
    if "weight" in given:
        stored["weight"] = 1 if given["weight"] is None else _whole(given["weight"], "weight", WEIGHT_MAX)
    if "at_limit" in given:
        stored["at_limit"] = _policy(given["at_limit"])
    return stored | _rate_columns(given)


def _rate_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    if "rate" not in given:
        if "burst" in given:
            raise _refusal("burst", "it together with a rate", got="it alone")
        return {}
    if given["rate"] is None:
        return {"rate_count": None, "rate_seconds": None, "burst": None}
    rate = read_rate(given["rate"])
    burst = given.get("burst")
    return {
        "rate_count": rate.starts,
        "rate_seconds": rate.interval.total_seconds(),
        "burst": rate.burst if burst is None else _whole(burst, "burst", LIMIT_MAX),
    }


def read_rate(given: object) -> Rate:
    """Read a rate as people write it."""
    if isinstance(given, Rate):
        given = str(given)
    count, _, unit = (each.strip() for each in (given if isinstance(given, str) else "").partition("/"))
    if not _STARTS.fullmatch(count):
        raise _refusal("rate", RATE_EXPECTED, got=given)
    starts = int(count)
    seconds = _UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s"))
    try:
        interval = timedelta(seconds=seconds) if seconds else duration.parse(f"1{unit}" if unit in _LETTERS else unit)
    except ValueError:
        interval = timedelta(0)
    if starts < 1 or not timedelta(0) < interval <= INTERVAL_MAX:
        raise _refusal("rate", f"{RATE_EXPECTED}, at least 1 in at most 31 days", got=given)
    return Rate(starts, interval)


def _policy(given: object) -> str:
    if given is None:
        return AT_LIMIT[0]
    if not isinstance(given, str) or given not in AT_LIMIT:
        raise _refusal("at_limit", f"one of {', '.join(AT_LIMIT)}", got=given)
    return given


def _whole(value: object, field: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _refusal(field, f"a whole number from 1 to {most}", got=value)
    return value


def _refusal(field: str, expected: str, got: object = None) -> errors.QueueInvalid:
    text = got if got == "it alone" else ascii(got)[:60]
    told = f"{field}: expected {expected}" + ("" if got is None and "unknown" in expected else f", got {text}") + "."
    return errors.QueueInvalid(told, field=field)
