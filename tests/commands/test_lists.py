"""Lists of commands: every filter answers with what it says, by the index that was made for it or by a walk that is named."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from ferryman.commands.intake import read
from ferryman.commands.states import CommandStatus
from ferryman.commands.store import inbox
from ferryman.kernel.pool import LINE_SETTINGS, Session
from tests.commands.plants import plant_command

ROWS = 20_000

# One tenant has nearly everything; some of it lives, or failed.
FILL = """
insert into ferryman.command_inbox (id, tenant, scope, command_type, session_id, status, task, payload, open, deadline_at,
    created_at, updated_at, finished_at, error_message)
select lpad(to_hex(n), 32, '0')::uuid, case when n % 10 < 3 then 'small' || n % 3000 else 'big' end, 'Theme', 'Theme.Request',
    'session' || n % 5000,
    case when n % 20 = 1 then 'PROCESSING' when n % 20 = 2 then 'FAILED' else 'COMPLETED' end, gen_random_uuid(), '{}',
    case when n % 20 = 1 then 1 else 0 end, now() + n % 997 * interval '1 s', now(), now(),
    case when n % 20 <> 1 then now() end,
    case when n % 20 = 2 then 'no' end
from generate_series(1, $1::integer) as n
"""


@pytest.mark.contract("C10", "K12")
async def test_every_filter_answers_with_what_it_says(tx: Session) -> None:
    planted: list[dict[str, Any]] = []
    fields: list[Any] = [list(CommandStatus), ("a", "b"), ("Theme.Request", "Theme.Review"), ("s1", None), range(2)]
    for status, tenant, type, session, _ in itertools.product(*fields):
        row = {"status": status, "tenant": tenant, "command_type": type, "session_id": session}
        planted.append(row | {"id": await plant_command(tx, **row)})
    middle = planted[len(planted) // 2]["id"]
    asked: list[Any] = [(None, *CommandStatus), (None, "Theme.Request"), (None, "s1", "s2"), (None, middle), (1, 1000)]
    for status, type, session, before, limit in itertools.product(*asked):
        filters = {"status": status, "command_type": type, "session_id": session}
        found = await read.list_page(tx, tenant="a", **filters, before=before, limit=limit)
        fits = [
            row["id"]
            for row in sorted(planted, key=lambda row: row["id"], reverse=True)
            if row["tenant"] == "a" and all(value in (None, row[name]) for name, value in filters.items())
            if before is None or row["id"] < before
        ]
        assert [each.id for each in found] == fits[:limit], filters


PLAIN = {"tenant": "small1", "type": None, "before": None, "limit": 50}
STATEMENTS: list[tuple[Any, dict[str, Any], str]] = [
    (inbox._LIST, {**PLAIN, "status": None}, "command_inbox_listed"),
    (inbox._LIST_SESSION, {**PLAIN, "status": None, "session": "session7"}, "command_inbox_session"),
    (inbox._LIST_LIVE, {**PLAIN, "status": "PROCESSING"}, "command_inbox_live"),
    (inbox._LIST_FAILED, PLAIN, "command_inbox_failed"),
    # Walks along the ids of the tenant: what is asked for is common, or nobody knows whether it is.
    (inbox._LIST, {**PLAIN, "status": "COMPLETED"}, "command_inbox_listed"),
    (inbox._LIST, {**PLAIN, "status": None, "type": "Theme.Request"}, "command_inbox_listed"),
]


def scans(plan: dict[str, Any]) -> Iterator[str]:
    if "Scan" in plan["Node Type"]:
        yield plan.get("Index Name", plan["Node Type"])
    for part in plan.get("Plans", ()):
        yield from scans(part)


@pytest.mark.contract("P13")
async def test_a_page_is_found_by_the_index_made_for_its_question(database_url: str) -> None:
    """Asked by one of the small tenants; with a plan for these values, and with one for any, as a connection may keep it."""
    connection = await asyncpg.connect(database_url, server_settings={"jit": LINE_SETTINGS["jit"]})
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(FILL, ROWS)
        await connection.execute("analyze ferryman.command_inbox")
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"set plan_cache_mode = {mode}")
            for statement, given, index in STATEMENTS:
                [row] = await connection.fetch(f"explain (format json) {statement.sql()}", *statement.bind(given))
                assert set(scans(json.loads(row[0])[0]["Plan"])) == {index}, (mode, statement.name, given)
    finally:
        await connection.close()
