"""What the log says of each claim of a task or a turn: when it began, when it was over, and why; and who began what is in it.

Claims of a task are numbered by its epoch, in the order of the log; those of a turn are counted, for its epoch grows by other
moves as well. Times are those of the histories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from chaos.checker.evidence import Evidence

LAPSED = "lease_expired"  # how the log says that somebody's time was over and the work was taken from him
HANDED_BACK = "handed_back"
# Lines by which handlers of tasks and of turns say that they are at work, and what that is work at.
OF_TASKS = {"start": "tasks", "leg": "capabilities", "maps": "steps of commands", "ties": "tools"}
OF_TURNS = {"sails": "turns", "ran": "turns", "stroke": "turns of batches"}
WORK = tuple(dict.fromkeys([*OF_TASKS.values(), *OF_TURNS.values()]))


class Claim(NamedTuple):
    """One claim that is over: when it was made, when and how it ended."""

    since: float
    until: float
    lapsed: bool


class Begun(NamedTuple):
    """The first word of a handler in one claim: whose process said it, when, and what it is work at."""

    subject: str
    number: int
    pid: int
    at: float
    work: str


def offset(seen: Evidence) -> float:
    """Return by how much the clock of the database is ahead of that of the histories."""
    return next(float(line["wall"] - line["at"]) for line in seen.of("clock"))


def over(seen: Evidence) -> dict[tuple[str, int], Claim]:
    """Return the claims of tasks that are over, by task and epoch."""
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


def times(seen: Evidence) -> dict[str, list[float]]:
    """Return for each task when it was claimed, by the clock of the database, in the order of its epochs."""
    found: dict[str, list[float]] = defaultdict(list)
    for event in seen.events:
        if event["kind"] == "task" and event["to_state"] == "running":
            found[event["subject"]].append(event["at"])
    return found


def turns(seen: Evidence) -> tuple[dict[tuple[str, int], Claim], dict[str, list[float]]]:
    """Return the claims of turns that are over, by turn and number; and for each turn when it was claimed, in order."""
    ahead = offset(seen)
    since: dict[str, list[float]] = defaultdict(list)
    found: dict[tuple[str, int], Claim] = {}
    for event in seen.events:
        if event["kind"] != "agent.state":
            continue
        turn, at = event["subject"], event["at"] - ahead
        if event["to_state"] == "running" and event["code"] not in (LAPSED, HANDED_BACK):
            since[turn].append(at)
        elif event["from_state"] == "running" and since[turn]:
            claim = turn, len(since[turn])
            found.setdefault(claim, Claim(since[turn][-1], at, event["code"] == LAPSED))
    return found, since


def begun(seen: Evidence, claimed: dict[str, list[float]]) -> list[Begun]:
    """Return the first word of a handler in each claim in which one spoke, in the order of time."""
    found: dict[tuple[str, int], Begun] = {}
    for line in seen.of(*OF_TASKS, *OF_TURNS):
        what = line["what"]
        if what in OF_TASKS:
            one = Begun(line["task"], int(line["epoch"]), line["pid"], line["at"], OF_TASKS[what])
        elif "turn" in line:  # a step of a durable task says that it ran, too
            number = bisect_right(claimed.get(line["turn"], []), line["at"])
            one = Begun(line["turn"], number, line["pid"], line["at"], OF_TURNS[what])
        else:
            continue
        found.setdefault((one.subject, one.number), one)
    return sorted(found.values(), key=lambda each: each.at)


def pairs(begun: Iterable[Begun]) -> list[tuple[Begun, Begun | None]]:
    """Give the beginning in each claim, with the next beginning of the same."""
    tries: dict[str, list[Begun]] = defaultdict(list)
    for each in begun:
        tries[each.subject].append(each)
    found: list[tuple[Begun, Begun | None]] = []
    for one_by_one in tries.values():
        ordered = sorted(one_by_one, key=lambda one: one.number)
        found += zip(ordered, [*ordered[1:], None], strict=True)
    return found
