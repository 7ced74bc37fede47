"""How values are spelled for people."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


def clean(text: str) -> str:
    """Return text whose control characters are spelled out."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def moment(value: datetime, *, precise: bool = False) -> str:
    """Return a time as people read it, in UTC."""
    utc = value.astimezone(UTC)
    fraction = f".{utc.microsecond // 1000:03}" if precise else ""
    return f"{utc:%Y-%m-%d %H:%M:%S}{fraction}Z"


def seconds(value: float) -> str:
    """Return a length of time as people read it."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes = value / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def called() -> str:
    """Return how this program is called from here, so that what is shown can be typed."""
    found = shutil.which("ferryman")
    here = Path(sys.argv[0])
    if here.name != "ferryman" or (found is not None and Path(found).resolve() == here.resolve()):
        return "ferryman"
    with suppress(ValueError):
        return str(here.absolute().relative_to(Path.cwd()))
    return str(here)
