"""What the log says of each claim of a task: when it began, when it was over, and why.

Claims of a task are numbered by its epoch, in the order of the log. Times are those of the histories.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from chaos.checker.evidence import Evidence

LAPSED = "lease_expired"  # how the log says that somebody's time was over and the work was taken from him


class Claim(NamedTuple):
    """One claim that is over: when it was made, when and how it ended."""

    since: float
    until: float
    lapsed: bool


def offset(seen: Evidence) -> float:
    """Return by how much the clock of the database is ahead of that of the histories."""
    return next(float(line["wall"] - line["at"]) for line in seen.of("clock"))


def over(seen: Evidence) -> dict[tuple[str, int], Claim]:
    """Return the claims that are over, by task and epoch."""
    ahead = offset(seen)
    epochs: Counter[str] = Counter()
    since: dict[str, float] = {}
    found: dict[tuple[str, int], Claim] = {}
    for event in seen.events:
        if event["kind"] != "task":
            continue
        if event["to_state"] == "running":
            epochs[event["subject"]] += 1
            since[event["subject"]] = event["at"] - ahead
        elif event["from_state"] == "running":
            task = event["subject"]
            found[task, epochs[task]] = Claim(since[task], event["at"] - ahead, event["reason"] == LAPSED)
    return found
