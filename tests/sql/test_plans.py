"""Hot statements find their rows by key or by the one index made for them, whatever the statistics say.

PostgreSQL keeps the plan of a prepared statement. Made while the table was empty, it may scan the table when it is full; made
without statistics, it may settle through a partial index over all its dead entries. So the plans are read after the fact, on
a table of 50,000 rows, for connections like our own (a line) and for one without our settings (behind a pooler that refuses
them, or a caller's).
"""

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg
import pytest

from ferryman.app import figures, history
from ferryman.kernel import events
from ferryman.kernel.db import Row, Statement
from ferryman.kernel.pool import LINE_SETTINGS
from ferryman.tasks import store
from ferryman.tasks.model import NewTask
from ferryman.tasks.store import births, flows, gates, moves, reads, retention, schedules, steps, words
from ferryman.testing import Cluster

ROWS = 50_000
IDS = [uuid4() for _ in range(100)]
TERM = timedelta(seconds=30)
MOMENT = "2026-11-16 01:00:00+00"
WORDS = json.dumps(
    [{"id": str(id), "epoch": 1, "owner": str(id), "state": "failed", "used": 0, "delay": 0} for id in IDS]
)
NEW = [
    NewTask(id, "acme", "default", "mail", "{}", 0, 1, 1, None, None, None, "t", "k", None, None, None, None, None)
    for id in IDS
]

FILL = """
insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms, max_retries, rank,
    wake_at, leased_until, lease_owner, finished_at, started_at, epoch, tenant, task_id, idempotency_key)
select gen_random_uuid(), state, 'mail', '{}', now(), now() + (n % 100) * interval '1 day' - interval '1 hour', now(), now(),
    300000, 3, case state when 'ready' then now() end, case state when 'pending' then now() + n * interval '1 s' end,
    case state when 'running' then now() + n * interval '1 s' - interval '1 hour' end,
    case state when 'running' then gen_random_uuid() end, case state when 'succeeded' then now() end, now(), 1,
    'tenant' || n % 3, 'task' || n, 'key' || n
from generate_series(1, $1::integer) as n,
    lateral (select (array['ready', 'pending', 'running', 'succeeded', 'succeeded'])[n % 5 + 1] as state) as chosen
"""
# A queue with limits, behind which a thousand keys wait and run.
KEYED = """
insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms, max_retries, rank,
    leased_until, lease_owner, started_at, epoch, tenant, queue, limit_key, slot)
select gen_random_uuid(), state, 'mail', '{}', now(), now() + interval '1 day', now(), now(), 300000, 3,
    case state when 'ready' then now() end, case state when 'running' then now() + interval '1 hour' end,
    case state when 'running' then gen_random_uuid() end, now(), 1, 'tenant' || n % 3, 'keyed', 'key' || n % 1000, true
from generate_series(1, $1::integer) as n, lateral (select (array['ready', 'ready', 'running'])[n % 3 + 1] as state) as chosen
"""
AGREED = "insert into ferryman.queues (name, concurrency) values ('default', 100), ('keyed', 5000)"
LOG = """
insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)
select now(), gen_random_uuid(), 1, 'acme', 'task', 'pending', 'ready' from generate_series(1, $1::integer)
"""
WEAR = "update ferryman.tasks set priority = 1, updated_at = now()"


class Said(Exception):
    """What would have gone over the wire."""


class Ear:
    """A Tx that only listens."""

    schema = "ferryman"

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        raise Said(*args)


def said(statement: Statement, call: Coroutine[Any, Any, Any]) -> dict[str, Any]:
    """Return the parameters that a function of the store makes of its arguments."""
    try:
        call.send(None)
    except Said as heard:
        return dict(zip(statement.names, heard.args, strict=True))
    raise AssertionError("nothing was said")


class Hot(NamedTuple):
    """A hot statement, what it is called with, and the indexes it may use."""

    statement: Statement
    values: dict[str, Any]
    indexes: set[str]
    anywhere: bool = True  # also where our settings do not hold
    walks: frozenset[str] = frozenset()  # indexes that it may read without a condition: from one end, or for a count


