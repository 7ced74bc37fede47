"""No statement compares each row of one set with each of another.

A statement hides the size of a set from the planner (see test_plans.py). Two sets that are taken for one row each are joined by
a nested loop, whose cost grows with the square of what travels together (docs/adr/0040).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import ferryman
from ferryman.kernel.db import Statement
from ferryman.kernel.pool import LINE_SETTINGS

SOURCE = Path(ferryman.__file__).parent
SETS = {"CTE Scan", "Function Scan"}
THROUGH = {"Materialize", "Subquery Scan", "Limit"}

# Sets that stay small, whoever works: (statement, the set that is walked again and again), and why.
SMALL = {
    ("agents/sql/agent_inbox/merge.sql", "led"): "turns that wait, one for each agent that is spoken to at one moment",
    ("agents/sql/agent_state_head/finish.sql", "prior"): "turns that end without an answer of their own",
    ("agents/sql/turn_resume_ledger/requeue.sql", "given"): "results whose reader was lost",
    ("agents/sql/turn_waiting_tools/receive.sql", "noted"): "answers of tools that come at one moment",
    ("commands/sql/command_inbox/unknown.sql", "living"): "processes that live",
    ("ingest/sql/ingest_task/claim.sql", "held"): "runs of one executor",
    ("ingest/sql/ingest_task/claim.sql", "moved"): "runs of one executor",
    ("ingest/sql/ingest_task/claim.sql", "open"): "runs of one executor",
    ("ingest/sql/ingest_task/claim.sql", "run"): "runs of one executor",
    ("ingest/sql/ingest_task/renew.sql", "moved"): "runs of one executor",
    (
        "kernel/sql/open_transactions/older.sql",
        "l_1",
    ): "locks of the server, for the few transactions that are open for long",
    ("tasks/sql/schedules/fire.sql", "born"): "schedules of one look, a hundred at most",
    ("tasks/sql/schedules/fire.sql", "run_out"): "schedules of one look, a hundred at most",
    ("tasks/sql/schedules/fire.sql", "tally"): "schedules of one look, a hundred at most",
    ("tasks/sql/task_steps/wait.sql", "written"): "sleeps and waits that begin at one moment",
}


def parts(plan: dict[str, Any], *relations: str) -> list[dict[str, Any]]:
    return [part for part in plan.get("Plans", ()) if part["Parent Relationship"] in relations]


def behind(plan: dict[str, Any]) -> dict[str, Any]:
    """What a node passes on."""
    while plan["Node Type"] in THROUGH and (below := parts(plan, "Outer", "Subquery")):
        plan = below[0]
    return plan


def driving(plan: dict[str, Any]) -> dict[str, Any]:
    """What a join begins with."""
    while below := parts(plan, "Outer", "Subquery"):
        plan = below[0]
    return plan


def squares(plan: dict[str, Any]) -> Iterator[str]:
    """Name the sets that are walked once for each row of another."""
    if plan["Node Type"] == "Nested Loop":
        [outer], [inner] = parts(plan, "Outer"), parts(plan, "Inner")
        walked = behind(inner)
        name = walked.get("CTE Name", walked.get("Alias"))
        compared = " = " in plan.get("Join Filter", "")
        if compared and walked["Node Type"] in SETS and driving(outer)["Node Type"] in SETS and name != "clock":
            yield str(name)
    for part in plan.get("Plans", ()):
        yield from squares(part)


async def plan(connection: Any, statement: Statement) -> dict[str, Any]:
    unknown = f"({', '.join('unknown' for _ in statement.names)})" if statement.names else ""
    nulls = f"({', '.join('null' for _ in statement.names)})" if statement.names else ""
    await connection.execute(f"prepare this {unknown} as {statement.sql()}")
    told = await connection.fetchval(f"explain (format json) execute this {nulls}")
    await connection.execute("deallocate this")
    return dict(json.loads(told)[0]["Plan"])


@pytest.mark.contract("P13")
async def test_no_statement_compares_each_with_each(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings=LINE_SETTINGS)
    found = set()
    for file in sorted(SOURCE.rglob("sql/**/*.sql")):
        name = str(file.relative_to(SOURCE))
        # The demo brings tables of its own.
        if not name.startswith("cli/demo/"):
            statement = Statement(name, re.sub("--.*", "", file.read_text()))
            found |= {(name, walked) for walked in squares(await plan(connection, statement))}
    await connection.close()

    assert found == set(SMALL)


async def test_a_comparison_of_each_with_each_is_found(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings=LINE_SETTINGS)
    statement = Statement(
        "square",
        """
        with one as materialized (select id from unnest((select :ones::uuid[])) as given (id) limit (select 1000000)),
        other as materialized (select id from unnest((select :others::uuid[])) as given (id) limit (select 1000000))
        select one.id from one where not exists (select from other where other.id = one.id)
        """,
    )

    found = list(squares(await plan(connection, statement)))

    await connection.close()
    assert found == ["other"]
