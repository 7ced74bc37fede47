"""Why tasks were started again: which fault forced it, or none.

Whoever is killed or stands still past his lease with work in hand cannot keep it from being begun anew; how often that is, is
the plan's doing. What no fault forced is the product's. Told by the histories: who died and stood still when, whose renewals
were held up from when to when, and whose row a stranger held, so that nobody could renew it. From when to when a claim lasted
is what the log says: a fault that came before it or after it forced nothing. A locked table may end the lease of
a living worker too, and so may an outage without a grace: one that is shorter than three intervals, or that comes within two
leases of another (decision 16). An outage with a grace ends no lease, unless its holder was held up otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from chaos import plan, terms
from chaos.checker import claims
from chaos.checker.able import WATCHERS, Able, away, barred, locked
from chaos.checker.cases import STEADY
from chaos.checker.claims import Claim
from chaos.checker.evidence import Deaths, Evidence

Line = Mapping[str, Any]
Span = tuple[float, float]

KILLED, DONE = "its holder was killed with it in hand", "its holder was killed before what it had done was settled"
STILL = "its holder stood still past the lease"
LOCKED = "a stranger held its row past the lease"
RENEWALS, AWAY = "its holder's renewals were held up", "the database was away"
NOTHING = "no fault forced it"
CAUSES = (KILLED, DONE, STILL, LOCKED, RENEWALS, AWAY, NOTHING)


# Renewals go out twice in a third of a lease, for all that was not renewed for a third. One that fails is sent again at once.
# Of a claim whose renewals are held up until it is over half a lease is left, or a quarter where rounds are late themselves.
SENT_AGAIN_OF_LEASE = 1 / 5
HELD_UP_OF_LEASE = 1 / 4
# Watchdogs give a grace after an outage of three intervals, and none within two leases of the outage before.
SILENCE_OF_LEASE = min(3 * terms.INTERVAL_OF_LEASE, 1.0)
APART_IN_LEASES = 2


class Past:
    """What befell each process."""

    def __init__(
        self, lines: Sequence[Line], over: Mapping[tuple[str, int], Claim] | None = None, *, lease: float
    ) -> None:
        """Read who died when, who stood still or had a row held from when to when, and when the database was away."""
        self._lease = lease
        self._over = over or {}
        self._deaths = Deaths(lines)
        self._spoke: dict[int, list[float]] = defaultdict(list)  # when each said something
        self._still: dict[int, list[Span]] = defaultdict(list)
        self._away, self._graced = _outages(lines, lease)
        self._held_up = _held_up(lines, lease)
        self._locked = locked(lines)
        self._effects: dict[tuple[str, int], float] = {}
        since: dict[int, float] = {}
        for line in lines:
            self._spoke[line.get("pid", 0)].append(line["at"])
            match line["what"]:
                case "died" if line["child"] in since:
                    self._still[line["child"]].append((since.pop(line["child"]), line["at"]))
                case "struck" if line["kind"] in ("freeze", "pause"):
                    since[line["child"]] = line["at"]
                case "thawed" if line["child"] in since:
                    self._still[line["child"]].append((since.pop(line["child"]), line["at"]))
                case "effect":
                    self._effects[line["task"], line["epoch"]] = line["at"]

    def cause(self, before: Line, after: Line) -> str:
        """Say why what one process had begun was begun anew."""
        pid, again = before["pid"], after["at"]
        # Where the log does not say it: it was claimed before it was begun, by a lease at most.
        unknown = Claim(min(before["at"], again) - self._lease, again, True)
        claim = self._over.get((before["task"], int(before["epoch"])), unknown)
        death = self._deaths.after(pid, before["at"])
        if death < again and not self._heard(pid, claim.until, death):  # else it had not died of it
            return DONE if self._effects.get((before["task"], before["epoch"]), again) < again else KILLED
        # A lease is renewed when a third of it is over, so two thirds of one are left to whoever stands still.
        for cause, spans in ((STILL, self._still[pid]), (LOCKED, self._locked[before["task"]])):
            if any(
                begin < claim.until and min(end, again) - max(begin, claim.since) > self._lease / 2
                for begin, end in spans
            ):
                return cause
        if claim.lapsed and self._was_held_up(pid, claim):
            return RENEWALS
        if _overlaps(claim, self._away):
            return AWAY
        if _overlaps(claim, self._graced) and (not claim.lapsed or self._hindered(before, claim)):
            return AWAY
        return NOTHING

    def _hindered(self, before: Line, claim: Claim) -> bool:
        """Say whether another fault met the holder of a claim: an outage with a grace ends no lease by itself."""
        keepers = [spans for (whose, _), spans in self._held_up.items() if whose == before["pid"]]
        return any(
            _overlaps(claim, spans) for spans in (self._still[before["pid"]], self._locked[before["task"]], *keepers)
        )

    def _heard(self, pid: int, since: float, until: float) -> bool:
        """Say whether a process said something after a moment and until another."""
        times = self._spoke[pid]
        return bisect_right(times, since) < bisect_right(times, until)

    def _was_held_up(self, pid: int, claim: Claim) -> bool:
        """Say whether renewals of a process were held up for long enough within a claim; each of its keepers has a thread."""
        return any(
            sum(max(0.0, min(end, claim.until) - max(begin, claim.since)) for begin, end in spans)
            > self._lease * HELD_UP_OF_LEASE
            for (whose, _), spans in self._held_up.items()
            if whose == pid
        )


def _overlaps(claim: Claim, spans: Sequence[Span]) -> bool:
    return any(begin < claim.until and claim.since < end for begin, end in spans)


def _outages(lines: Sequence[Line], lease: float) -> tuple[list[Span], list[Span]]:
    """Return the times in which an outage or a locked table may end a lease, and the outages after which a grace was due.

    Each lasts for a lease after its end. A grace is due only if watchdogs had ticked for two leases without a gap.
    """
    ungraced = [(begin, end + lease) for begin, end in barred(lines)]
    graced: list[Span] = []
    gaps = [*away(lines), *Able(lines, lease=lease).gaps(WATCHERS)]
    for line in lines:
        match line["what"]:
            case "struck" if line["kind"] == "crash":
                ungraced.append((line["at"], line["at"] + lease))
            case "back":
                killed, back = line["killed"], line["at"]
                steady = not any(begin < killed < end + APART_IN_LEASES * lease for begin, end in gaps)
                due = steady and back - killed > SILENCE_OF_LEASE * lease
                (graced if due else ungraced).append((killed, back + lease))
    return ungraced, graced


def _held_up(lines: Sequence[Line], lease: float) -> dict[tuple[int, int], list[Span]]:
    """Give for each keeper of leases when its renewals did not go out."""
    found: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for line in lines:
        if line["what"] == "fault" and line["point"] == "renew.before":
            lasts = plan.OVERRUN_OF_LEASE if line["action"] == "delay" else SENT_AGAIN_OF_LEASE
            found[line["pid"], line["thread"]].append((line["at"], line["at"] + lease * lasts))
    return found


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


def no_start_without_a_fault(seen: Evidence) -> Iterator[str]:
    """Nothing was begun anew but by a fault that forced it: tasks, capabilities, steps of commands, tools and turns.

    Of what fails a try or waits by itself (a durable task, a turn) only those claims are asked that ended by their lease.
    """
    lease = next(float(line["lease"]) for line in seen.of("clock"))
    of_turns, claimed = claims.turns(seen)
    over = {**claims.over(seen), **of_turns}
    steady = {id for id, task in seen.tasks.items() if task["name"] in STEADY}
    steady |= {line["task"] for line in seen.of(*(what for what in claims.OF_TASKS if what != "start"))}
    past = Past(seen.lines, over, lease=lease)
    for before, after in claims.pairs(claims.begun(seen, claimed)):
        claim = over.get((before.subject, before.number))
        if after is not None and (before.subject in steady or (claim is not None and claim.lapsed)):
            first, then = (
                {"task": one.subject, "epoch": one.number, "pid": one.pid, "at": one.at} for one in (before, after)
            )
            if past.cause(first, then) == NOTHING:
                yield f"{before.work}: {before.subject}: {_told(first)}, then {_told(then)}"


def _told(start: Line) -> str:
    return f"claim {start['epoch']} begun by {start['pid']} at {start['at']:.3f}"
