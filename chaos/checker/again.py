"""Why tasks were started again: which fault forced it, or none.

Whoever is killed or stands still past his lease with work in hand cannot keep it from being begun anew; how often that is, is
the plan's doing. What no fault forced is the product's. Told by the histories alone: who died and stood still when, who
lost his renewals, and whose row a stranger held, so that nobody could renew it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from chaos.checker.able import locked

Line = Mapping[str, Any]
Span = tuple[float, float]

KILLED, DONE = "its holder was killed with it in hand", "its holder was killed before what it had done was settled"
STILL = "its holder stood still past the lease"
LOCKED = "a stranger held its row past the lease"
RENEWALS, AWAY = "its holder's renewals were held up", "the database was away"
NOTHING = "no fault forced it"
CAUSES = (KILLED, DONE, STILL, LOCKED, RENEWALS, AWAY, NOTHING)


class Past:
    """What befell each process."""

    def __init__(self, lines: Sequence[Line], held_up: Iterable[int], *, lease: float) -> None:
        """Read who died when, who stood still or had a row held from when to when, and when the database was away."""
        self._lease = lease
        self._died: dict[int, float] = {}
        self._still: dict[int, list[Span]] = defaultdict(list)
        self._away: list[Span] = []
        self._held_up = set(held_up)
        self._locked = locked(lines)
        self._effects: dict[tuple[str, int], float] = {}
        since: dict[int, float] = {}
        for line in lines:
            match line["what"]:
                case "died":
                    self._died[line["child"]] = line["at"]
                    if line["child"] in since:
                        self._still[line["child"]].append((since.pop(line["child"]), line["at"]))
                case "struck" if line["kind"] in ("freeze", "pause"):
                    since[line["child"]] = line["at"]
                case "struck" if line["kind"] == "crash":
                    self._away.append((line["at"], line["at"] + lease))
                case "thawed" if line["child"] in since:
                    self._still[line["child"]].append((since.pop(line["child"]), line["at"]))
                case "back":
                    self._away.append((line["killed"], line["at"] + lease))
                case "effect":
                    self._effects[line["task"], line["epoch"]] = line["at"]

    def cause(self, before: Line, after: Line) -> str:
        """Say why what one process had begun was begun anew."""
        pid, until = before["pid"], after["at"]
        since = min(before["at"], until) - self._lease  # it was claimed before it was begun, by a lease at most
        if self._died.get(pid, until) < until:
            return DONE if self._effects.get((before["task"], before["epoch"]), until) < until else KILLED
        # A lease is renewed when a third of it is over, so two thirds of one are left to whoever stands still.
        for cause, spans in ((STILL, self._still[pid]), (LOCKED, self._locked[before["task"]])):
            if any(min(end, until) - max(begin, since) > self._lease / 2 for begin, end in spans):
                return cause
        if pid in self._held_up:
            return RENEWALS
        return AWAY if any(begin < until and since < end for begin, end in self._away) else NOTHING


def causes(starts: Sequence[Line], past: Past) -> tuple[dict[str, int], list[str]]:
    """Count the starts after the first of each task, by what forced them; tell of each that nothing forced."""
    tries: dict[str, list[Line]] = defaultdict(list)
    for line in starts:
        tries[line["task"]].append(line)
    found: Counter[str] = Counter()
    unforced = []
    for lines in tries.values():
        lines.sort(key=lambda line: int(line["epoch"]))
        for before, after in pairwise(lines):
            cause = past.cause(before, after)
            found[cause] += 1
            if cause == NOTHING:
                unforced.append(f"{before['task']}: {_told(before)}, then {_told(after)}")
    return {cause: found[cause] for cause in CAUSES}, unforced


def _told(start: Line) -> str:
    return f"claim {start['epoch']} begun by {start['pid']} at {start['at']:.3f}"