BY_KEY = {"tasks_pkey"}
# A sweep reads what has come due, not all that waits for its time.
TIMES = {"tasks_waking", "tasks_leased", "tasks_ending", "schedules_due"}
OF_THE_LOG = {"events_default_subject_id_idx", "events_day_subject_id_idx"}
BY_NUMBER = {"events_default_id_idx", "events_day_id_idx"}
LIVE = frozenset({"tasks_leased", "tasks_ending"})
HOT = [
    Hot(
        moves._TURN,
        {
            "won_ids": IDS, "won_epochs": [1] * 100, "won_results": ["1"] * 100, "lost": WORDS, "sent": 200, "owner": IDS[0],
            "queues": ["default"] * 3, "tenants": ["tenant0", "tenant1", "tenant2"], "rooms": [30] * 3, "behind": IDS[:3],
            "names": ["mail"],
            "kinds": [], "lease": TERM, "margin": TERM,
        },
        {"tasks_pkey", "tasks_ready", "queues_pkey"},
    ),
    Hot(births._CREATE, said(births._CREATE, store.create(Ear(), NEW, ends_after=TERM)), set()),
    Hot(
        births._CREATE_ALIKE,
        said(births._CREATE_ALIKE, store.create_alike(Ear(), NEW[0], IDS, ["1"] * 100, ends_after=TERM)),
        set(),
    ),
    Hot(
        births._CREATE_ONE,
        said(births._CREATE_ONE, store.create_one(Ear(), NEW[0], ends_after=TERM)),
        set(),
    ),
    Hot(
        births._EXISTING,
        {
            "tenants": ["acme"] * 100, "ids": IDS, "task_ids": ["t"] * 100, "keys": ["k"] * 100, "scopes": [None] * 100,
        },
        {"tasks_pkey", "tasks_task_id", "tasks_idempotency", "task_progress_pkey"},
    ),
    Hot(
        reads._GET,
        {"tenant": "acme", "id": IDS[0], "task_id": "t"},
        {"tasks_pkey", "tasks_task_id", "task_progress_pkey"},
    ),
    Hot(reads._NAMED, {"task_ids": ["t"] * 100, "tenant": "acme"}, {"tasks_task_id"}),
    Hot(moves._RENEW, {"ids": IDS, "epochs": [1] * 100, "owner": IDS[0], "lease": TERM, "margin": TERM}, BY_KEY),
    Hot(moves._SETTLE, {"outcomes": WORDS, "lapsed": False}, BY_KEY),
    Hot(
        moves._CANCEL,
        {"ids": IDS, "tenant": "acme", "expired": False, "code": None, "reason": None},
        BY_KEY | {"task_steps_pkey"},
    ),
    Hot(moves._CALLBACKS, {"ids": IDS, "tenant": "acme"}, BY_KEY),
    Hot(reads._FINISHED, {"ids": IDS, "tenant": "acme"}, BY_KEY),
    Hot(words._PROGRESS, {"ids": IDS, "tenant": "acme"}, BY_KEY | {"task_progress_pkey"}),
    Hot(words._REPORT, {"ids": IDS, "epochs": [1] * 100, "percents": [1] * 100, "messages": ["m"] * 100}, BY_KEY),
    Hot(
        words._APPEND_LOG,
        {"ids": IDS, "epochs": [1] * 100, "attempts": [1] * 100, "levels": ["info"] * 100, "messages": ["m"] * 100},
        BY_KEY,
    ),
    Hot(
        steps._REMEMBER,
        {
            "tasks": IDS, "epochs": [1] * 100, "kinds": ["step"] * 100, "names": ["a"] * 100, "nths": [1] * 100,
            "positions": [1] * 100, "states": ["done"] * 100, "results": ["1"] * 100, "owner": IDS[0],
        },
        BY_KEY,
    ),
    Hot(
        steps._BEAR,
        {
            "tasks": IDS, "epochs": [1] * 100, "names": ["a"] * 100, "nths": [1] * 100, "positions": [1] * 100,
            "children": IDS, "owner": IDS[0],
        },
        BY_KEY,
    ),
    Hot(steps._TRY_HOLD, {"ids": IDS}, BY_KEY),
    Hot(steps._MINE, {"ids": IDS, "epochs": [1] * 100, "owner": IDS[0]}, BY_KEY),
    Hot(steps._LOAD, {"ids": IDS}, {"task_steps_pkey"}),
    Hot(steps._CHILDREN, {"ids": IDS}, {"task_steps_pkey"}),
    Hot(
        steps._ANSWER,
        {"children": IDS, "states": ["done"] * 100, "results": ["1"] * 100},
        BY_KEY | {"task_steps_children", "task_waits_pkey"},
        anywhere=False,
    ),
    Hot(
        steps._PARK,
        {"parks": json.dumps([
            {"id": str(id), "epoch": 1, "owner": str(id), "open": None, "children": [], "names": []} for id in IDS])},
        BY_KEY,
    ),
    Hot(
        moves._LANES,
        {"queues": ["default", "slow"], "afters": ["", ""], "limit": 1000},
        {"tasks_ready", "tasks_keyed", "queues_pkey", "paused_names_pkey"},
    ),
    Hot(gates._LOCK, {"queues": ["default", "keyed"]}, {"queues_pkey"}),
    Hot(
        gates._CLAIM,
        {
            "queues": ["default", "keyed", "keyed"], "tenants": ["tenant0", "tenant1", "tenant2"], "rooms": [100] * 3,
            "afters": ["", "", "key500"], "locked": ["default", "keyed"], "room": 100, "keys": 50, "owner": IDS[0],
            "names": ["mail"], "kinds": [], "lease": TERM, "margin": TERM,
        },
        {"tasks_pkey", "tasks_ready", "tasks_keyed", "tasks_slots", "queues_pkey"},
    ),
    Hot(
        flows._STANDING,
        {"tenants": ["acme"] * 100, "singletons": ["s"] * 100, "debounces": ["d"] * 100},
        {"tasks_pkey", "tasks_singleton", "tasks_debounce"},
    ),
    Hot(
        flows._LINE,
        {"queues": ["default", "keyed"], "tenants": ["tenant0", "tenant1"], "bounds": [100, 100]},
        {"tasks_ready", "tasks_keyed", "tasks_slots"},
    ),
    Hot(flows._OLDEST, {"queue": "keyed", "tenant": "tenant0", "limit": 10}, {"tasks_ready", "tasks_keyed", "tasks_slots"}),
    Hot(flows._NEWEST, {"queue": "keyed", "tenant": "tenant0"}, {"tasks_ready", "tasks_keyed"}),
    Hot(moves._LAPSED, {"limit": 500, "within": None, "kinds": [], "ahead": timedelta(seconds=1)}, {"tasks_leased"}),
    Hot(moves._SHORTEN, {"limit": 500, "lease": TERM}, {"tasks_pkey", "tasks_leased"}),
    Hot(moves._EXPIRED, {"limit": 500, "kinds": []}, {"tasks_ending"}),
    Hot(
        moves._PROMOTE,
        {"limit": 1000, "aside": IDS},
        {"tasks_pkey", "tasks_waking", "schedules_due"},
        anywhere=False,
        walks=frozenset({"schedules_due"}),
    ),
    Hot(schedules._DUE, {"aside": IDS, "limit": 100}, {"schedules_due"}, anywhere=False),
    Hot(
        schedules._FIRE,
        {
            "ids": IDS, "was": [MOMENT] * 100, "nexts": [MOMENT] * 100, "missed": [0] * 100, "skipped": [0] * 100,
            "reasons": [None] * 100, "tasks": IDS, "schedules": IDS, "times": [MOMENT] * 100, "ends_after": TERM,
            "by_hand": False,
        },
        {"schedules_pkey", "tasks_firing_live"},
        anywhere=False,
    ),
    Hot(schedules._LIVE, {"ids": IDS}, {"tasks_firing_live"}),
    Hot(schedules._PREVIOUS, {"ids": IDS}, {"tasks_firing_live", "tasks_pkey"}, anywhere=False),
    Hot(moves._RECLAIM, {"owner": IDS[0], "held": IDS}, {"tasks_pkey", "tasks_leased"}, anywhere=False, walks=LIVE),
    Hot(reads._DEPTH, {"most": 1_000_000}, {"tasks_leased", "tasks_ending"}, anywhere=False, walks=LIVE),
    Hot(reads._QUEUES, {}, {"tasks_leased", "tasks_ending"}, anywhere=False, walks=LIVE),
    Hot(reads._REASONS, {"ids": IDS, "tenant": "acme"}, OF_THE_LOG, anywhere=False),
    Hot(
        retention._WALK,
        {"limit": 500, "kept": TERM, "failed_kept": TERM, "span": 5000, "pace": TERM, "rest": TERM},
        BY_KEY | {"retention_pkey"},
        anywhere=False,
    ),
    Hot(retention._FORGET, {"ids": IDS}, BY_KEY),
    Hot(
        steps._STUCK,
        {"limit": 500, "span": 5000, "pace": TERM},
        BY_KEY | {"retention_pkey", "task_waits_pkey", "task_steps_children", "task_signals_task"},
        anywhere=False,
    ),
    Hot(
        retention._SCHEDULES,
        {"limit": 500, "kept": TERM, "span": 5000, "rest": TERM},
        {"retention_pkey", "schedules_pkey"},
        anywhere=False,
    ),
    Hot(retention._FORGET_SCHEDULES, {"ids": IDS}, {"schedules_pkey"}, anywhere=False),
    Hot(
        retention._SIGNALS,
        {"limit": 500, "span": 5000, "rest": TERM},
        BY_KEY | {"retention_pkey", "task_signals_task"},
        anywhere=False,
    ),
    Hot(retention._FORGET_SIGNALS, {"ids": list(range(100))}, {"task_signals_pkey"}, anywhere=False),
    Hot(
        retention._WAITS,
        {"limit": 500, "span": 5000, "rest": TERM},
        BY_KEY | {"retention_pkey", "task_waits_pkey"},
        anywhere=False,
    ),
    Hot(retention._FORGET_WAITS, {"ids": IDS, "epochs": [1] * 100}, {"task_waits_pkey"}, anywhere=False),
    Hot(events.OF, {"subject": IDS[0], "tenant": None}, OF_THE_LOG, anywhere=False),
    Hot(
        reads._LIST_LIVE,
        {"tenant": "tenant1", "state": "running", "queue": None, "name": None, "before": None, "limit": 50, "most": 10_000},
        BY_KEY | LIVE | {"task_progress_pkey"},
        anywhere=False,
        walks=LIVE,
    ),
    Hot(
        reads._LIST_LOST,
        {"tenant": "tenant1", "state": "failed", "queue": None, "name": None, "before": None, "limit": 50},
        {"tasks_lost", "task_progress_pkey"},
        anywhere=False,
    ),
    Hot(steps._READ, {"task": IDS[0], "tenant": "acme", "limit": 1000}, BY_KEY | {"task_steps_pkey"}, anywhere=False),
    Hot(figures._LIVE, {}, set(LIVE), anywhere=False, walks=LIVE),
    Hot(figures._MOVED, {"after": 49_000, "upto": 50_000}, BY_NUMBER, anywhere=False),
    Hot(
        history._PAGE,
        {"before": 2**62, "tenant": "acme", "kind": None, "codes": None, "limit": 50, "reach": 20_000},
        BY_NUMBER,
        anywhere=False,
    ),
]  # fmt: skip

