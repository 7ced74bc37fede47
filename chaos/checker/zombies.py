"""Who came back after his time was over, wrote on, and was refused.

A refused write alone shows no zombie: the repeat of a worker whose answer was lost is refused too, and so is whoever holds what
a user cancels. So two accounts must agree, for each process that stood still past its lease. The log says which claims of tasks
and turns were taken from it for an expired lease while it stood still. Its own history says how many writes were refused to it
from its thaw on, for a lease. The lesser of the two is what was fenced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chaos.checker import claims
from chaos.checker.evidence import Evidence
from chaos.history import Line


class Still(NamedTuple):
    """A process that stood still past its lease, and went on."""

    pid: int
    since: float
    until: float


def fenced(seen: Evidence, *, lease: float) -> int:
    """Count the claims whose holder wrote on after it had stood still, and was refused."""
    taken = _taken(seen)
    refused: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for line in seen.of("fenced"):
        refused[line["pid"]].append((line["at"], line["count"]))
    count = 0
    for each in thawed(seen.lines, lease=lease):
        times = taken.get(each.pid, [])
        lost = bisect_left(times, each.until) - bisect_left(times, each.since)
        came = sum(n for at, n in refused[each.pid] if each.until <= at <= each.until + lease)
        count += min(lost, came)
    return count


def thawed(lines: Iterable[Line], *, lease: float) -> list[Still]:
    """Give those who stood still past their lease and lived on."""
    since: dict[int, float] = {}
    found = []
    for line in lines:
        match line["what"]:
            case "struck" if line["kind"] == "freeze":
                since[line["child"]] = line["at"]
            case "thawed" if line["child"] in since:
                still = Still(line["child"], since.pop(line["child"]), line["at"])
                if still.until - still.since > lease:
                    found.append(still)
    return found


def _taken(seen: Evidence) -> Mapping[int, Sequence[float]]:
    """Give for each process when claims were taken from it, in order."""
    found: dict[int, list[float]] = defaultdict(list)
    over = claims.over(seen)
    holders = {(line["task"], line["epoch"]): line["pid"] for line in seen.of("start", "leg")}
    for claim, pid in holders.items():
        if claim in over and over[claim].lapsed:
            found[pid].append(over[claim].until)
    ahead = claims.offset(seen)
    begun: dict[str, list[Line]] = defaultdict(list)
    for line in seen.of("sails", "stroke"):
        begun[line["turn"]].append(line)
    for event in seen.events:
        if event["kind"] == "agent.state" and event["code"] == claims.LAPSED:
            at = event["at"] - ahead
            before = [line for line in begun[event["subject"]] if line["at"] <= at]
            if before:  # whoever called its handler last holds the turn
                found[before[-1]["pid"]].append(at)
    return {pid: sorted(times) for pid, times in found.items()}
