"""Whether a worker that lives through a fault goes on working: where one does not, the others would hide it.

Who is told to stand idle must have had something to do and nothing to hinder it, so a worker is judged by the time in which it
was awake and the database up, from its last start on. An outage, a killed backend and a cut of all connections begin that time
anew. The first lease of it is left out: few handlers take as long, and no worker has all its places full of those. After that,
at so many looks that were taken four times a second, more tasks that no stranger had locked must have stood in line than others
take at once, and others must have begun many. A worker looks into the line five times a second by itself: one that can claim
would have met such a moment as surely as the looks did, however much faster the others are. On a machine where nobody gets on
nobody is told.

Where lines are short, as in a soak, it is enough that it began nothing for a minute in which others began a thousand.

The one that is spared in a soak is judged by its pace as well: it must begin a quarter of what its peers do in a second awake.

Judged is who takes tasks. Whether one takes turns and windows, fires and watches, is seen where it is left alone (alone.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from chaos.checker.able import barred
from chaos.checker.claims import OF_TASKS
from chaos.checker.evidence import Evidence

Line = Mapping[str, Any]
Span = tuple[float, float]

# So many leases long it may be busy with what it has.
BUSY_LEASES = 1
# So many looks at a line of so many that nobody has locked, while others began so many.
LOOKS = 8
DEEP = 30
OTHERS = 100
# Or so long, while others began so many.
LONG_SECONDS = 60.0
MANY = 1000
# Which share of what others begin the one must begin that is spared: it has all that it ever opened, and they are young.
BESIDE = 0.25
# PostgreSQL throws everybody out when a backend is killed, and is back within about so long; as all do when all are cut.
CRASH_SECONDS = 1.0
FEW = 3


@dataclass
class Life:
    """One life of a worker: from when to when it worked, when it stood still, and when it began tasks."""

    who: str
    since: float
    until: float
    still: list[Span] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)

    def awake(self, begin: float, end: float) -> float:
        """Say for how long it was awake between two moments."""
        return end - begin - sum(max(0.0, min(b, end) - max(a, begin)) for a, b in self.still)

    def stands(self, at: float) -> bool:
        """Say whether it stood still at a moment."""
        return any(a <= at < b for a, b in self.still)


class Idle(NamedTuple):
    """What speaks against a worker: for how long it was awake, how often a line was seen, and how many others began."""

    seconds: float
    looks: int
    others: int

    @property
    def told(self) -> bool:
        """Whether that is enough."""
        lined = self.looks >= LOOKS and self.others >= OTHERS
        return lined or (self.seconds >= LONG_SECONDS and self.others >= MANY)


class Judged(NamedTuple):
    """Who stood idle; how many lives there were of which it would have been told had they begun nothing at all."""

    idle: list[str]
    could: int


class Pause(NamedTuple):
    """The longest time for which a worker was awake, with the database up, and began nothing; how many tasks it began."""

    seconds: float
    begun: int


class Fleet:
    """All workers of a run, and what was in line for them."""

    def __init__(self, lines: Sequence[Line], *, lease: float) -> None:
        """Read who lived when, what was in line when, and when the database was away."""
        self.lives = lives(lines)
        self._busy = lease * BUSY_LEASES
        self._deep = _deep(lines)
        self._begun = sorted(at for life in self.lives for at in life.begun)
        self._breaks = _breaks(lines)

    def judge(self) -> Judged:
        """Find those who stood idle."""
        idle, could = [], 0
        for life in self.lives:
            could += any(found.told for found in self._idle(life, [life.since, life.until]))
            for found in self._idle(life, [life.since, *life.begun, life.until]):
                if found.told:
                    idle.append(
                        f"{life.who} was awake for {found.seconds:.1f} s and began nothing, though others began"
                        f" {found.others}, and at {found.looks} looks {DEEP} tasks or more were in line"
                    )
        return Judged(idle, could)

    def pause(self, name: str) -> Pause:
        """Say how long the lives of one name began nothing at most."""
        own = [life for life in self.lives if life.who.partition(".")[0] == name]
        longest = 0.0
        for life in own:
            for begin, end in self._parts([life.since, *life.begun, life.until], least=longest):
                longest = max(longest, life.awake(begin, end))
        return Pause(longest, sum(len(life.begun) for life in own))

    def beside(self, name: str) -> float:
        """Say how many tasks the lives of one name began in a second awake, as a share of what others did."""
        begun: dict[str, int] = defaultdict(int)
        awake: dict[str, float] = defaultdict(float)
        for life in self.lives:
            who = life.who.partition(".")[0]
            begun[who] += len(life.begun)
            awake[who] += life.awake(life.since, life.until)
        paces = {who: begun[who] / seconds for who, seconds in awake.items() if seconds > 0}
        own, others = paces.pop(name, 0.0), list(paces.values())
        mean = sum(others) / max(1, len(others))
        return own / mean if mean else float(own > 0)

    def _idle(self, life: Life, moments: Sequence[float]) -> Iterator[Idle]:
        """Give what speaks against a worker between each two of these moments, in which it began nothing."""
        for begin, end in self._parts(moments, least=self._busy):
            seconds = life.awake(begin, end)
            if seconds > self._busy:
                seen = self._deep[bisect_left(self._deep, begin + self._busy) : bisect_left(self._deep, end)]
                looks = sum(not life.stands(at) and life.awake(begin, at) > self._busy for at in seen)
                others = _within(self._begun, begin, end) - _within(life.begun, begin, end)
                yield Idle(seconds, looks, others)

    def _parts(self, moments: Sequence[float], *, least: float) -> Iterator[Span]:
        """Give the times between these moments, if they are longer than so, in which nothing befell all at once."""
        for since, until in pairwise(moments):
            if until - since <= least:
                continue
            begin = since
            for away, back in self._breaks:
                if since < away < until and begin < away:
                    yield begin, away
                if away < until:
                    begin = max(begin, back)
            if begin < until:
                yield begin, until


def lives(lines: Sequence[Line]) -> list[Life]:
    """Read the lives of workers, each from when it had come so far as to work until it was struck dead."""
    found: list[Life] = []
    workers: dict[int, str] = {}
    lived: dict[int, Life] = {}
    for line in lines:
        pid = line.get("child", line.get("pid", 0))
        match line["what"]:
            case "born":
                lived.pop(pid, None)
                workers[pid] = line["who"] if line["role"] == "worker" else ""
            case "working" if workers.get(pid):
                lived[pid] = Life(workers[pid], line["at"], lines[-1]["at"])
                found.append(lived[pid])
            case what if pid in lived and line["at"] <= lived[pid].until:
                _befell(lived[pid], what, line.get("kind"), line["at"])
    return found


def _befell(life: Life, what: str, kind: str | None, at: float) -> None:
    """Write down what befell one; who stands still does so until it is thawed, or for ever."""
    match what, kind:
        case ("struck", "freeze" | "pause"):
            life.still.append((at, life.until))
        case ("thawed", _):
            life.still[-1:] = [(since, at) for since, _ in life.still[-1:]]
        case ("died", _) | ("struck", "kill"):
            life.until = at
        case _ if what in OF_TASKS:
            life.begun.append(at)


def _deep(lines: Sequence[Line]) -> list[float]:
    """Give when the line was seen to be long, without what a stranger may have locked of it."""
    found: list[float] = []
    locked: dict[int, int] = {}
    for line in lines:
        match line["what"]:
            case "struck" if line["kind"] == "hold":
                locked[line["child"]] = line["locked"]
            case "released":
                locked.pop(line["child"], None)
            case "back":
                locked.clear()
            case "line" if line["due"] - sum(locked.values()) >= DEEP:
                found.append(line["at"])
    return found


def _breaks(lines: Sequence[Line]) -> list[Span]:
    """Give when the database was away, a table locked or all connections cut: whoever comes back from that begins anew."""
    found = barred(lines)
    for line in lines:
        if line["what"] == "back":
            found.append((line["killed"], line["at"]))
        elif line["what"] == "struck" and line["kind"] == "crash":
            found.append((line["at"], line["at"] + CRASH_SECONDS))
        elif line["what"] == "struck" and line["kind"] == "cut" and line["ended"] > FEW:
            found.append((line["at"], line["at"]))
    return sorted(found)


def _within(ordered: Sequence[float], begin: float, end: float) -> int:
    return bisect_left(ordered, end) - bisect_left(ordered, begin)


def fleet(seen: Evidence) -> Fleet:
    """Read it from the histories; how long leases are stands beside the clocks."""
    return Fleet(seen.lines, lease=next(float(line["lease"]) for line in seen.of("clock")))


def who_lives_on_works_on(seen: Evidence) -> Iterator[str]:
    """A worker that is awake, with the database up and tasks in line, begins some of them."""
    yield from fleet(seen).judge().idle
