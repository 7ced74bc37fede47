"""The guard of the database for every machine of agents, and every statement that moves a head against every status."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import pytest

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath
from ferryman.agents.model import Taken
from ferryman.agents.states import HEAD, MESSAGE, RESUME, WAIT, HeadState, TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.work import settle
from ferryman.kernel import errors
from ferryman.kernel.machine import Machine, refuse_sql
from ferryman.kernel.pool import Database
from tests.agents.house import OTHER, OWNER, House, call_of

MACHINES: list[Machine[Any]] = [HEAD, MESSAGE, WAIT, RESUME]


@pytest.mark.contract("K3")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
async def test_the_guard_of_the_database_is_the_declared_one(db: Database, machine: Machine[Any]) -> None:
    async with db.session() as tx:
        await tx.execute(
            f"create schema mirror; create table mirror.{machine.table} (like ferryman.{machine.table});"
            f"{refuse_sql('mirror')}{machine.guard_sql('mirror')}"
        )
        checks = (
            "select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint"
            " where conrelid = $1::regclass and conname = any($2) order by conname"
        )
        triggers = (
            "select tgname as name, replace(pg_get_triggerdef(oid), $1::regclass::text, 'T') as definition from pg_trigger"
            " where tgrelid = $1::regclass and not tgisinternal order by tgname"
        )
        for sql, more in ((checks, [list(machine.constraints())]), (triggers, [])):
            shipped = {
                row["name"]: row["definition"] for row in await tx.fetch(sql, f"ferryman.{machine.table}", *more)
            }
            rows = await tx.fetch(sql, f"mirror.{machine.table}", *more)
            assert shipped == {row["name"]: row["definition"].replace("mirror.", "ferryman.") for row in rows}
            assert shipped


@pytest.mark.contract("K3", "A1", "A4")
async def test_the_database_refuses_every_undeclared_move(house: House) -> None:
    """One row of each table, put into each state past the guards, and moved to each other state through them."""
    taken = await house.suspend("c1")
    await house.report("c1")
    await house.write(
        "do $$ declare rule record; begin for rule in select conrelid::regclass as of, conname from pg_constraint"
        " where contype = 'c' and connamespace = 'ferryman'::regnamespace loop"
        " execute format('alter table %s drop constraint %I', rule.of, rule.conname); end loop; end $$"
    )
    where = {"agent_inbox": f"where id = '{taken.id}'"}
    wrong = []
    async with house.db.transaction() as tx:
        for machine in MACHINES:
            row = where.get(machine.table, "")
            for one in machine.states:
                for other in machine.states:
                    await tx.fetch("select set_config('session_replication_role', 'replica', true)")
                    await tx.fetch(f"update ferryman.{machine.table} set {machine.column} = $1 {row}", one)
                    await tx.fetch("select set_config('session_replication_role', 'origin', true)")
                    if await refused(tx, machine, one, other, row) != ((one, other) not in machine.legal):
                        wrong.append((machine.table, one, other))
    assert wrong == []


async def refused(tx: Any, machine: Machine[Any], one: StrEnum, other: StrEnum, row: str) -> bool:
    """Tell whether the move was refused, by its code and with both states."""
    refusal: errors.InvalidTransition | None = None
    try:
        async with tx.transaction():
            await tx.fetch(f"update ferryman.{machine.table} set {machine.column} = $1 {row}", other)
    except errors.InvalidTransition as error:
        refusal = error
    if refusal is not None:
        told = (refusal.code, refusal.details["from"], refusal.details["to"])
        assert told == (machine.code, one, other)
    return refusal is not None


# What each statement does to a turn of each status: only what is declared, and only for its holder.


async def _finish(house: House, taken: Taken) -> bool:
    return await house.settle(house.success(taken)) == {taken.id}


async def _suspend(house: House, taken: Taken) -> bool:
    return await house.settle(house.waits(taken, f"new-{taken.epoch}")) == {taken.id}


async def _claim(house: House, taken: Taken) -> bool:
    return [each.id for each in await house.claim(owner=OTHER)] == [taken.id]


async def _release(house: House, taken: Taken) -> bool:
    async with house.db.transaction() as tx:
        return await heads.release(tx, [taken.id], [taken.epoch], owner=OWNER) == ({taken.id}, set())


async def _renew(house: House, taken: Taken) -> bool:
    async with house.db.transaction() as tx:
        renewed = await heads.renew(
            tx, [taken.id], [taken.epoch], owner=OWNER, lease=house.terms.lease, margin=house.terms.interval
        )
    return renewed == {taken.id: True}


def _reap(*expects: str) -> Callable[[House, Taken], Awaitable[bool]]:
    async def act(house: House, taken: Taken) -> bool:
        found = {
            "id": taken.id, "turn_epoch": taken.epoch, "tenant": taken.tenant, "agent_id": taken.agent_id, "callback": None,
            "callback_ref": None,
        }  # fmt: skip
        end = rules.ended_by(found, TurnStatus.FAILED, "reaped", "no", expects=expects)
        async with house.db.transaction() as tx:
            done, _ = await settle.settle(tx, [end], house.parties, owner=OWNER, after=Aftermath())
        return done == {taken.id}

    return act


ACTS: dict[str, tuple[Callable[[House, Taken], Awaitable[bool]], set[str]]] = {
    "finish": (_finish, {"running"}),
    "suspend": (_suspend, {"running"}),
    "claim": (_claim, {"dispatched", "answered", "released"}),
    "release": (_release, {"running"}),
    "renew": (_renew, {"running"}),
    "reap dispatched": (_reap("dispatched"), {"dispatched"}),
    "reap running": (_reap("running"), {"running"}),
    "stop": (_reap("dispatched", "running", "suspended"), {"dispatched", "running", "suspended", "answered"}),
}
STATUSES = ("idle", "dispatched", "running", "suspended", "answered", "released")


async def in_status(house: House, agent: str, status: str) -> Taken:
    """Bring a new agent's turn into a status, and say what its holder would know of it."""
    await house.agent(agent)
    turn = await house.enqueue(agent)
    if status == "dispatched":
        row = await house.head(agent)
        return Taken(turn, row["turn_epoch"], "default", agent, "writer", "dispatched", *[None] * 15)  # type: ignore[arg-type]
    [taken] = [each for each in await house.claim() if each.id == turn]
    if status in ("suspended", "answered"):
        await house.settle(house.waits(taken, f"call-{agent}"))
    if status == "answered":
        await house.report(f"call-{agent}")
    if status == "released":
        assert await _release(house, taken)
    if status == "idle":
        await house.settle(house.success(taken))
    return taken


