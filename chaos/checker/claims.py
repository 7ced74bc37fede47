"""What the log says of each claim of a task: when it began, when it was over, and why.

Claims of a task are numbered by its epoch, in the order of the log. Times are those of the histories.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from chaos.checker.evidence import Evidence

LAPSED = "lease_expired"  # how the log says that somebody's time was over and the work was taken from him


class Left(NamedTuple):
    """The end of a claim."""

    at: float
    state: str
    lapsed: bool


def offset(seen: Evidence) -> float:
    """Return by how much the clock of the database is ahead of that of the histories."""
    return next(float(line["wall"] - line["at"]) for line in seen.of("clock"))


def left(seen: Evidence) -> dict[tuple[str, int], Left]:
    """Return for each claim, by task and epoch, how it was over."""
    ahead = offset(seen)
    epochs: Counter[str] = Counter()
    found: dict[tuple[str, int], Left] = {}
    for event in seen.events:
        if event["kind"] != "task":
            continue
        if event["to_state"] == "running":
            epochs[event["subject"]] += 1
        elif event["from_state"] == "running":
            claim = event["subject"], epochs[event["subject"]]
            found[claim] = Left(event["at"] - ahead, event["to_state"], event["reason"] == LAPSED)
    return found
