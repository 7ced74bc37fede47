"""Whether a run met the cases that it is for: a run that met none of them shows nothing.

Each is counted where a fault brought it about, and not where it comes about by itself: on the calmest day a turn that waits for
its tools has several epochs, and a task that fails its first try or parks has several claims.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from chaos import terms
from chaos.checker import claims
from chaos.checker.evidence import Evidence
from chaos.checker.recovery import Lost
from chaos.checker.zombies import Still, thawed

# So often each must occur in a whole run. The rarest are expected there twelve times: luck alone fails one run of a hundred.
OFTEN = 3
# What even a run of seconds meets, however busy the machine is.
SURE = ("a life had a doorbell that fails", "the database was killed", "a worker was killed")
# Doorbells that lose nothing.
WHOLE = ("postgres", "nats")
# Tasks that neither fail a try nor park by themselves: a second claim, or a second start, is somebody's doing.
STEADY = ("job", "plain", "hog", "tick", "lag")
# No create is under way for so long: an id that is further from its row is of another clock.
FAR_SECONDS = 600.0
# What the dead had in hand, by its name (chaos/checker/claims.py).
CHILDREN, OF_COMMANDS = "turns of batches", ("steps of commands", "capabilities")
# Fault points behind a commit whose answer is lost there.
COMMITTED = (
    "create.committed",
    "claim.committed",
    "settle.committed",
    "step.committed",
    "wait.committed",
    "birth.committed",
    "park.committed",
    "fire.committed",
    "batch.sent",
    "ingest.claimed",
    "ingest.committed",
    "ingest.ended",
)


def cases(
    seen: Evidence, inside: Iterable[tuple[str, str]], *, zombies: int, lost: Sequence[Lost] = ()
) -> dict[str, int]:
    """Count the cases that a run is for; `inside` are the faults inside of the processes, `lost` is what the dead held."""
    struck = Counter(line["kind"] for line in seen.of("struck"))
    kills = sorted(line["at"] for line in seen.of("died"))
    first, last = (kills[0], kills[-1]) if kills else (0.0, 0.0)
    oks = sorted(line["at"] for line in seen.of("ok"))
    return {
        "a worker that had stood still past its lease was fenced": zombies,
        "a holder that lived and did not stand still overran its lease": _overran(seen),
        "a task was claimed again that neither fails nor parks": sum(
            row["epoch"] > 1 and row["name"] in STEADY for row in seen.tasks.values()
        ),
        "a lost acknowledgement was repeated and met its task": sum(
            bool(line.get("hit")) for line in seen.of("ok") if line["again"]
        ),
        "an act was repeated by the next life of its producer": _inherited(seen),
        "a producer was told that the database is away": sum(line["retryable"] for line in seen.of("refused")),
        "a task was cancelled": sum(bool(line.get("cancelled")) for line in seen.of("ok", act="cancel")),
        "a cancel came too late": sum(not line.get("cancelled") for line in seen.of("ok", act="cancel")),
        "a turn was taken over by another worker": _turns_taken_over(seen),
        "a batch closed after the holder of one of its tasks died": _batches_orphaned(seen, lost),
        "a batch failed fast and its other children were stopped": _failed_fast(seen),
        "a batch was cancelled": sum(bool(line["stopped"]) for line in seen.of("ok", act="revoke")),
        "a command was cancelled": sum(bool(line["stopped"]) for line in seen.of("ok", act="recall")),
        "a step or a capability of a command was done again after a death": sum(
            each.begun and each.work in OF_COMMANDS for each in lost
        ),
        "a run of ingestion was lost and its task begun anew": _runs_lost(seen),
        "a worker was killed": struck["kill"],
        "the database was killed": struck["outage"],
        "a backend was killed": struck["crash"],
        "connections were cut": struck["cut"],
        "a stranger held rows": sum(bool(line.get("locked")) for line in seen.of("struck") if line["kind"] == "hold"),
        "a stranger held what others must lock": sum(
            bool(line["locked"]) for line in seen.of("struck") if line["kind"] == "grip"
        ),
        "a stranger had a table to himself": struck["bar"],
        "handlers held every connection": sum(line["held"] >= line["pool"] for line in seen.of("hogs")),
        "a life had a doorbell that fails": sum(line["doorbell"] not in WHOLE for line in seen.of("born")),
        "a life had NATS for its doorbell": sum(line["doorbell"] == "nats" for line in seen.of("born")),
        "the NATS server was killed": struck["hush"],
        "a life had a wrong clock": sum(line["clock"] != 0 for line in seen.of("born")),
        "a task's id was made by a clock that is wrong": _made_by_a_wrong_clock(seen),
        "an answer was lost after its commit": sum(point in COMMITTED and action == "away" for point, action in inside),
        "work was acknowledged between two deaths": bisect_left(oks, last) - bisect_left(oks, first),
    }


def _inherited(seen: Evidence) -> int:
    """Count acts that one life began and a later one was acknowledged."""
    began: dict[str, str] = {}
    for line in seen.of("invoke"):
        began.setdefault(line["key"], line["who"])
    return sum(began[line["key"]] != line["who"] for line in seen.of("ok") if line["key"] in began)


def _turns_taken_over(seen: Evidence) -> int:
    """Count turns that were taken over from a holder whose lease had expired, and not from one that handed them back."""
    before: dict[str, str | None] = {}
    count = 0
    for event in seen.events:
        if event["kind"] == "agent.state":
            count += event["code"] == "taken_over" and before.get(event["subject"]) == claims.LAPSED
            before[event["subject"]] = event["code"]
    return count


def _overran(seen: Evidence) -> int:
    """Count claims whose handler came to its end after they were taken from it, though its process was awake all the time."""
    over = claims.over(seen)
    still: dict[int, list[Still]] = defaultdict(list)
    for each in thawed(seen.lines, lease=0.0):
        still[each.pid].append(each)
    count = 0
    for line in seen.of("effect"):
        claim = over.get((line["task"], int(line["epoch"])))
        if claim is not None and claim.lapsed and claim.until < line["at"]:
            count += not any(each.since < line["at"] and claim.since < each.until for each in still[line["pid"]])
    return count


def _batches_orphaned(seen: Evidence, lost: Sequence[Lost]) -> int:
    """Count batches that came to their end after a worker had died with one of their children in hand."""
    deaths = {each.subject: each.death for each in lost if each.work == CHILDREN}
    ahead = claims.offset(seen)
    ended = {
        event["subject"]: event["at"] - ahead
        for event in seen.events
        if event["kind"] == "batch" and event["from_state"] == "running"
    }
    rows = seen.ask("select batch_id::text as batch, agent_turn_id::text as turn from ferryman.pmo_batch_tasks")
    return len({row["batch"] for row in rows if deaths.get(row["turn"], math.inf) < ended.get(row["batch"], -math.inf)})


def _failed_fast(seen: Evidence) -> int:
    """Count batches that one child ended, before the others had come to their end."""
    asked = [line["arguments"]["batch"] for line in seen.of("invoke", act="wreck") if line["arguments"]["fail_fast"]]
    rows = seen.ask("select batch_id::text as batch, agent_turn_id::text as turn, status from ferryman.pmo_batch_tasks")
    return len({row["batch"] for row in rows if row["batch"] in asked and row["status"] == "canceled"})


def _runs_lost(seen: Evidence) -> int:
    """Count runs of ingestion that were lost with their executor; an ordinary second attempt is none."""
    return sum(event["kind"] == "ingest_run" and event["code"] == "INGEST_LEASE_LOST" for event in seen.events)


def _made_by_a_wrong_clock(seen: Evidence) -> int:
    """Count tasks whose id, which is made of the time on its maker's wall, is far from when they were written."""
    born = {
        event["subject"]: event["at"] for event in seen.events if event["kind"] == "task" and not event["from_state"]
    }
    return sum(abs((UUID(task).int >> 80) / 1000 - at) > FAR_SECONDS for task, at in born.items())


def missing(found: Mapping[str, int], *, minutes: float, short: bool) -> list[str]:
    """Name the cases that did not occur often enough for so many minutes; a short run cannot meet them all."""
    least = max(1, int(OFTEN * min(1.0, minutes / terms.WHOLE_MINUTES)))
    return [
        f"never, or too seldom: {case} ({count})"
        for case, count in found.items()
        if count < least and (case in SURE or not short)
    ]
