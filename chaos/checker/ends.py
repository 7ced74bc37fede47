"""Whether everything that ended did so once: the rows of every domain beside the log.

A row that has ended has one end in the log, the same as its own, and nothing after it. A row that the log has seen and that is
not there any more is lost: a run is over long before anything is forgotten, but for a soak in which it is to be. There the log
alone is asked, which is kept for days.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from chaos.checker.evidence import Evidence

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


def _rows(seen: Evidence, domain: Domain) -> dict[str, str | None]:
    found = seen.ask(f"select id::text, {domain.state} as state from ferryman.{domain.table} where {domain.which}")
    return {row["id"]: row["state"] for row in found}


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    one_end_for_each_row,
    acknowledged_ended_once,
    nothing_is_gone,
    nothing_lives_on,
)
