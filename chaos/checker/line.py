"""Whether anything stood in line for long while others were begun: what starves may still end in time, and nobody would notice.

The log says when a task came into the line and when it was claimed. Asked are tasks that neither fail a try nor park, for those
are due when they come. Of each wait the time is left out in which nobody could have claimed it (able.py): no worker was awake,
a stranger held its row, the database was away or a table locked, with the lease after that in which all come back.

A long wait alone is a matter of the machine and of how much there is to do. So one counts as passed over that waited for longer
than the worst recovery may take and saw many begun that had come after it: the line is in the order of coming. One that waited
for as long as no look from the front may be put off is told whoever was begun meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.checker import able, claims
from chaos.checker.able import Able
from chaos.checker.cases import STEADY
from chaos.checker.evidence import Evidence

# So many that came after it may be begun before it: more than all workers take at once, and more than may stand in line.
PASSED = 150
# Claims begin behind what was claimed before, and look from the front after so long at most, as a rule (decision 36).
LONG_SECONDS = 30.0


class Wait(NamedTuple):
    """One wait in line: of which task, from when to when, and whether the task had just been born."""

    task: str
    since: float
    until: float
    first: bool


def waits(seen: Evidence) -> list[Wait]:
    """Return how long tasks stood in line, each time that they did, until they were claimed; in the order of coming."""
    ahead = claims.offset(seen)
    came: dict[str, tuple[float, bool]] = {}
    found = []
    for event in seen.events:
        task = event["subject"]
        if event["kind"] != "task" or task not in seen.tasks or seen.tasks[task]["name"] not in STEADY:
            continue
        at = event["at"] - ahead
        if event["to_state"] == "running" and task in came:
            since, first = came[task]
            found.append(Wait(task, since, at, first))
        came.pop(task, None)
        if event["to_state"] == "ready":
            came[task] = at, event["from_state"] is None
    return sorted(found, key=lambda wait: wait.since)


def nothing_is_passed_over(seen: Evidence) -> Iterator[str]:
    """What stands in line is claimed before many that came after it, while a worker is awake and nobody else holds it."""
    lease = next(float(line["lease"]) for line in seen.of("clock"))
    found = waits(seen)
    long = [wait for wait in found if wait.until - wait.since > _latest(lease)]
    if not long:
        return
    could = Able(seen.lines, lease=lease)
    for wait in long:
        waited = could.waited(wait.task, wait.since, wait.until, lease=0.0, roles=able.WORKERS)
        passed = _passed(found, wait)
        if waited > LONG_SECONDS or (waited > _latest(lease) and passed >= PASSED):
            yield f"{wait.task} stood in line for {waited:.1f} s, and {passed} that came after it were claimed before it"


def _latest(lease: float) -> float:
    return 2 * lease + 1


def _passed(ordered: Sequence[Wait], one: Wait) -> int:
    """Count those who were born after one had come and were claimed before it: who comes back has its old place."""
    behind = ordered[bisect_left(ordered, one.since, key=lambda wait: wait.since) :]
    return sum(each.first and each.until < one.until for each in behind if each is not one)