CONNECTIONS = {"line": LINE_SETTINGS | {"idle_in_transaction_session_timeout": "0"}, "plain": {"jit": "off"}}
NEVER_ANALYSED = ["kept since empty", "never analysed", "dead rows", "analysed"]
ANALYSED_EMPTY = ["kept since analysed empty", "analysed empty"]
# One row each, or as many as there are processes, domains or queues.
SMALL = {"clock_shift", "workers", "watchdog", "task_progress", "retention", "queues", "paused_names"}

Plans = dict[tuple[str, str, str], list[dict[str, Any]]]


async def gather(cluster: Cluster) -> Plans:
    found: Plans = {}
    for whens in (NEVER_ANALYSED, ANALYSED_EMPTY):
        async with cluster.database() as url:
            admin = await asyncpg.connect(url)
            await admin.execute("alter table ferryman.tasks set (autovacuum_enabled = off)")
            if whens is ANALYSED_EMPTY:
                await admin.execute("analyze ferryman.tasks")
            await live(url, admin, found, whens)
            await admin.close()
    return found


async def live(url: str, admin: Any, found: Plans, whens: list[str]) -> None:
    early = {name: await asyncpg.connect(url, server_settings=settings) for name, settings in CONNECTIONS.items()}
    for name, connection in early.items():
        await read(connection, found, "empty", name)
    await admin.execute("set session_replication_role = replica")  # which writes past the guard of births
    await admin.execute(FILL, ROWS)
    await admin.execute(KEYED, ROWS)
    await admin.execute(AGREED)
    await admin.execute(LOG, ROWS)
    for name, connection in early.items():
        await read(connection, found, whens[0], name)
        await connection.close()
    for when in whens[1:]:
        if when == "dead rows":
            await admin.execute(WEAR)
        if when == "analysed":
            await admin.execute("analyze ferryman.tasks")
        for name, settings in CONNECTIONS.items():
            late = await asyncpg.connect(url, server_settings=settings)
            await read(late, found, when, name)
            await late.close()


