"""The live catalogue says what the machines declare; every pair of states passes or is refused (I1, K3)."""

from typing import Any

import pytest

from ferryman.ingest.states import MACHINES
from ferryman.kernel import errors
from ferryman.kernel.machine import Machine, refuse_sql
from ferryman.kernel.pool import Session

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
    return {row["name"]: row["definition"].replace("mirror.", "ferryman.") for row in await tx.fetch(sql, *args)}


@pytest.mark.contract("I1", "K3")
async def test_the_guards_of_the_database_are_those_declared(tx: Session) -> None:
    await tx.execute(f"create schema mirror; {refuse_sql('mirror')}")
    for machine in MACHINES:
        table = machine.table
        await tx.execute(f"create table mirror.{table} (like ferryman.{table}); {machine.guard_sql('mirror')}")
        names = list(machine.constraints())

        checks = await said(tx, CHECKS, f"ferryman.{table}", names)
        assert checks == await said(tx, CHECKS, f"mirror.{table}", names)
        assert sorted(checks) == sorted(names)
        triggers = await said(tx, TRIGGERS, f"ferryman.{table}")
        assert triggers == await said(tx, TRIGGERS, f"mirror.{table}")
        assert sorted(triggers) == sorted(machine.triggers())


@pytest.mark.contract("I1", "K3")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
async def test_every_pair_of_states_is_legal_or_refused(tx: Session, machine: Machine[Any]) -> None:
    await tx.execute(
        f"create schema mirror; {refuse_sql('mirror')}"
        f"create table mirror.{machine.table} (id integer, status text"
        + "".join(f", {column} integer" for column in machine.present)
        + f"); {machine.guard_sql('mirror')}"
    )
    await tx.execute(
        "".join(f"alter table mirror.{machine.table} drop constraint {name};" for name in machine.constraints())
    )
    refused = set()
    for state in machine.states:
        try:
            async with tx.transaction():
                await tx.fetch(f"insert into mirror.{machine.table} (id, status) values (1, $1)", state.value)
        except errors.InvalidTransition as error:
            assert error.code == "INGEST_INVALID_TRANSITION"  # noqa: PT017 - both ways are looked at
            refused.add(state)
    assert refused == {state for state in machine.states if state not in machine.initial}

    moved = set()
    for was in machine.states:
        for to in machine.states:
            await tx.fetch("select set_config('session_replication_role', 'replica', true)")
            await tx.fetch(f"delete from mirror.{machine.table}")
            await tx.fetch(f"insert into mirror.{machine.table} (id, status) values (1, $1)", was.value)
            await tx.fetch("select set_config('session_replication_role', 'origin', true)")
            try:
                async with tx.transaction():
                    await tx.fetch(f"update mirror.{machine.table} set status = $1", to.value)
                moved.add((was, to))
            except errors.InvalidTransition as error:
                assert error.code == "INGEST_INVALID_TRANSITION"  # noqa: PT017 - both ways are looked at
    assert moved == machine.legal
