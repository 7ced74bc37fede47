"""Delete each guard of each SQL statement, one at a time; the suite must notice.

A guard is a condition of a statement: an `and`, `or`, `where`, `on`, `having`, `limit`, `order by` or `for update` line. For
each the statement is loaded without it, and the tests of that statement run until the first fails. A guard whose loss no
test notices survives: either a test is missing, or the guard changes nothing, which is then said in EQUIVALENT with the reason.

One PostgreSQL serves all runs. Nothing of the product is changed on disk: a plugin of pytest puts the bitten text in the
place of the file's when it is loaded.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from ferryman.app.embedded import Embedded

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "ferryman"

# Where the tests of a statement are. A statement that stands nowhere is bitten by the tests of its folder.
MOVES = ["tests/sql/test_matrix.py", "tests/sql/test_guards.py", "tests/sql/test_sweeps.py", "tests/sql/test_races.py"]
READS = ["tests/sql/test_reading.py"]
LOCKS = ["tests/sql/test_lock_order.py"]
WORDS = ["tests/tasks/test_words.py"]
STEPS = ["tests/sql/test_steps.py"]
RELAYS = [f"tests/sql/test_{name}.py" for name in ("relays", "deliveries", "relay_races", "set_back")]
FLOWS = [
    "tests/tasks/test_flows.py",
    "tests/tasks/test_queues.py",
    "tests/tasks/test_queues_declared.py",
    "tests/tasks/test_ways_in.py",
]
GATES = ["tests/sql/test_gates.py", "tests/sql/test_gates_terms.py", "tests/sql/test_agreements.py"]
SCHEDULES = ["tests/sql/test_schedules.py", "tests/sql/test_schedules_read.py"]
COMMANDS = ["tests/commands/test_guards.py", "tests/commands/test_results.py"]
LIVES = [*COMMANDS, "tests/commands/test_watch.py", "tests/commands/test_flow.py", "tests/property/test_commands.py"]
INGEST = [f"tests/ingest/test_{name}.py" for name in ("fences", "turning", "claims", "running", "cursors", "planning")]
BATCHES = [f"tests/batches/test_{name}.py" for name in ("guards", "life", "fork", "fork_sets", "watch", "races")]
ACCESS = ["tests/access/test_tokens.py"]
TESTS: dict[str, list[str]] = {
    "access/access_tokens": ACCESS,
    "access/access_sessions": ACCESS,
    "tasks/tasks/turn": [*MOVES, *LOCKS],
    "tasks/tasks/settle": [*MOVES, *LOCKS, "tests/tasks/test_callbacks.py"],
    "tasks/tasks/cancel": [*MOVES, *LOCKS, "tests/tasks/test_callbacks.py"],
    "tasks/tasks/claim": READS,
    "tasks/workers/get": READS,
    "tasks/tasks/callbacks": [*READS, "tests/tasks/test_callbacks.py"],
    "tasks/tasks/promote": [*MOVES, "tests/sql/test_schedules.py"],
    "tasks/tasks/renew": [*MOVES, *LOCKS],
    "tasks/tasks/reclaim": MOVES,
    "tasks/tasks/lapsed": MOVES,
    "tasks/tasks/expired": MOVES,
    "tasks/tasks/create": [
        "tests/tasks/test_birth.py",
        "tests/tasks/test_idempotency.py",
        "tests/tasks/test_watch.py",
        *FLOWS,
    ],
    "tasks/tasks/create_alike": ["tests/tasks/test_bulk.py", "tests/tasks/test_birth.py"],
    "tasks/tasks/create_one": ["tests/tasks/test_bulk.py", "tests/tasks/test_birth.py"],
    "tasks/tasks/existing": [
        "tests/tasks/test_idempotency.py",
        "tests/tasks/test_tenancy.py",
        "tests/sql/test_races.py",
    ],
    "tasks/tasks": [*READS, "tests/tasks/test_tenancy.py", "tests/tasks/test_birth.py"],
    "tasks/tasks/explain": ["tests/tasks/test_explain.py", "tests/tasks/test_explain_waits.py"],
    "tasks/retention": ["tests/tasks/test_leavings.py"],
    "tasks/retention/walk": ["tests/tasks/test_retention.py"],
    "tasks/retention/forget": ["tests/tasks/test_retention.py"],
    "tasks/schedules": SCHEDULES,
    "tasks/schedules/create": ["tests/tasks/test_schedules.py", "tests/tasks/test_schedules_asked.py"],
    "tasks/schedules/declare": ["tests/tasks/test_schedules_firing.py"],
    "tasks/schedules/due": ["tests/sql/test_schedules.py", "tests/tasks/test_schedules_firing.py"],
    "tasks/schedules/fire": ["tests/sql/test_schedules.py", "tests/tasks/test_schedules_firing.py"],
    "tasks/schedules/previous": ["tests/tasks/test_schedules_held.py"],
    "tasks/schedules/end": ["tests/sql/test_schedules.py", "tests/property/test_schedules.py"],
    "tasks/schedules/take": ["tests/sql/test_schedules.py", "tests/property/test_schedules.py"],
    "tasks/queues": [*GATES, *FLOWS],
    "tasks/queues/claim": GATES,
    "tasks/queues/lock": [*GATES, "tests/property/test_gates.py"],
    "tasks/tasks/standing": FLOWS,
    "tasks/tasks/postpone": FLOWS,
    "tasks/tasks/retry": FLOWS,
    "tasks/tasks/lanes": READS,
    "tasks/tasks/held": WORDS,
    "tasks/task_progress": [*READS, *WORDS],
    "tasks/task_logs": [*READS, *WORDS],
    "tasks/workers": READS,
    "tasks/task_steps": STEPS,
    "tasks/task_waits": [*STEPS, "tests/sql/test_matrix.py"],
    "tasks/task_signals": [*STEPS, "tests/tasks/test_waits.py"],
    "commands/async_tasks": COMMANDS,
    "commands/async_tasks/settle": LIVES,
    "commands/async_tasks/late": ["tests/commands/test_watch.py"],
    "commands/async_tasks/old": ["tests/commands/test_watch.py"],
    "commands/async_tasks/forget": ["tests/commands/test_watch.py"],
    "commands/async_tasks/lost": ["tests/commands/test_watch.py"],
    "commands/command_inbox": LIVES,
    "commands/command_inbox/receive": ["tests/commands/test_flow.py"],
    "commands/command_inbox/met": ["tests/commands/test_flow.py"],
    "commands/command_inbox/ended": ["tests/app/test_crowds.py"],
    "commands/command_inbox/list": ["tests/commands/test_lists.py"],
    "commands/command_inbox/list_live": ["tests/commands/test_lists.py"],
    "commands/command_inbox/list_failed": ["tests/commands/test_lists.py"],
    "commands/command_inbox/list_session": ["tests/commands/test_lists.py"],
    "commands/command_inbox/late": ["tests/commands/test_watch.py"],
    "commands/command_inbox/unknown": ["tests/commands/test_bad_input.py", "tests/commands/test_watch.py"],
    "commands/command_routes": ["tests/commands/test_watch.py"],
    "ingest/ingest_gate": ["tests/ingest/test_gate.py"],
    "agents/agent_inbox/open": ["tests/agents/test_pages.py"],
    "agents/execution_edges/of": ["tests/agents/test_pages.py"],
    "agents/budgets/of": ["tests/agents/test_pages.py"],
    "batches/pmo_batch_tasks/counts": ["tests/batches/test_pages.py"],
    "batches/pmo_batches/list": ["tests/batches/test_pages.py"],
    "batches/pmo_batches/met": ["tests/batches/test_fork_join.py"],
    "batches/pmo_batches/list_running": ["tests/batches/test_pages.py"],
    "ingest/ingest_source/list": ["tests/ingest/test_survey.py"],
    "ingest/ingest_plan/extent": ["tests/ingest/test_survey.py"],
    "ingest/ingest_slice/of": ["tests/ingest/test_survey.py"],
    "ingest/ingest_batch/pace": ["tests/ingest/test_survey.py"],
    "ingest/ingest_task": INGEST,
    "ingest/ingest_batch/turn": [
        "tests/ingest/test_turning.py",
        "tests/ingest/test_ahead.py",
        "tests/ingest/test_fences.py",
        "tests/ingest/test_cursors.py",
    ],
    "ingest/ingest_batch": INGEST,
    "ingest/ingest_slice": INGEST,
    "ingest/ingest_plan": INGEST,
    "ingest/ingest_source": INGEST,
    "ingest/ingest_cursor": INGEST,
    "ingest/ingest_cursor_event": INGEST,
    "ingest/ingest_schedule_instance": INGEST,
    "ingest/ingest_quarantine": INGEST,
    "ingest/ingest_run": INGEST,
    "kernel/events": [
        "tests/sql/test_events.py",
        "tests/sql/test_events_places.py",
        "tests/sql/test_events_partitions.py",
    ],
    "agents/retention": [
        "tests/agents/test_forgetting.py",
        "tests/agents/test_retention.py",
        "tests/batches/test_retention.py",
    ],
    "agents/agent_state_head/claim": [
        "tests/agents/test_claims.py",
        "tests/agents/test_guards.py",
        "tests/agents/test_fairness.py",
        "tests/agents/test_life.py",
        "tests/agents/test_round_trips.py",
    ],
    "agents/agent_inbox/met": ["tests/agents/test_repeats.py"],
    "agents/turn_waiting_tools/receive": [
        "tests/agents/test_results.py",
        "tests/agents/test_life.py",
        "tests/agents/test_watch.py",
        "tests/agents/test_round_trips.py",
    ],
    "agents/agent_inbox/stops": ["tests/agents/test_life.py", "tests/agents/test_watch.py"],
    "batches/retention": ["tests/batches/test_retention.py"],
    "ingest/retention": ["tests/ingest/test_retention.py"],
    "batches/pmo_batches": BATCHES,
    "batches/pmo_batch_tasks": BATCHES,
    "batches/invariants": ["tests/batches/test_watch.py"],
    "kernel/watchdog": ["tests/watchdog"],
    "app/figures": ["tests/app/test_figures.py"],
    "app/history": ["tests/app/test_figures.py"],
    "app/watching": ["tests/app/test_figures.py"],
    "tasks/tasks/list_live": ["tests/app/test_figures.py"],
    "tasks/task_steps/read": ["tests/app/test_figures.py"],
    "relays/relays": RELAYS,
    "relays/webhooks": RELAYS,
    "relays/webhook_deliveries": RELAYS,
    "relays/invariants": ["tests/sql/test_relays.py"],
    "tasks/invariants": ["tests/sql/test_invariants.py", "tests/sql/test_schedules_read.py"],
    "kernel/invariants": ["tests/sql/test_invariants.py"],
    "kernel/indexes": ["tests/migration/test_indexes.py"],
}

# What may be deleted without anybody noticing, and why. Keys are the statement and the guard as it is written.
_SORTED = "read through an index that is in this order; said for the day when it is not"
_LOOKUP = "only keeps the planner at one lookup a row (tests/sql/test_plans.py)"
_ORDERED = "names the index (tests/sql/test_relay_plans.py)"
_NOBODY = "waits for nobody, so no order of locks can hurt"
_LOCKED = "said again where the row is written; it was locked in this state a moment before"
_HELD = "due.sql or take.sql holds the row in the same transaction; said for whoever calls it alone"
_IN_ORDER = "a page of the walk is in this order already; said for the day when it is not"
_OF_ONE_TENANT = "the id of a turn belongs to one tenant; said for the index"
_NARROWS = "only narrows what is looked through; the page says the state again"
EQUIVALENT: dict[tuple[str, str], str] = {
    ("tasks/tasks/promote", "where schedule.next_run_at is not null"): "nulls come last, and `least` passes over them",
    (
        "access/access_sessions/begin",
        "for update of session skip locked",
    ): "only spares waiting for another who signs in",
    (
        "access/access_tokens/used",
        "and coalesce(token.last_used_at < ferryman.clock() - interval '5 minutes', true)",
    ): "use.sql says it before; this only spares the second of two writers a write",
    ("agents/retention/forget", "order by message.tenant, message.id"): _NOBODY,
    ("batches/retention/forget", "order by batch.id"): _NOBODY,
    ("batches/retention/walk", "order by page.id"): _IN_ORDER,
    ("ingest/retention/walk", "order by page.id"): _IN_ORDER,
    ("agents/retention/walk", "order by old.stretch, old.id"): _IN_ORDER,
    ("agents/retention/walk", "order by message.id"): _SORTED,
    ("agents/retention/walk", "limit :span"): "said twice: for each stretch, and for the page",
    ("agents/retention/walk", "order by part.stretch, part.id"): _SORTED,
    ("agents/retention/walk", "where exists (select from old)"): "only spares a look for nobody",
    ("agents/retention/walk", "limit 1"): "a key names one row; said so that it is looked up by it",
    (
        "batches/retention/forget",
        "and batch.finished_at is not null",
    ): "a parent is told of an end, not before (closed_is_told)",
    ("ingest/retention/forget", "order by plan.id"): _NOBODY,
    (
        "ingest/retention/forget",
        "and task.finished_at is not null",
    ): "said of all tasks of the plan before, and what has ended stays so; said where it is deleted, too",
    ("ingest/retention/walk", "order by each.id"): _SORTED,
    ("agents/retention/forget", "and waited.tenant = turn.tenant"): _OF_ONE_TENANT,
    ("agents/retention/forget", "where step.tenant = turn.tenant"): _OF_ONE_TENANT,
    ("agents/retention/forget", "where edge.tenant = turn.tenant"): _OF_ONE_TENANT,
    ("agents/retention/forget", "where reservation.tenant = turn.tenant"): _OF_ONE_TENANT,
    ("agents/retention/forget", "where head.tenant = turn.tenant"): "a box belongs to one tenant; said for the index",
    ("agents/retention/forget", "and head.status = 'idle'"): "a turn that is active is another turn of its agent",
    ("agents/turn_waiting_tools/receive", "limit (select 1000000)"): _LOOKUP,
    (
        "agents/turn_waiting_tools/receive",
        "order by fresh.tenant, fresh.tool_call_id, fresh.id",
    ): "stored in this order a moment before; said for the day when it is not",
    (
        "agents/turn_waiting_tools/receive",
        "and head.status = 'suspended'",
    ): "the epoch says it too: it grows when a turn goes on",
    ("agents/agent_inbox/met", "limit (select 1000000)"): _LOOKUP,
    ("agents/agent_state_head/claim", "order by head.tenant"): _SORTED,
    (
        "agents/agent_state_head/claim",
        "where beyond.nth < :room",
    ): "only spares looks; the room cuts off what is too much",
    (
        "agents/agent_state_head/claim",
        "where up_to.nth < :room",
    ): "only spares looks; the room cuts off what is too much",
    ("agents/agent_state_head/claim", "order by round.lap, round.nth"): "numbered in this order already",
    (
        "agents/agent_state_head/claim",
        "and head.ready_at > '-infinity'",
    ): "names the index (tests/agents/test_plans.py)",
    ("agents/agent_state_head/claim", "order by head.ready_at"): _SORTED,
    (
        "agents/agent_state_head/claim",
        "and message.status = 'pending'",
    ): "a statement writes a row once, here by chance the right way; said so that it is not by chance",
    (
        "agents/agent_state_head/claim",
        "and picked.status = 'running'",
    ): "a statement writes a row once, here by chance the right way; said so that it is not by chance",
    ("agents/agent_state_head/claim", "order by waited.created_at, waited.tool_call_id) as results"): _SORTED,
    ("agents/agent_inbox/stops", "where message.archived_at is null"): "names the index of what is not archived",
    ("agents/agent_inbox/open", "order by message.created_at, message.id"): _SORTED,
    ("batches/pmo_batch_tasks/counts", "limit (select 1000000)"): _LOOKUP,
    ("ingest/ingest_slice/of", "order by slice.slice_no"): _SORTED,
    (
        "ingest/ingest_task/settle",
        "and task.status in ('DISPATCHED', 'EXECUTING')",
    ): "only these have an owner, by a CHECK; said for people",
    (
        "ingest/ingest_batch/turn",
        "and source.failures > 0",
    ): "only spares each page a write of the row that all runs of a source share",
    ("tasks/tasks/list_lost", "and task.state in ('failed', 'cancelled')"): "names the index (tests/sql/test_plans.py)",
    ("tasks/tasks/list_live", "where running.leased_until is not null"): _NARROWS,
    ("tasks/tasks/list_live", "and :state::text = 'running'"): _NARROWS,
    ("tasks/tasks/list_live", "where waiting.finished_at is null"): _NARROWS,
    ("tasks/tasks/list_live", "and waiting.leased_until is null"): _NARROWS,
    ("tasks/tasks/list_live", "and :state::text <> 'running'"): _NARROWS,
    ("tasks/tasks/list_live", "limit :most"): "only spares the look at what is too much already",
    ("relays/relays/standings", "order by event.id"): _SORTED,
    ("relays/webhooks/get", "limit 1"): "the first row is the answer; the rest would only be sent in vain",
    ("relays/webhooks/hold", "order by delivery.webhook_id, delivery.next_at"): _ORDERED,
    ("relays/webhooks/hold", "order by delivery.webhook_id, delivery.leased_until"): _ORDERED,
    ("relays/webhook_deliveries/claim", "order by sent.webhook_id, sent.leased_until"): _ORDERED,
    ("relays/webhooks/hold", "limit :each"): "only spares the count of what is too much already",
    ("relays/webhook_deliveries/claim", "limit :each"): "only spares the count of what is too much already",
    ("relays/webhooks/hold", "order by random()"): "chance keeps no promise of a single look",
    ("relays/webhooks/lock", "and webhook.tenant = :tenant"): "disable.sql says it again; this only spares a lock",
    (
        "relays/webhooks/disable",
        "for update",
    ): "lock.sql holds the row in the same transaction; said for who calls it alone",
    ("relays/webhooks/disable", "and delivery.finished_at is null"): "names the index of what is owed",
    ("relays/webhooks/disable", "and delivery.state = 'pending'"): "said twice, for the index and for people",
    ("relays/webhook_deliveries/claim", "order by delivery.next_at, delivery.id"): "numbered in this order already",
    ("relays/webhook_deliveries/depth", "limit 1000000"): "a bound for millions of rows, which no test plants",
    (
        "relays/webhook_deliveries/past",
        "where delivery.finished_at < ferryman.clock() - least(:kept::interval, :dead_kept::interval)",
    ): "names the index of what has ended",
    ("relays/webhook_deliveries/past", "order by delivery.finished_at"): _SORTED,
    ("relays/webhook_deliveries/expired", "order by delivery.ends_at"): _SORTED,
    ("relays/webhook_deliveries/reclaim", "where delivery.leased_until is not null"): "names the index of leases",
    (
        "relays/webhook_deliveries/reclaim",
        "and delivery.state = 'pending'",
    ): "only what is pending is leased, by a CHECK",
    (
        "relays/webhook_deliveries/settle",
        "order by delivery.id",
    ): "a delivery has one holder, so no two sets share a row",
    (
        "relays/webhook_deliveries/settle",
        "and word.to_state is not null",
    ): "a statement writes a row once, here by chance the right way; said so that it is not by chance",
    ("tasks/schedules/get", "limit 1"): "the first row is the answer; the rest would only be sent in vain",
    ("tasks/schedules/fire", "order by schedule.id"): _HELD,
    ("tasks/schedules/fire", "for update of schedule"): _HELD,
    ("tasks/schedules/fire", "and held.overlap <> 'allow'"): "only spares a look whose answer nobody asks for",
    (
        "tasks/schedules/fire",
        "and (:by_hand::boolean or tally.next is not null)",
    ): "a statement writes a row once, here by chance the right time; said so that it is not by chance",
    ("tasks/queues/claim", "order by ready.rank, ready.id"): _SORTED,
    ("tasks/queues/claim", "where lane.room > 0"): "saves the look at keys that could not be taken anyway",
    (
        "tasks/queues/claim",
        "where key.limit_key is not null",
    ): "behind no key there is none; said so that the look ends",
    ("tasks/tasks/existing", "limit (select 1000000)"): _LOOKUP,
    ("tasks/tasks/held", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_progress/report", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_progress/report", "order by word.id"): "a task has one holder, so no two sets share a row",
    (
        "tasks/task_logs/append",
        "order by word.id, word.nth",
    ): "the order of locks that a foreign key takes; a deadlock would only cost a second try",
    ("tasks/task_logs/read", "order by log.id"): _SORTED,
    ("kernel/watchdog/overdue", "order by domain, rule"): "for people who read the alarm; nothing depends on it",
    ("kernel/events/page", "order by event.id"): _SORTED,
    ("tasks/tasks/renew", "limit (select 1000000)"): _LOOKUP,
    ("tasks/tasks/renew", "order by task.id"): _NOBODY,
    (
        "tasks/tasks/queues",
        "order by task.queue, task.state",
    ): "grouping sorts already; said for the day when it does not",
    ("tasks/tasks/depth", "limit 1000000"): "a bound for millions of rows, which no test plants",
    ("tasks/tasks/queues", "order by live.queue, live.state"): "for people who read it; nothing depends on it",
    ("tasks/tasks/reasons", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/remember", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/mine", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/wait", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/bear", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/answer", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_waits/park", "limit (select 1000000)"): _LOOKUP,
    ("tasks/task_steps/remember", "order by task.id"): _NOBODY,
    ("tasks/task_steps/wait", "order by task.id"): _NOBODY,
    ("tasks/task_steps/bear", "order by task.id"): _NOBODY,
    ("tasks/task_waits/park", "order by task.id"): _NOBODY,
    ("tasks/task_waits/wake", "order by task.id"): _NOBODY,
    ("tasks/task_steps/children", "order by step.child"): "the cancelling statement sorts them too",
    ("tasks/tasks/get", "limit 1"): "an id and a task_id of one tenant name one row each",
    ("tasks/tasks/expired", "order by task.ends_at"): _SORTED,
    ("tasks/tasks/promote", "order by task.wake_at"): _SORTED,
    ("tasks/tasks/promote", "and task.state = 'pending'"): _LOCKED,
    ("tasks/tasks/promote", "and task.state = 'ready'"): _LOCKED,
    ("tasks/retention/walk", "order by task.id"): _SORTED,
    ("tasks/retention/walk", "limit :span"): "said twice: for each stretch, and for the page",
    ("tasks/retention/walk", "order by part.stretch, part.id"): _SORTED,
    ("tasks/retention/walk", "order by page.stretch, page.id"): _SORTED,
    ("tasks/retention/schedules", "order by each.id"): _SORTED,
    ("tasks/retention/schedules", "order by page.id"): _SORTED,
    ("tasks/retention/waits", "order by each.task"): _SORTED,
    ("tasks/retention/waits", "order by page.id"): _SORTED,
    ("tasks/retention/signals", "order by each.task"): _SORTED,
    ("tasks/retention/signals", "order by page.task"): _SORTED,
    ("tasks/task_waits/stuck", "order by each.task"): _SORTED,
    ("tasks/task_waits/stuck", "order by page.id"): _SORTED,
    ("tasks/retention/forget_schedules", "order by schedule.id"): _NOBODY,
    ("tasks/retention/forget_signals", "order by signal.id"): _NOBODY,
    ("tasks/retention/waits", "limit 1"): "an id names one row; said so that it is looked up by its key",
    ("tasks/retention/signals", "limit 1"): "an id names one row; said so that it is looked up by its key",
    ("tasks/task_waits/stuck", "limit 1"): "an id names one row; said so that it is looked up by its key",
    ("tasks/tasks/named", "limit 1"): "a name of a tenant names one row; said so that it is looked up by its key",
    ("tasks/tasks/reclaim", "where mine.leased_until is not null"): "names the index of leases (test_plans.py)",
    ("tasks/tasks/reclaim", "and mine.lease_owner = :owner"): "said twice: what is found, and what is locked",
    ("tasks/tasks/reclaim", "and task.lease_owner = :owner"): "said twice: what is found, and what is locked",
    ("tasks/tasks/reclaim", "order by task.id"): _NOBODY,
}

_GUARD = re.compile(r"^\s*(?:and|or|where|on|having|limit|order by|for update|on conflict)\b", re.IGNORECASE)
_OPENING = re.compile(r"^(\s*)(where|on|having)\b\s*(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Bite:
    """One statement without one of its guards."""

    statement: str
    line: int
    guard: str
    text: str

    @property
    def excuse(self) -> str | None:
        """Why nobody can notice, if that is known."""
        return EQUIVALENT.get((self.statement, self.guard))

    def tests(self) -> list[str]:
        """The tests that must notice."""
        folder = self.statement.rpartition("/")[0]
        return TESTS.get(self.statement) or TESTS[folder]


def statements(only: str) -> Iterator[tuple[str, str]]:
    """Give the statements that have tests of their own: name and text."""
    for file in sorted(SOURCES.glob("*/sql/*/*.sql")):
        package, _, rest = file.relative_to(SOURCES).with_suffix("").as_posix().partition("/sql/")
        name = f"{package}/{rest}"
        if only in name and (name in TESTS or name.rpartition("/")[0] in TESTS):
            yield name, file.read_text(encoding="utf-8")


def bites(name: str, text: str) -> Iterator[Bite]:
    """Delete each guard in turn; a condition that others hang on is replaced by one that is always true."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if not _GUARD.match(line):
            continue
        end = _end(lines, place)
        opening = _OPENING.match(line)
        # What follows the condition on its last line, beyond the brackets it opened, belongs to the statement.
        tail = _tail("\n".join(lines[place : end + 1]))
        kept = [f"{opening[1]}{opening[2]} true{tail}"] if opening else ([tail.strip()] if tail.strip() else [])
        guard = " ".join(part.strip() for part in lines[place : end + 1])
        yield Bite(name, place + 1, guard, "\n".join([*lines[:place], *kept, *lines[end + 1 :]]))


