"""Whether everything that ended did so once: the rows of every domain beside the log.

A row that has ended has one end in the log, the same as its own, and nothing after it. A row that the log has seen and that is
not there any more is lost: a run is over long before anything is forgotten, but for a soak in which it is to be. There the log
alone is asked, which is kept for days.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from chaos.checker import claims
from chaos.checker.evidence import Evidence, Row

TURN_ENDS = frozenset({"success", "failed", "canceled", "timeout", "partial"})
WORK_ENDS = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "CANCELLED"})


class Domain(NamedTuple):
    """Rows that end: their name in the log, where they are, and what ends them."""

    kind: str
    table: str
    ends: frozenset[str]
    state: str = "status"
    which: str = "true"


DOMAINS = (
    Domain("task", "tasks", frozenset({"succeeded", "failed", "cancelled"}), state="state"),
    Domain("schedule", "schedules", frozenset({"ended"}), state="state"),
    Domain("agent.task", "agent_inbox", TURN_ENDS, state="turn_status", which="message_type = 'turn'"),
    Domain("batch", "pmo_batches", frozenset({"success", "failed", "timeout", "partial"})),
    Domain("batch.task", "pmo_batch_tasks", TURN_ENDS),
    Domain("command", "command_inbox", frozenset({"COMPLETED", "FAILED"})),
    Domain("async_task", "async_tasks", frozenset({"COMPLETED", "FAILED", "CANCELLED"})),
    Domain("ingest_plan", "ingest_plan", frozenset({"READY", "PARTIAL", "FAILED"})),
    Domain("ingest_slice", "ingest_slice", frozenset({"READY", "FAILED"})),
    Domain("ingest_task", "ingest_task", WORK_ENDS),
    Domain("ingest_run", "ingest_run", WORK_ENDS),
    Domain("ingest_batch", "ingest_batch", frozenset({"SUCCEEDED", "FAILED", "SKIPPED"})),
)

# What producers are told of, and its name in the log.
ACKNOWLEDGED = {"turn": "agent.task", "batch": "batch", "command": "command", "plan": "ingest_plan"}

# Of an act that cancels: what it was to end, and what its answer says of that.
CANCELS = {"cancel": ("task", "cancelled"), "revoke": ("batch", "stopped"), "recall": ("command", "stopped")}
# By so much the clock of the database may have gone another way than that of the histories.
ASTRAY_SECONDS = 0.25
# What ends with its parent: it is stopped, or had come to its own end before.
FAMILIES = {
    ("task", "task"): "select task::text as parent, child::text from ferryman.task_steps where child is not null",
    (
        "command",
        "async_task",
    ): "select triggered_by_command_id::text as parent, id::text as child from ferryman.async_tasks",
    ("batch", "batch.task"): "select batch_id::text as parent, id::text as child from ferryman.pmo_batch_tasks",
}
STOPPED = frozenset({"cancelled", "CANCELLED", "canceled"})


def one_end_for_each_row(seen: Evidence) -> Iterator[str]:
    """What has ended has one end in the log, it is the last word, and the row says the same; in every domain."""
    words: dict[tuple[str, str], list[str]] = defaultdict(list)
    for event in seen.events:
        if event["to_state"] is not None:
            words[event["kind"], event["subject"]].append(event["to_state"])
    for domain in DOMAINS:
        rows = _rows(seen, domain)
        for id, state in rows.items():
            said = words[domain.kind, id]
            ends = [word for word in said if word in domain.ends]
            if ends != ([state] if state in domain.ends else []) or (ends and said[-1:] != ends):
                yield f"the {domain.kind} {id} is {state}, its log says {said[-4:]}"


def acknowledged_ended_once(seen: Evidence) -> Iterator[str]:
    """Of all that was acknowledged the log tells one end, whether or not its row is still there."""
    ends = {domain.kind: domain.ends for domain in DOMAINS}
    told = Counter(
        (event["kind"], event["subject"]) for event in seen.events if event["to_state"] in ends.get(event["kind"], ())
    )
    for line in seen.of("ok"):
        asked = [("task", id) for id in line.get("tasks", {}).values()]
        asked += [(kind, line[name]) for name, kind in ACKNOWLEDGED.items() if name in line]
        yield from (
            f"the {kind} {id} was acknowledged and has {told[kind, id]} ends in the log"
            for kind, id in asked
            if told[kind, id] != 1
        )


def nothing_is_gone(seen: Evidence) -> Iterator[str]:
    """Of everything that the log tells of there is a row."""
    for domain in DOMAINS:
        rows = _rows(seen, domain)
        told = {event["subject"] for event in seen.events if event["kind"] == domain.kind}
        yield from (f"the {domain.kind} {id} is in the log and is gone" for id in sorted(told - rows.keys()))


def nothing_lives_on(seen: Evidence) -> Iterator[str]:
    """After the quiet every row of every domain has ended."""
    for domain in DOMAINS:
        yield from (
            f"the {domain.kind} {id} is still {state}"
            for id, state in _rows(seen, domain).items()
            if state not in domain.ends
        )


def a_cancel_that_did_nothing_came_too_late(seen: Evidence) -> Iterator[str]:
    """Whoever asked to cancel something and was told that nothing was cancelled had asked for what had ended by then."""
    ended, ahead = _ended(seen), claims.offset(seen)
    asked = {line["key"]: line["arguments"].get("task") for line in seen.of("invoke") if line["act"] in CANCELS}
    for line in seen.of("ok"):
        kind, answer = CANCELS.get(line["act"], ("", ""))
        if not kind or line[answer]:
            continue
        id = asked[line["key"]] or line[kind]
        end = ended.get((kind, id))
        if end is None or end["at"] - ahead > line["at"] + ASTRAY_SECONDS:
            told = "never ended" if end is None else f"ended {end['at'] - ahead - line['at']:.1f} s later"
            yield f"the {kind} {id} was to be cancelled, nothing was, and it {told}"


def nothing_outlives_what_bore_it(seen: Evidence) -> Iterator[str]:
    """What was born of a task, a command or a batch is stopped with it, unless it has come to its own end before."""
    ended = _ended(seen)
    for (kind, of), question in FAMILIES.items():
        for row in seen.ask(question):
            parent, child = ended.get((kind, row["parent"])), ended.get((of, row["child"]))
            if parent and child and child["to_state"] not in STOPPED and child["id"] > parent["id"]:
                yield (
                    f"the {of} {row['child']} came to {child['to_state']} after the {kind} {row['parent']} was"
                    f" {parent['to_state']}"
                )


def _ended(seen: Evidence) -> dict[tuple[str, str], Row]:
    """Give the last word of the log about the end of each."""
    ends = {domain.kind: domain.ends for domain in DOMAINS}
    return {
        (event["kind"], event["subject"]): event
        for event in seen.events
        if event["to_state"] in ends.get(event["kind"], ())
    }


def _rows(seen: Evidence, domain: Domain) -> dict[str, str | None]:
    found = seen.ask(f"select id::text, {domain.state} as state from ferryman.{domain.table} where {domain.which}")
    return {row["id"]: row["state"] for row in found}


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    one_end_for_each_row,
    acknowledged_ended_once,
    nothing_is_gone,
    nothing_lives_on,
    a_cancel_that_did_nothing_came_too_late,
    nothing_outlives_what_bore_it,
)
