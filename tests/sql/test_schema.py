"""The live catalogue says what the declaration says, both in PostgreSQL's own words; and the generated pages are fresh."""

import pytest

from ferryman.kernel.machine import refuse_sql
from ferryman.kernel.pool import Session
from ferryman.tasks.states import TASK

CHECKS = """
select conname as name, pg_get_constraintdef(oid) as definition
from pg_constraint
where conrelid = $1::regclass and contype = 'c' and conname = any($2)
order by conname
"""
TRIGGERS = """
select tgname as name, replace(pg_get_triggerdef(oid), $1::regclass::text, 'T') as definition
from pg_trigger
where tgrelid = $1::regclass and not tgisinternal
order by tgname
"""


async def said(tx: Session, sql: str, *args: object) -> dict[str, str]:
    return {row["name"]: row["definition"] for row in await tx.fetch(sql, *args)}


async def declare_anew(tx: Session) -> None:
    """Make what the declaration asks for on an empty copy of the table, in a schema beside the product's."""
    await tx.execute(
        f"create schema mirror; create table mirror.{TASK.table} (like ferryman.{TASK.table});"
        f"{refuse_sql('mirror')}{TASK.guard_sql('mirror')}"
    )


@pytest.mark.contract("K3")
async def test_the_checks_of_the_database_are_those_declared(tx: Session) -> None:
    await declare_anew(tx)
    names = list(TASK.constraints())

    shipped = await said(tx, CHECKS, "ferryman.tasks", names)

    assert shipped == await said(tx, CHECKS, "mirror.tasks", names)
    assert sorted(shipped) == sorted(names)


@pytest.mark.contract("K3")
async def test_the_triggers_of_the_database_are_those_declared(tx: Session) -> None:
    await declare_anew(tx)

    shipped = await said(tx, TRIGGERS, "ferryman.tasks")

    declared = await said(tx, TRIGGERS, "mirror.tasks")
    assert shipped == {name: text.replace("mirror.", "ferryman.") for name, text in declared.items()}
    assert sorted(shipped) == sorted(TASK.triggers())


@pytest.mark.contract("K3")
async def test_the_function_behind_the_guard_is_the_declared_one(tx: Session) -> None:
    await tx.execute(f"create schema mirror; {refuse_sql('mirror')}")

    [row] = await tx.fetch(
        "select (select prosrc from pg_proc where oid = 'ferryman.refuse_move'::regproc)"
        " = (select prosrc from pg_proc where oid = 'mirror.refuse_move'::regproc) as same"
    )

    assert row["same"]


@pytest.mark.contract("K21", "W21")
async def test_the_column_that_bounds_a_live_state_cannot_be_empty_there(tx: Session) -> None:
    rows = await tx.fetch(
        "select attname from pg_attribute where attrelid = 'ferryman.tasks'::regclass and attnotnull and attnum > 0"
    )
    never_null = {row["attname"] for row in rows}

    for state, bound in TASK.bounds().items():
        assert bound.column in never_null or state in TASK.present[bound.column]
