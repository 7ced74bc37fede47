"""How soon the work of the dead was taken back and begun anew.

A case is a claim that its holder had in hand when it was killed, whether or not the handler had come to its end: the log says
that the claim was not over before the death. Two waits are told of each: until it was taken back, which the log says, and until
somebody began it anew, which is the next start of that task, whoever else claimed it in between. What is no such case, and what
is not judged, is counted and told with its reason.

Now and then the next to claim it is struck as well, before it begins, and the lease of that one must pass too. By the clock
that is one long wait. Judged it is two, of which the longer counts: until it was claimed, and from the last such claim on. How
many there were is told.

Tasks, turns, capabilities, steps of commands and tools are all looked at: whoever works says so in its history, and a turn that
goes on after it has waited says so by its next step. A claim that ended by its lease before any handler spoke in it has no
such line, so nobody knows whose it was and since when that one was dead: how many there are is told.

Windows of ingestion have longer leases, and are told apart. Each run keeps who held it, and who that was stays known in the
table of workers, so that it needs no word of a handler. Whether they were begun anew is asked of the cursor, which has no gap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.checker import claims
from chaos.checker.evidence import Deaths, Evidence

Wait = tuple[str, float, float]  # of a task or a turn: from when to when

ARRIVED = "what its holder had sent before its death still arrived, or somebody cancelled it"
ENDED = "it was cancelled before anybody began it anew"
LOST_RUNS = """
    select run.task_id::text as task, worker.pid, extract(epoch from worker.started_at)::float8 as born,
           extract(epoch from run.planned_at)::float8 as planned, extract(epoch from run.finished_at)::float8 as lost
    from ferryman.ingest_run as run
    join ferryman.workers as worker on worker.boot_id = run.lease_owner
    where run.error_code = 'INGEST_LEASE_LOST'
    order by run.finished_at
"""


class Lost(NamedTuple):
    """What somebody had in hand who was killed: what it is work at, of what, when he died, and whether it was begun anew."""

    work: str
    subject: str
    death: float
    begun: bool


class Judged(NamedTuple):
    """One that was begun anew: what it is work at, and its waits: two, where another fell with it in between."""

    work: str
    waits: list[Wait]


@dataclass
class Recoveries:
    """The waits by the clock; those that are judged for what was begun anew; and how many are left out, and why."""

    taken_back: list[Wait] = field(default_factory=list)
    begun: list[Wait] = field(default_factory=list)
    begun_judged: list[Judged] = field(default_factory=list)
    fell: int = 0  # so many of these have two waits
    lost: list[Lost] = field(default_factory=list)  # what was taken back
    unbegun: int = 0  # claims that ended by their lease before a handler spoke in them
    left_out: Counter[str] = field(default_factory=Counter)


def recoveries(seen: Evidence) -> Recoveries:
    """Find what was in the hands of the dead, and what became of it."""
    found = Recoveries()
    deaths = Deaths(seen.lines)
    of_turns, claimed = claims.turns(seen)
    over = {**claims.over(seen), **of_turns}
    pairs = claims.pairs(claims.begun(seen, claimed))
    spoke = {(first.subject, first.number) for first, _ in pairs}
    found.unbegun = sum(claim.lapsed and key not in spoke for key, claim in over.items())
    for first, again in pairs:
        subject, death = first.subject, deaths.after(first.pid, first.at)
        claim = over.get((subject, first.number))
        if claim is None or claim.until <= death:
            continue  # it lives, or had settled, parked or handed back what it had
        if not claim.lapsed:
            found.left_out[ARRIVED] += 1
            continue
        found.taken_back.append((subject, death, claim.until))
        found.lost.append(Lost(first.work, subject, death, again is not None))
        if again is None:
            found.left_out[ENDED] += 1
            continue
        whole = subject, death, again.at
        found.begun.append(whole)
        fell = [over[key] for number in range(first.number + 1, again.number) if (key := (subject, number)) in over]
        found.fell += bool(fell)
        waits = [(subject, death, fell[0].since), (subject, fell[-1].since, whole[2])] if fell else [whole]
        found.begun_judged.append(Judged(first.work, waits))
    return found


def windows(seen: Evidence) -> list[Wait]:
    """Find how soon windows of ingestion were taken back whose executor was killed."""
    ahead, deaths = claims.offset(seen), Deaths(seen.lines)
    found: list[Wait] = []
    for run in seen.ask(LOST_RUNS):
        born, planned, lost = (run[name] - ahead for name in ("born", "planned", "lost"))
        death = deaths.after(run["pid"], born)
        if planned <= death < lost:  # else it lives, or stood still until its time was over
            found.append((run["task"], death, lost))
    return found