def _end(lines: Sequence[str], place: int) -> int:
    """Return the last line of a condition: brackets it opens are closed."""
    depth = 0
    for at in range(place, len(lines)):
        depth += _depth(lines[at])
        if depth <= 0:
            return at
    return len(lines) - 1


def _depth(text: str) -> int:
    bare = re.sub(r"'[^']*'|--.*", "", text)
    return bare.count("(") - bare.count(")")


def _tail(text: str) -> str:
    """Return what closes brackets that the condition did not open."""
    depth = 0
    for at, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0:
            return text[at:]
    return "," if text.rstrip().endswith(",") else ""


def survives(bite: Bite, url: str) -> bool:
    """Run the tests of a bitten statement; true if none of them fails."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as bitten:
        bitten.write(bite.text)
        bitten.flush()
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tools.bitten", "-p", "no:cacheprovider", *bite.tests()],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
                "FERRYMAN_DATABASE_URL": url,
                "BITTEN_STATEMENT": bite.statement,
                "BITTEN_TEXT": bitten.name,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode not in (0, 1, 2):
        raise RuntimeError(f"{bite.statement}:{bite.line}: pytest could not run:\n{run.stdout}{run.stderr}")
    return run.returncode == 0


def hunt(hunted: Sequence[Bite]) -> Iterator[Bite]:
    """Try each bite, and give those that nobody notices."""
    # A server for each hand: readers of the log wait for every open transaction of their server.
    hands = os.cpu_count() or 2
    servers: SimpleQueue[str] = SimpleQueue()

    def tried(bite: Bite) -> bool:
        url = servers.get()
        try:
            return survives(bite, url)
        finally:
            servers.put(url)

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for hand in range(hands):
            server = stack.enter_context(Embedded(directory / f"pg{hand}", durable=False, keep=False))
            servers.put(server.url)
        pool = stack.enter_context(ThreadPoolExecutor(hands))
        for bite, survived in zip(hunted, pool.map(tried, hunted), strict=True):
            if survived:
                print(f"SURVIVES  {bite.statement}:{bite.line}: {bite.guard}", flush=True)
                yield bite


def main(arguments: Sequence[str] | None = None) -> int:
    """Bite, and name what nobody noticed."""
    parser = argparse.ArgumentParser(description="Delete each guard of each SQL statement; the suite must notice.")
    parser.add_argument("--only", default="", help="statements whose name contains this, such as tasks/tasks/turn")
    parser.add_argument("--list", action="store_true", help="show the guards and bite nothing")
    asked = parser.parse_args(arguments)
    planned = [bite for name, text in statements(asked.only) for bite in bites(name, text)]
    if asked.list:
        for bite in planned:
            print(f"{bite.statement}:{bite.line}: {bite.guard}" + (f"  ({bite.excuse})" if bite.excuse else ""))
        return 0
    began = time.monotonic()
    hunted = [bite for bite in planned if bite.excuse is None]
    survivors = list(hunt(hunted))
    print(
        f"{len(hunted) - len(survivors)} of {len(hunted)} guards are watched, {len(planned) - len(hunted)} change nothing,"
        f" in {time.monotonic() - began:.0f} s."
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
