"""What is read of schedules, and what must always be true of them."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import invariants
from ferryman.kernel.pool import Session
from ferryman.tasks.rules import request, standing
from ferryman.tasks.states import ACTIVE, ENDED, PAUSED, SCHEDULE
from ferryman.tasks.store import schedules
from ferryman.tasks.store.schedules import Advance, NewFiring
from ferryman.tasks.watch import SCHEDULE_INVARIANTS
from tests.sql.standing import DAY, HOUR, STATES, due_of, fire, now_of, plant

# What is read


def drafted(**fields: Any) -> Any:
    return standing.draft(
        tenant="default", name="mail", payload="{}", defaults=request.Defaults(), schedule_type="every", interval=60, **fields
    )  # fmt: skip


@pytest.mark.contract("T12")
async def test_what_a_create_met_is_read_by_id_name_or_key_of_its_tenant_and_not_of_the_ended(given: Session) -> None:
    for tenant, state in (("other", ACTIVE), ("default", ENDED)):
        await plant(given, state, tenant=tenant, schedule_id="n", idempotency_key="k", idempotency_scope="s")
    asked = drafted(task_id="n", idempotency_key="k", idempotency_scope="s").schedule
    assert await schedules.existing(given, asked) == {}
    by_name = await plant(given, schedule_id="n")
    by_key = await plant(given, idempotency_key="k", idempotency_scope="s")
    await plant(given, idempotency_key="k")
    await plant(given, idempotency_key="j", idempotency_scope="s")

    met = await schedules.existing(given, asked)

    assert {hit: record.id for hit, record in met.items()} == {"schedule_id": by_name, "idempotency_key": by_key}
    stranger = await plant(given, tenant="other")
    assert await schedules.existing(given, drafted().schedule._replace(id=stranger)) == {}
    assert list(await schedules.existing(given, drafted().schedule._replace(id=by_key))) == ["schedule_id"]


@pytest.mark.contract("K12")
async def test_schedules_are_found_by_id_or_name_in_their_tenant_the_newest_of_a_name(given: Session) -> None:
    old = await plant(given, ENDED, id=UUID(int=1), schedule_id="n")
    new = await plant(given, id=UUID(int=2), schedule_id="n")
    theirs = await plant(given, id=UUID(int=3), schedule_id="n", tenant="other")

    async def found(id: UUID | None, name: str | None) -> UUID | None:
        answer = await schedules.get(given, tenant="default", id=id, schedule_id=name)
        return None if answer is None else answer[0].id

    assert [await found(None, "n"), await found(old, None), await found(theirs, None), await found(None, "m")] == [
        new, old, None, None,
    ]  # fmt: skip
    assert await schedules.take(given, tenant="default", id=theirs) is None
    taken = await schedules.take(given, tenant="default", id=new)
    assert taken is not None
    assert taken[0].id == new


@pytest.mark.contract("K12")
async def test_a_page_is_of_one_tenant_newest_first_and_filtered(given: Session) -> None:
    ids = [await plant(given, state, id=UUID(int=n), name=f"h{n % 2}") for n, state in enumerate(STATES, 1)]
    await plant(given, id=UUID(int=9), tenant="other")

    async def page(**asked: Any) -> list[UUID]:
        said: dict[str, Any] = {"state": None, "name": None, "before": None, "limit": 10} | asked
        return [each.id for each in await schedules.list_page(given, tenant="default", **said)]

    assert await page() == ids[::-1]
    assert await page(limit=2) == ids[:0:-1]
    assert await page(before=ids[1]) == [ids[0]]
    assert await page(state="paused") == [ids[1]]
    assert await page(name="h1") == [ids[2], ids[0]]


@pytest.mark.contract("T10", "K12")
async def test_the_firings_of_a_schedule_are_listed_newest_first(given: Session) -> None:
    id, other = await plant(given), await plant(given)
    now = await now_of(given)
    await fire(given, other, next=now + HOUR)
    times = [now - HOUR, now - 2 * HOUR, now]
    new = [NewFiring(uuid4(), id, each) for each in times]
    await schedules.fire(given, [Advance(id, await due_of(given, id), now + HOUR)], new, ends_after=DAY)

    found = await schedules.firings(given, id, tenant="default", limit=2)

    assert [each.fire_time for each in found] == [now, now - HOUR]
    assert await schedules.firings(given, id, tenant="other", limit=2) == []


# What must be true

BREAKS = {
    "schedules_are_bounded": "update ferryman.schedules set next_run_at = null",
    "schedule_and_log_agree": "update ferryman.schedules set state = 'paused', next_run_at = null",
    "firings_have_one_tenant": "update ferryman.tasks set tenant = 'other'",
    "one_task_per_firing": (
        "insert into ferryman.tasks select (jsonb_populate_record(task, jsonb_build_object('id', gen_random_uuid()))).*"
        " from ferryman.tasks as task"
    ),
}


@pytest.mark.contract("K23", "T11", "K21")
@pytest.mark.parametrize("name", BREAKS)
async def test_an_invariant_of_schedules_notices_what_it_is_there_for(tx: Session, name: str) -> None:
    assert set(BREAKS) == {each.name for each in SCHEDULE_INVARIANTS}
    draft = drafted()
    await schedules.create(tx, draft.schedule, next_run_at=await now_of(tx))
    await fire(tx, draft.schedule.id, next=await now_of(tx) + HOUR)
    assert await invariants.check(tx, SCHEDULE_INVARIANTS) == []
    await tx.execute(
        """
        set local session_replication_role = replica;
        drop index ferryman.tasks_firing;
        do $$ declare rule record; begin
            for rule in select conname from pg_constraint where conrelid = 'ferryman.schedules'::regclass and contype = 'c' loop
                execute format('alter table ferryman.schedules drop constraint %I', rule.conname);
            end loop;
        end $$;
        """
    )

    await tx.execute(BREAKS[name])

    assert name in {each.name for each in await invariants.check(tx, SCHEDULE_INVARIANTS)}


@pytest.mark.contract("K21", "W16")
async def test_an_active_schedule_is_bounded_by_its_next_time_and_overdue_when_it_was_not_fired(given: Session) -> None:
    on_time, late = await plant(given), await plant(given, next_run_at=await now_of(given) - HOUR)
    await plant(given, PAUSED)
    await plant(given, ENDED)
    await given.fetch("update ferryman.watchdog set grace_until = '-infinity'")

    bounds = await given.fetch("select id, domain, state, rule from ferryman.bounds")
    overdue = await given.fetch("select id, domain, rule from ferryman.overdue")

    assert {row["id"] for row in bounds} == {on_time, late}
    assert {(row["domain"], row["state"], row["rule"]) for row in bounds} == {
        ("schedule", "active", SCHEDULE.bounds()[ACTIVE].rule)
    }
    assert [(row["id"], row["domain"], row["rule"]) for row in overdue] == [(late, "schedule", "T10")]
