"""The statements that every turn passes find their rows by key or by the one index made for them, whatever is known of them."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ferryman.agents.store import cards, heads, inbox, pages, retention, waits
from ferryman.kernel.db import Statement
from ferryman.kernel.pool import LINE_SETTINGS

ROWS = 20_000
TERM = timedelta(seconds=30)
IDS = [uuid4() for _ in range(100)]
TENANTS = ["default"] * len(IDS)

FILL = """
with made as (
    insert into ferryman.agent_state_head (id, tenant, agent_id, updated_at, since_at, profile)
    select gen_random_uuid(), 'default', 'agent' || n, now(), now(), 'writer' from generate_series(1, $1::integer) as n
    returning id, agent_id
), messages as (
    insert into ferryman.agent_inbox (id, tenant, created_at, look_at, ends_at, processed_at, agent_id, message_type,
        correlation_id, status, agent_turn_id)
    select id, 'default', now(), now() + interval '1 h', now() + interval '1 h', now(), agent_id, 'turn', id::text,
        'processing', id
    from made
), waits as (
    insert into ferryman.turn_waiting_tools (
        tenant, tool_call_id, created_at, deadline_at, ends_at, turn_epoch, agent_turn_id, tool_call_card_id, agent_id,
        tool_name)
    select 'default', id, now(), now(), now(), 1, id, id, agent_id, 'search' from made
), written as (
    insert into ferryman.cards (id, tenant, created_at, type, role, author_id, content)
    select id, 'default', now(), 'task.instruction', 'user', 'user', '1' from made
)
insert into ferryman.boxes (id, tenant, created_at, updated_at, card_ids)
select id, 'default', now(), now(), array[id] from made
"""


def words(**columns: Any) -> str:
    return json.dumps(
        [{"tenant": "default", **{k: str(id) if v is None else v for k, v in columns.items()}} for id in IDS]
    )


STATEMENTS: list[tuple[Statement, dict[str, Any]]] = [
    (heads._CLAIM, {
        "owner": uuid4(), "profiles": ["writer"], "targets": ["default"], "kinds": [], "room": 100, "lease": TERM, "after": "a",
        "look_after": TERM, "ledger_lease": TERM, "margin": TERM,
    }),
    (heads._FINISH, {"ends": words(turn=None, epoch=1, owner=None, expects="running", overdue=False, bump=0, status="success",
                                   card=None, content=1, fallback=False, message_status="consumed")}),
    (heads._SUSPEND, {"suspensions": words(turn=None, epoch=1, owner=None, calls=[])}),
    (heads._RENEW, {"ids": IDS, "epochs": [1] * 100, "owner": uuid4(), "lease": TERM, "margin": TERM}),
    (heads._RELEASE, {"ids": IDS, "epochs": [1] * 100, "owner": uuid4(), "lapsed": False}),
    (heads._LOCK, {"tenants": TENANTS, "agent_ids": [f"agent{n}" for n in range(100)]}),
    (heads._TRY_LOCK, {"tenants": TENANTS, "agent_ids": [f"agent{n}" for n in range(100)]}),
    (heads._DISPATCH, {
        "tenants": TENANTS, "agent_ids": [f"agent{n}" for n in range(100)], "patience": TERM, "wall": TERM, "look_after": TERM,
    }),
    (waits._OF, {"tenants": TENANTS, "calls": [str(id) for id in IDS]}),
    (waits._RECEIVE, {"reports": words(id=None, message_type="tool_result", tool_call_id=None, card=None, content={},
                                       author="x", edge=None)}),
    (inbox._MET, {"orders": words(place=1, turn=None, agent_id="x", message_type="turn", channel="x", instruction=1)}),
    (cards._READ, {"tenants": TENANTS, "ids": IDS}),
    (inbox._GET, {"ids": IDS, "tenant": "default"}),
    (pages._OPEN, {"agent_id": "agent7", "tenant": "default", "limit": 100}),
    (pages._EDGES, {"turn": uuid4(), "tenant": "default", "limit": 100}),
    (pages._BUDGET, {"turn": uuid4(), "tenant": "default"}),
    (inbox._STOPS, {"limit": 200}),
    (inbox._CLOSE, {"ends": words(id=None, expects="queued", to_status="skipped", status="canceled", card=None, content=1)}),
    (inbox._ENQUEUE, {"orders": words(turn=None, agent_id="x", message_type="turn", depth=0, edge=None), "queued_for": TERM}),
    (heads._SHORTEN, {"limit": 100, "lease": TERM}),
    (heads._LAPSED, {"limit": 100, "kinds": [], "patience": TERM, "cap": 5}),
    (heads._UNDISPATCHED, {"limit": 100, "over": True, "kinds": [], "retry_after": TERM}),
]  # fmt: skip
# Those of the watchdog, on its own line.
RULES: list[tuple[Statement, dict[str, Any]]] = [
    (retention._WALK, {"limit": 100, "kept": TERM, "span": 5000, "pace": TERM, "rest": TERM}),
    (retention._FORGET, {"ids": IDS}),
    (inbox._PENDING, {"limit": 500, "patience": TERM, "past_at": None, "past_id": None}),
    (inbox._LOST, {"limit": 500, "skip_after": TERM}),
]  # fmt: skip
BIG = {"agent_state_head", "agent_inbox", "cards", "boxes", "turn_waiting_tools"}


def scans(plan: Any) -> list[str]:
    """Return the big tables that a plan reads whole."""
    found = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in BIG else []
    return found + [name for part in plan.get("Plans", ()) for name in scans(part)]


@pytest.mark.contract("P10", "P13")
async def test_no_statement_of_a_turn_reads_a_whole_table(database_url: str) -> None:
    """The tables are full and were never analyzed: the planner knows nothing of what is in them."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for table in BIG:
            await connection.execute(f"alter table ferryman.{table} set (autovacuum_enabled = false)")
        await connection.execute("select set_config('session_replication_role', 'replica', false)")
        await connection.fetch(FILL, ROWS)
        bad = {}
        for statement, given in [*STATEMENTS, *RULES]:
            if (statement, given) == RULES[0]:
                await connection.execute(f"set enable_seqscan = {LINE_SETTINGS['enable_seqscan']}")
            [row] = await connection.fetch(f"explain (format json) {statement.sql()}", *statement.bind(given))
            read = scans(json.loads(row[0])[0]["Plan"])
            if read:
                bad[statement.name] = read
        assert bad == {}
    finally:
        await connection.close()
