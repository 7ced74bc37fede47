"""Who could have taken up the work of the dead, and when nobody could.

That work is begun anew within a lease and a second is promised while a worker lives that has room, as the bounds say. Where
all workers stand still or are dead at once nobody is there to begin it; and while a stranger's transaction has a task's row
locked no statement of anybody's can move it. While the database is away, a table locked or everybody relieved nobody can
either, and for a lease after that nobody is reaped, so that the living are heard first (decision 16). So beyond the lease the
clock stands still for that long, and for no longer. Before the end of the lease nothing is left out: it passes whoever is
there, also in an outage. What is due then comes when the lease is over and the grace too, whichever is later, and a second
more is the most, in whatever order they came. Told by the histories alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Line = Mapping[str, Any]
Span = tuple[float, float]

# Strangers that hold rows: any, or such as others must lock.
HOLDS = ("hold", "grip")
WATCHERS = ("worker", "dog")
WORKERS = ("worker",)
# PostgreSQL throws everybody out when a backend is killed, and is back within about so long.
CRASH_SECONDS = 1.0
# The grace after an outage is counted from the first tick of a watchdog (docs/bounds.md). Who waits for the database tries
# again after moments that grow: the first of them comes within about so long after it is back.
BACK_SECONDS = 1.0


class Able:
    """When somebody was awake, and which rows a stranger held."""

    def __init__(self, lines: Sequence[Line], *, lease: float) -> None:
        """Read who lived from when to when, who stood still, who held what, and when nobody was reaped."""
        self._roles: dict[int, str] = {}
        self._awake: dict[str, list[Span]] = defaultdict(list)
        self._locked = locked(lines)
        self._away = [(begin, end + lease) for begin, end in away(lines)]
        since: dict[int, float] = {}  # who is awake
        for line in lines:
            match line["what"]:
                case "born":  # its own start is not excused
                    self._roles[line["pid"]] = line["role"]
                    since[line["pid"]] = line["at"]
                case "struck" if line["kind"] in ("freeze", "pause", "watch"):
                    self._rests(line["child"], since, line["at"])
                case "died":
                    self._rests(line["child"], since, line["at"])
                    self._roles.pop(line["child"], None)
                case "thawed" if line["child"] in self._roles:
                    since[line["child"]] = line["at"]
        for pid in list(since):
            self._rests(pid, since, lines[-1]["at"])
        self._gaps: dict[tuple[str, ...], list[Span]] = {
            roles: _between(self._awake, roles) for roles in (WATCHERS, WORKERS)
        }

    def _rests(self, pid: int, since: dict[int, float], at: float) -> None:
        if pid in since:
            self._awake[self._roles[pid]].append((since.pop(pid), at))

    def waited(self, task: str, death: float, until: float, *, lease: float, roles: tuple[str, ...]) -> float:
        """Say how long something took after a death, but for the time beyond the lease in which nobody could bring it."""
        kept = _within([*self._gaps[roles], *self._locked[task], *self._away], death + lease, until)
        return until - death - kept

    def gaps(self, roles: tuple[str, ...]) -> Sequence[Span]:
        """Return the times in which nobody of these roles was awake."""
        return self._gaps[roles]

    def awake(self, since: float, until: float, *, roles: tuple[str, ...]) -> float:
        """Say how long something took, but for the time in which nobody of these was awake."""
        return until - since - _within(self._gaps[roles], since, until)


def locked(lines: Iterable[Line]) -> dict[str, list[Span]]:
    """Give for each task when a stranger had its row locked."""
    found: dict[str, list[Span]] = defaultdict(list)
    holds: dict[int, Line] = {}
    for line in lines:
        if line["what"] == "struck" and line["kind"] in HOLDS:
            holds[line["child"]] = line
        elif line["what"] == "released" and line["child"] in holds:
            held = holds.pop(line["child"])
            for row in held["rows"]:
                found[row].append((held["at"], line["at"]))
    return found


def barred(lines: Sequence[Line]) -> list[Span]:
    """Give when a stranger had a whole table to himself, or stood in everybody's way to get it."""
    found: list[Span] = []
    bars: dict[int, float] = {}
    for line in lines:
        if line["what"] == "struck" and line["kind"] == "bar":
            bars[line["child"]] = line["since"]
        elif line["what"] == "released" and line["child"] in bars:
            found.append((bars.pop(line["child"]), line["at"]))
    return found


def away(lines: Sequence[Line]) -> list[Span]:
    """Give when the database was away, a table locked, or everybody relieved and not yet back."""
    found = barred(lines)
    relieved: float | None = None
    for line in lines:
        match line["what"]:
            case "back":
                found.append((line["killed"], line["at"] + BACK_SECONDS))
            case "struck" if line["kind"] == "crash":
                found.append((line["at"], line["at"] + CRASH_SECONDS))
            case "relieved":
                relieved = line["at"]
            case "restored" if relieved is not None:
                found.append((relieved, line["at"]))
    return found


def _between(awake: Mapping[str, Sequence[Span]], roles: Sequence[str]) -> list[Span]:
    """Give the times in which nobody of these was awake, from the first waking on."""
    spans = _united([span for role in roles for span in awake.get(role, ())])
    return [(before[1], after[0]) for before, after in pairwise(spans)]


def _within(spans: Iterable[Span], begin: float, end: float) -> float:
    """Say how much of a time is in any of these."""
    return sum(b - a for a, b in _united((max(a, begin), min(b, end)) for a, b in spans))


def _united(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch; leave out what is empty."""
    joined: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
