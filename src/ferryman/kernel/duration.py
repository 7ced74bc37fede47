"""Lengths of time as people write them: 30, "30s", "5m", "1h30m", "500ms", "PT30S", "P7D"."""

import math
import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
# Not in the middle of a number: each of its digits would be tried as the first.
_PART = re.compile(rf"(?<![0-9])({_NUMBER})\s*(ms|s|m|h|d|w)\s*")
_SHORT = re.compile(rf"(?:{_NUMBER}\s*(?:ms|s|m|h|d|w)\s*)+")
_ISO = re.compile(
    rf"P(?=.)(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=.)(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)
EXPECTED: Final = 'seconds, or a text like "30s", "5m", "1h30m" or "PT30S"'


def parse(value: object) -> timedelta:
    """Return the time a number of seconds or a text stands for; raise ValueError otherwise."""
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(seconds=_seconds(value))
    except OverflowError as cause:
        raise ValueError(EXPECTED) from cause


def show(value: timedelta) -> str:
    """Return the shortest of the texts that `parse` reads back."""
    whole, rest = divmod(value, timedelta(seconds=1))
    if rest:
        return f"{value.total_seconds():.6f}".rstrip("0") + "s"
    for unit in ("d", "h", "m"):
        size = int(_UNITS[unit])
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(rf"-?{_NUMBER}", text):
            return float(text)
        if _SHORT.fullmatch(text):
            return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        if iso := _ISO.fullmatch(text):
            return sum(float(n) * _UNITS[unit] for unit, n in iso.groupdict().items() if n)
    raise ValueError(EXPECTED)