@pytest.mark.contract("A1", "K3", "K4")
async def test_each_statement_moves_the_turns_it_is_declared_for_and_no_others(house: House) -> None:
    wrong = []
    for name, (act, statuses) in ACTS.items():
        for status in STATUSES:
            agent = f"{name}-{status}".replace(" ", "_")
            taken = await in_status(house, agent, status)
            before = await house.head(agent)
            moved = await act(house, taken)
            if moved != (status in statuses) or (not moved and await house.head(agent) != before):
                wrong.append((name, status, moved))
            # Out of the way of the next claim.
            await house.write("update ferryman.agent_state_head set profile = 'done'")
    assert wrong == []


@pytest.mark.contract("K4")
async def test_a_holder_with_another_epoch_or_name_moves_nothing(house: House) -> None:
    taken = await house.begin()
    before = await house.head()
    for stale in (taken._replace(epoch=taken.epoch + 1), taken._replace(epoch=taken.epoch - 1)):
        for act in (_finish, _suspend, _release, _renew):
            assert not await act(house, stale)
    stranger = house.success(taken, owner=OTHER)
    assert await house.settle(stranger, owner=OTHER) == set()
    assert await house.settle(rules.suspension_of(taken, [call_of("c1")], owner=OTHER), owner=OTHER) == set()
    assert await house.settle(house.success(taken._replace(tenant="other"))) == set()
    assert await house.head() == before


def test_the_declared_statuses_are_those_of_the_source() -> None:
    assert set(HeadState) == {"idle", "dispatched", "running", "suspended"}
    assert {str(state) for state in MESSAGE.terminal} == {"consumed", "error", "skipped"}
    assert {str(state) for state in WAIT.terminal} == {"applied", "expired", "dropped"}
    assert {str(state) for state in RESUME.terminal} == {"applied", "dropped"}


@pytest.mark.contract("K4", "K5")
async def test_a_turn_that_somebody_is_writing_is_busy_for_its_holder_and_stale_for_everybody_else(
    house: House,
) -> None:
    taken = await house.begin()
    other = await house.begin("bob")
    strangers = [taken._replace(epoch=taken.epoch + 1), taken._replace(tenant="other")]

    async def settled(outcome: Any, owner: Any = OWNER) -> tuple[set[Any], set[Any]]:
        async with house.db.transaction() as tx:
            return await settle.settle(tx, [outcome], house.parties, owner=owner, after=Aftermath())

    async with house.db.transaction() as writer:
        await writer.fetch("select from ferryman.agent_state_head where agent_id = 'ann' for update")
        for make in (house.success, lambda turn, **more: house.waits(turn, f"call-{turn.epoch}", **more)):
            assert await settled(make(taken)) == (set(), {taken.id})
            assert [await settled(make(each)) for each in strangers] == [(set(), set())] * 2
            assert await settled(make(taken, owner=OTHER), OTHER) == (set(), set())
        # Nobody else waits for it.
        assert await settled(house.success(other)) == ({other.id}, set())
    assert await settled(house.success(taken)) == ({taken.id}, set())
    assert await settled(house.success(taken)) == (set(), set())