async def read(connection: Any, found: Plans, when: str, name: str) -> None:
    """Prepare what is not prepared yet, use it often enough for PostgreSQL to keep its plan, and read the plan."""
    for hot in HOT:
        prepared = hot.statement.name.replace("/", "_")
        if not await connection.fetchval(
            "select exists (select from pg_prepared_statements where name = $1)", prepared
        ):
            types = ", ".join("unknown" for _ in hot.statement.names)
            await connection.execute(f"prepare {prepared} {f'({types})' if types else ''} as {hot.statement.sql()}")
        values = ", ".join(literal(value) for value in hot.statement.bind(hot.values))
        call = f"{prepared} ({values})" if values else prepared
        for _ in range(6):
            told = await connection.fetchval(f"explain (format json) execute {call}")
        found[when, name, hot.statement.name] = list(scans(json.loads(told)[0]["Plan"]))


def literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value)
        case list() | tuple():
            return "'{" + ",".join("null" if each is None else json.dumps(str(each)) for each in value) + "}'"
        case timedelta():
            return f"'{value.total_seconds()} s'"
        case _:
            return f"'{value}'"


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Index Name" in plan or plan["Node Type"] == "Seq Scan":
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


def wrongs(plans: Plans, when: str, connection: str, hot: Hot) -> Iterator[str]:
    """Name what is wrong with a plan."""
    for scan in plans[when, connection, hot.statement.name]:
        told = f"{hot.statement.name} on a {connection}, {when}: {scan['Node Type']}"
        index = re.sub(r"^events_\d{8}_", "events_day_", scan["Index Name"]) if "Index Name" in scan else None
        if index is None and scan["Relation Name"] not in SMALL:
            yield f"{told} of {scan['Relation Name']}"
        if index is not None and index not in hot.indexes:
            yield f"{told} by {index}"
        # When an empty table was analysed all ways cost the same, until the next analyze throws the plan away.
        if index == "tasks_pkey" and "Index Cond" not in scan and when != "kept since analysed empty":
            yield f"{told} over all of {index}"
        if index in TIMES and index not in hot.walks and "Index Cond" not in scan:
            yield f"{told} over all of {index}"


# One test, not one for each cell: the plans of all are read in the course of two tables' lives.
@pytest.mark.contract("K5")
def test_hot_statements_read_by_their_own_index(cluster: Cluster) -> None:
    plans = asyncio.run(gather(cluster))

    found = [
        wrong
        for hot in HOT
        for connection in CONNECTIONS
        for when in NEVER_ANALYSED + ANALYSED_EMPTY
        # A scan of a table that was seen to be empty costs nothing: only our settings keep the planner from it.
        if connection == "line" or (hot.anywhere and when != "kept since analysed empty")
        for wrong in wrongs(plans, when, connection, hot)
    ]

    assert found == []
