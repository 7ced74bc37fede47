"""How much a task may use: requests, records, seconds (I7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferryman.ingest.model import Budget, Usage
from ferryman.ingest.rules.refusal import Refused

SECONDS = 3600
MOST_SECONDS = 86_400
FIELDS = ("requests", "items", "seconds")


def read(given: Any) -> Budget:
    """Read what a caller said."""
    if given is None:
        return Budget(None, None, SECONDS)
    if isinstance(given, Budget):
        given = given.as_json()
    if not isinstance(given, Mapping):
        raise Refused("budget", f"some of {', '.join(FIELDS)}", type(given).__name__)
    for name, value in given.items():
        if name not in FIELDS:
            raise Refused("budget", f"some of {', '.join(FIELDS)}", repr(name))
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise Refused(f"budget.{name}", "a whole number above 0", repr(value))
    seconds = given.get("seconds") or SECONDS
    if seconds > MOST_SECONDS:
        raise Refused("budget.seconds", f"at most {MOST_SECONDS} (a day)", repr(seconds))
    return Budget(given.get("requests"), given.get("items"), seconds)


def gone(budget: Budget, spent: Usage) -> str | None:
    """Return what of the budget is used up, if anything."""
    for name in FIELDS:
        limit = getattr(budget, name)
        if limit is not None and getattr(spent, name) >= limit:
            return name
    return None
