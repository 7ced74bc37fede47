"""What the events of a cursor come to (I11)."""

from __future__ import annotations

from collections.abc import Iterable


def replay(events: Iterable[tuple[str, int | None, int]]) -> int | None:
    """Return where the moves lead, or None where one does not begin at the end of the one before it.

    An event is its kind, where it begins and where it leads.
    """
    at: int | None = None
    for kind, prev, next_ in events:
        if kind == "no-forward":
            continue
        if prev != at or (kind == "forward" and prev is not None and next_ <= prev):
            return None
        at = next_
    return at
