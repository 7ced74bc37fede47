"""What the checker asks of commands and ingestion, and of all processes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from chaos import terms
from chaos.checker import batches
from chaos.checker.evidence import Evidence, Row

LEGS = ("Leg.Check", "Leg.Cross", "Leg.Load", "Leg.Unload")
# What is known of a command in the end: that it was asked for, that each of its capabilities has come to its end, and what its
# handler stated.
FACTS = [
    "Leg.Checked",
    "Leg.Cross.Completed",
    "Leg.Load.Completed",
    "Leg.Unload.Completed",
    "Voyage.Loaded",
    "Voyage.Requested",
]
TRACE = "Traceback (most recent call last)"
# Between two traces of which the first was the cause of the second.
CHAINED = ("The above exception was", "During handling of the above exception")
# That the database is away is the plan's doing, and may be told at length.
FORESEEN = "ferryman.kernel.errors.DatabaseUnavailable"
# Who stood still while another was left alone may have done so for longer than a look of a watchdog may take.
ALONE, OUT_OF_TIME = "alone", "ferryman.kernel.watchdog.look.OutOfTime"
LEFT_LYING = ("exception was never retrieved", "was never awaited", "Fatal Python error", "Exception ignored in")


def commands_are_complete(seen: Evidence) -> Iterator[str]:
    """Every command is completed, with each capability run and each fact stated once, or was cancelled as somebody asked."""
    rows = {row["id"]: row for row in seen.ask(
        "select id::text, status, error_code, idempotency_key as key from ferryman.command_inbox"
    )}  # fmt: skip
    recalled = {line["key"] for line in seen.of("invoke", act="recall")}
    started: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in seen.ask("select triggered_by_command_id::text as command, task_type, status from ferryman.async_tasks"):
        started[row["command"]].append((row["task_type"], row["status"]))
    facts: dict[str, list[str]] = defaultdict(list)
    for event in seen.events:
        if event["kind"] == "fact":
            facts[event["subject"]].append(event["name"])
    for line in [*seen.of("ok", act="command"), *seen.of("ok", act="recall")]:
        if line["command"] not in rows:
            yield f"the command {line['command']} was acknowledged and is gone"
        elif line.get("stopped") and rows[line["command"]]["status"] != "FAILED":
            yield f"the command {line['command']} was cancelled, and is {rows[line['command']]['status']}"
    for id, row in rows.items():
        if row["status"] == "FAILED" and row["error_code"] == "COMMAND_CANCELLED" and row["key"] in recalled:
            yield from _cut_short(id, started[id], facts[id])
        else:
            yield from _incomplete(id, row, started[id], facts[id])


def _incomplete(id: str, row: Row, started: list[tuple[str, str]], facts: list[str]) -> Iterator[str]:
    if row["status"] != "COMPLETED":
        yield f"the command {id} is {row['status']} ({row['error_code']})"
    if sorted(leg for leg, _ in started) != sorted(LEGS):
        yield f"the command {id} started {sorted(started)}"
    yield from (f"{leg} of the command {id} is {status}" for leg, status in started if status != "COMPLETED")
    if sorted(facts) != FACTS:
        yield f"of the command {id} was stated {sorted(facts)}"


def _cut_short(id: str, started: list[tuple[str, str]], facts: list[str]) -> Iterator[str]:
    """Of a command that was cancelled some is done and the rest is cancelled; nothing of it is there twice."""
    legs = [leg for leg, _ in started]
    if len(set(legs)) < len(legs) or not set(legs) <= set(LEGS):
        yield f"the command {id}, which was cancelled, started {sorted(started)}"
    yield from (
        f"{leg} of the command {id}, which was cancelled, is {status}"
        for leg, status in started
        if status not in ("COMPLETED", "CANCELLED")
    )
    if len(set(facts)) < len(facts) or not set(facts) <= set(FACTS):
        yield f"of the command {id}, which was cancelled, was stated {sorted(facts)}"


def capabilities_keep_what_their_claim_said(seen: Evidence) -> Iterator[str]:
    """What a capability came to was said in the claim that settled its task."""
    for row in seen.ask(
        "select async.id::text, async.task_type, async.result_data as result, task.epoch from ferryman.async_tasks as async"
        " join ferryman.tasks as task on task.id = async.task where async.status = 'COMPLETED'"
    ):
        if row["result"] != {"epoch": row["epoch"]}:
            yield f"{row['task_type']} {row['id']} keeps {row['result']}, and was settled in claim {row['epoch']}"


def windows_are_covered(seen: Evidence) -> Iterator[str]:
    """Each record of each window that was planned is in the sink, written once; no cursor has jumped."""
    planned = {line["nth"] for line in seen.of("ok", act="window")}
    if not planned:
        return
    per = terms.RECORDS_OF_A_WINDOW
    wanted = {n for nth in planned for n in range(nth * per, (nth + 1) * per)}
    sunk = {row["id"]: row["writes"] for row in seen.ask("select id, writes from public.cargo")}
    missing = sorted(wanted - set(sunk))
    if missing:
        yield f"{len(missing)} records are missing: {missing[:5]}"
    twice = [id for id, writes in sunk.items() if writes > 1]
    if twice:
        yield f"{len(twice)} records were written more than once: {sorted(twice)[:5]}"
    for row in seen.ask("select id::text, status, error_code from ferryman.ingest_task where status <> 'SUCCEEDED'"):
        yield f"the task {row['id']} of ingestion is {row['status']} ({row['error_code']})"
    chains: dict[str, list[tuple[int | None, int]]] = defaultdict(list)
    for row in seen.ask(
        "select cursor_id::text as cursor, kind, prev_position as before, new_position as after"
        " from ferryman.ingest_cursor_event order by cursor_id, seq"
    ):
        if row["kind"] != "no-forward":
            chains[row["cursor"]].append((row["before"], row["after"]))
    for cursor, moves in chains.items():
        for (_, after), (before, _) in pairwise(moves):
            if after != before:
                yield f"the cursor {cursor} jumped from {after} to {before}"
    ends = seen.ask("select id::text, position from ferryman.ingest_cursor")
    yield from (
        f"the cursor {row['id']} is at {row['position']}, its moves end at {chains[row['id']][-1][1]}"
        for row in ends
        if chains[row["id"]] and chains[row["id"]][-1][1] != row["position"]
    )


def no_cursor_passes_what_is_not_fetched(seen: Evidence) -> Iterator[str]:
    """When a cursor passed a slice, the slice had been fetched: in the end all of them are, and nothing would be missing."""
    fetched: dict[str, float] = {}
    for event in seen.events:
        if event["kind"] == "ingest_task" and event["to_state"] == "SUCCEEDED":
            fetched.setdefault(event["subject"], event["at"])
    for row in seen.ask(
        "select move.cursor_id::text as cursor, move.new_position as place, extract(epoch from move.at)::float8 as at,"
        " slice.id::text as slice, task.id::text as task"
        " from ferryman.ingest_cursor_event as move join ferryman.ingest_slice as slice on slice.cursor_id = move.cursor_id"
        " left join ferryman.ingest_task as task on task.slice_id = slice.id"
        " where move.kind = 'forward' and slice.upper > move.prev_position and slice.upper <= move.new_position"
    ):
        if fetched.get(row["task"], math.inf) > row["at"]:
            yield f"the cursor {row['cursor']} went to {row['place']}, past the slice {row['slice']}, before that was fetched"


def nobody_was_refused_for_good(seen: Evidence) -> Iterator[str]:
    """Producers met no error but that the database was away."""
    for line in seen.of("error"):
        yield f"{line['act']} {line['key']} was refused: {line['code']} {line['said']}"


def the_products_own_invariants_hold(seen: Evidence) -> Iterator[str]:
    """The product was asked for its own invariants at the end, and none is broken."""
    for line in seen.of("broken"):
        yield f"the invariant {line['name']} is broken: {line['rows']}"
    if not any(line["count"] for line in seen.of("audited")):
        yield "the product's own invariants were not asked"


def nobody_left_a_trace_of_a_crash(seen: Evidence) -> Iterator[str]:
    """What the processes said has no trace of an error that nobody had foreseen."""
    stopped = {line["name"] for line in seen.of("struck") if line.get("by") == ALONE}
    for who, said in seen.outputs.items():
        for trace in traces(said):
            if who not in stopped or not trace.startswith(OUT_OF_TIME):
                yield f"{who} said: {trace}"


def traces(said: str) -> Iterator[str]:
    """Give what each trace ended with, and what asyncio and the interpreter say of what was left lying."""
    lines = [line for line in said.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if line.startswith(TRACE):
            end = next((n for n in range(place + 1, len(lines)) if not lines[n][0].isspace()), place)
            chained = lines[end + 1 : end + 2] and lines[end + 1].startswith(CHAINED)
            if not chained and not lines[end].startswith(FORESEEN):
                yield lines[end]
        elif any(word in line for word in LEFT_LYING):
            yield line


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    batches.batches_are_whole,
    commands_are_complete,
    capabilities_keep_what_their_claim_said,
    windows_are_covered,
    no_cursor_passes_what_is_not_fetched,
    nobody_was_refused_for_good,
    the_products_own_invariants_hold,
    nobody_left_a_trace_of_a_crash,
)
