"""The statements that move and fire schedules, each against every state; their guards, and the guard of the database."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman.kernel import errors
from ferryman.kernel.machine import refuse_sql
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store
from ferryman.tasks.states import ACTIVE, ENDED, PAUSED, SCHEDULE, ScheduleState
from ferryman.tasks.store import schedules
from ferryman.tasks.store.schedules import Advance, NewFiring
from tests.sql.standing import DAY, HOUR, SECOND, STATES, due_of, fire, moves_of, now_of, plant, row_of

# What moves


@pytest.mark.contract("T10", "K3", "K6")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("move", ["pause", "resume", "end", "run_out"])
async def test_a_statement_moves_exactly_what_is_declared(given: Session, state: ScheduleState, move: str) -> None:
    id = await plant(given, state)
    before = await row_of(given, id)
    now = await now_of(given)
    acts: dict[str, Any] = {
        "pause": lambda: schedules.pause(given, id, tenant="default", reason="why"),
        "resume": lambda: schedules.resume(given, id, tenant="default", next_run_at=now + HOUR),
        "end": lambda: schedules.end(given, id, tenant="default", reason="why"),
        "run_out": lambda: fire(given, id, was=_when(before) or now),
    }

    moved = bool(await acts[move]())

    assert moved is SCHEDULE.allows(move, state)
    after = await row_of(given, id)
    if not moved:
        assert after == before
        assert await moves_of(given, id) == []
        return
    to = next(each.to for each in SCHEDULE.moves if each.name == move)
    why = {"pause": "why", "end": "why", "resume": None, "run_out": "no firing is to come"}[move]
    assert after["state"] == to
    assert (after["next_run_at"] is not None) is (to is ACTIVE)
    assert (after["ended_at"] is not None) is (to is ENDED)
    assert await moves_of(given, id) == [(state, to, why, "schedule", "default")]


def _when(row: dict[str, Any]) -> datetime | None:
    return datetime.fromisoformat(row["next_run_at"]) if row["next_run_at"] else None


@pytest.mark.contract("K12")
@pytest.mark.parametrize("move", ["pause", "resume", "end"])
async def test_no_statement_moves_the_schedule_of_another_tenant_or_another_schedule(given: Session, move: str) -> None:
    state = PAUSED if move == "resume" else ACTIVE
    theirs, mine = await plant(given, state, tenant="other"), await plant(given, state)
    before = await row_of(given, theirs)
    more: dict[str, Any] = {"next_run_at": await now_of(given)} if move == "resume" else {"reason": None}

    assert not await getattr(schedules, move)(given, theirs, tenant="default", **more)
    assert await getattr(schedules, move)(given, mine, tenant="default", **more)

    assert await row_of(given, theirs) == before


@pytest.mark.contract("K3", "K20")
@pytest.mark.parametrize("out_of", STATES)
@pytest.mark.parametrize("to", STATES)
async def test_the_database_refuses_exactly_the_undeclared_moves(
    given: Session, out_of: ScheduleState, to: ScheduleState
) -> None:
    id = await plant(given, out_of)
    sets = {
        ACTIVE: "next_run_at = now(), ended_at = null", PAUSED: "next_run_at = null, ended_at = null",
        ENDED: "next_run_at = null, ended_at = now()",
    }  # fmt: skip
    refusal = None
    try:
        async with given.transaction():
            await given.fetch(f"update ferryman.schedules set state = $2, {sets[to]} where id = $1", id, to.value)
    except errors.InvalidTransition as error:
        refusal = error

    if (out_of, to) in SCHEDULE.legal:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.code == "SCHEDULE_INVALID_TRANSITION"
        assert refusal.details == {"from": out_of, "to": to, "id": str(id), "table": "schedules"}


@pytest.mark.contract("K3")
async def test_the_guard_of_the_database_is_the_declared_one(tx: Session) -> None:
    await tx.execute(
        f"create schema mirror; create table mirror.schedules (like ferryman.schedules);"
        f"{refuse_sql('mirror')}{SCHEDULE.guard_sql('mirror')}"
    )
    checks = (
        "select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint"
        " where conrelid = $1::regclass and conname = any($2) order by conname"
    )
    triggers = (
        "select tgname as name, replace(pg_get_triggerdef(oid), $1::regclass::text, 'T') as definition from pg_trigger"
        " where tgrelid = $1::regclass and not tgisinternal order by tgname"
    )
    for sql, more in ((checks, [list(SCHEDULE.constraints())]), (triggers, [])):
        shipped = {row["name"]: row["definition"] for row in await tx.fetch(sql, "ferryman.schedules", *more)}
        rows = await tx.fetch(sql, "mirror.schedules", *more)
        assert shipped == {row["name"]: row["definition"].replace("mirror.", "ferryman.") for row in rows}
        assert shipped


# What fires


@pytest.mark.contract("T10", "T11", "K6")
async def test_a_firing_writes_task_schedule_and_log_together(given: Session) -> None:
    id = await plant(given, queue="mail", priority=-2, backoff={"kind": "fixed"}, schedule_id="nightly", fired=4)
    now = await now_of(given)
    due = await due_of(given, id)

    [row] = await schedules.fire(
        given, [Advance(id, due, now + HOUR, missed=3, skipped=2)], [NewFiring(uuid4(), id, due)], ends_after=DAY
    )

    [task] = await given.fetch("select * from ferryman.tasks")
    assert (row["id"], row["tasks"], row["previous"], row["queue"], row["tenant"]) == (
        id,
        [task["id"]],
        [],
        "mail",
        "default",
    )
    assert (task["schedule"], task["fire_time"], task["due_at"], task["scheduled_at"]) == (id, due, due, due)
    assert (task["state"], task["queue"], task["priority"], task["payload"], task["timeout_ms"]) == (
        "ready", "mail", -2, '{"n": 1}', 1000,
    )  # fmt: skip
    assert task["rank"] == task["created_at"] - timedelta(minutes=2)
    assert task["ends_at"] == task["created_at"] + DAY
    after = await row_of(given, id)
    assert (after["fired"], after["missed"], after["skipped"]) == (5, 3, 2)
    assert datetime.fromisoformat(after["last_run_at"]) == due
    told = await given.fetch("select kind, subject, to_state, subject_name, data from ferryman.events order by kind")
    assert [(each["kind"], each["subject"], each["to_state"]) for each in told] == [
        ("schedule", id, None),
        ("task", task["id"], "ready"),
    ]
    assert json.loads(told[0]["data"])["missed"] == 3
    assert json.loads(told[1]["data"])["schedule"] == str(id)


@pytest.mark.contract("T11")
async def test_what_another_has_fired_since_is_passed_over(given: Session) -> None:
    id = await plant(given)
    due, now = await due_of(given, id), await now_of(given)

    assert len(await fire(given, id, next=now + HOUR)) == 1
    assert await fire(given, id, was=due, next=now + HOUR) == []
    assert await due_of(given, id) == now + HOUR


@pytest.mark.contract("T10")
@pytest.mark.parametrize(("state", "born"), [(ACTIVE, 1), (PAUSED, 1), (ENDED, 0)])
async def test_by_hand_a_paused_schedule_fires_too_and_nothing_moves(
    given: Session, state: ScheduleState, born: int
) -> None:
    id = await plant(given, state)
    due = await due_of(given, id)

    assert len(await fire(given, id, by_hand=True, was=None)) == born

    after = await row_of(given, id)
    assert (after["state"], after["fired"]) == (state, born)
    assert await due_of(given, id) == due
    assert await moves_of(given, id) == []


@pytest.mark.contract("T10", "K3")
async def test_a_schedule_that_runs_out_ends_alone(given: Session) -> None:
    bystander = await plant(given)
    before = await row_of(given, bystander)

    assert await fire(given, await plant(given), next=None)

    assert await row_of(given, bystander) == before


@pytest.mark.contract("T11", "K5")
async def test_two_who_look_hold_different_schedules(db: Database) -> None:
    async with db.session() as third:
        for _ in range(4):
            async with third.transaction():
                await plant(third)
    async with db.transaction() as one, db.transaction() as other:
        first = await schedules.due(one, aside=[], limit=3)
        second = await schedules.due(other, aside=[], limit=3)

    assert (len(first), len(second)) == (3, 1)
    assert not {row["id"] for row in first} & {row["id"] for row in second}


@pytest.mark.contract("T10")
async def test_a_paused_schedule_fires_by_hand_only(given: Session) -> None:
    id = await plant(given, PAUSED)

    assert await fire(given, id, was=await now_of(given)) == []


@pytest.mark.contract("T10")
async def test_only_live_tasks_of_the_same_schedule_stand_in_the_way(given: Session) -> None:
    skipping, other = await plant(given, overlap="skip"), await plant(given, overlap="allow")
    later = await now_of(given) + HOUR
    await fire(given, other, next=later)

    [first] = await fire(given, skipping, next=later)
    assert await fire(given, skipping, next=later + HOUR) == []
    await store.cancel(given, [first])
    assert len(await fire(given, skipping, next=later + 2 * HOUR)) == 1

    after = await row_of(given, skipping)
    assert (after["fired"], after["skipped"]) == (2, 1)


@pytest.mark.contract("T10")
@pytest.mark.parametrize(("overlap", "named"), [("allow", False), ("skip", False), ("cancel_previous", True)])
async def test_what_is_to_be_cancelled_is_named_where_that_was_asked(given: Session, overlap: str, named: bool) -> None:
    id = await plant(given, overlap=overlap)
    now = await now_of(given)
    [task] = await fire(given, id, next=now + HOUR)

    [row] = await schedules.fire(
        given, [Advance(id, now + HOUR, now + 2 * HOUR)], [NewFiring(uuid4(), id, now)], ends_after=DAY
    )

    assert row["previous"] == ([task] if named else [])


@pytest.mark.contract("T10", "K5")
async def test_the_look_finds_what_is_due_oldest_first_but_for_what_is_put_aside(given: Session) -> None:
    now = await now_of(given)
    newer, older = await plant(given, next_run_at=now - SECOND), await plant(given, next_run_at=now - HOUR)
    aside = await plant(given, next_run_at=now - DAY)
    await plant(given, next_run_at=now + HOUR)
    await plant(given, PAUSED)

    assert [row["id"] for row in await schedules.due(given, aside=[aside], limit=10)] == [older, newer]
    assert [row["id"] for row in await schedules.due(given, aside=[aside], limit=1)] == [older]


@pytest.mark.contract("T1", "T10")
async def test_the_sweep_is_told_when_a_schedule_is_due(given: Session) -> None:
    now = await now_of(given)
    assert (await store.promote(given, limit=10))[2] is None
    await plant(given, PAUSED)
    await plant(given, next_run_at=now + 40 * SECOND)
    assert (await store.promote(given, limit=10))[2] == pytest.approx(40, abs=10)
    for seconds in (300, 20, 100):  # of several the nearest, in whatever order they came
        await plant(given, next_run_at=now + seconds * SECOND)
    assert (await store.promote(given, limit=10))[2] == pytest.approx(20, abs=10)
    await plant(given, next_run_at=now - SECOND)
    assert (await store.promote(given, limit=10))[2] <= 0  # type: ignore[operator]


@pytest.mark.contract("T1", "T10")
async def test_a_schedule_that_was_put_aside_does_not_hide_the_next(given: Session) -> None:
    now = await now_of(given)
    aside = await plant(given, next_run_at=now - SECOND)
    await plant(given, next_run_at=now + 40 * SECOND)

    assert (await store.promote(given, limit=10, aside=[aside]))[2] == pytest.approx(40, abs=10)


@pytest.mark.contract("T17", "T11")
@pytest.mark.parametrize("key", [{"singleton": "s"}, {"debounce": "d", "quiet": "60 s"}], ids=str)
async def test_of_firings_with_one_key_one_is_born_and_the_others_are_skipped(
    given: Session, key: dict[str, Any]
) -> None:
    now = await now_of(given)
    planted = [await plant(given, **key) for _ in range(6)]
    advances = [Advance(id, await due_of(given, id), now + HOUR) for id in planted]

    firings = [NewFiring(uuid4(), id, now - n * SECOND) for n, id in enumerate(planted)]
    rows = await schedules.fire(given, advances, firings, ends_after=DAY)

    assert [task for row in rows for task in row["tasks"]] == [firings[-1].id], "the earliest, whatever the order"
    counts = [await row_of(given, id) for id in planted]
    assert sorted((each["fired"], each["skipped"]) for each in counts) == [(0, 1)] * 5 + [(1, 0)]
    [task] = await given.fetch(
        "select state, wake_at = due_at as waits, rank, ends_at - due_at as rest from ferryman.tasks"
    )
    pending = "debounce" in key
    assert (task["state"], task["waits"], task["rank"] is None) == (
        ("pending", True, True) if pending else ("ready", None, False)
    )
    assert task["rest"] >= DAY
    [event] = await given.fetch("select to_state from ferryman.events where kind = 'task'")
    assert event["to_state"] == task["state"]


@pytest.mark.contract("T10")
async def test_a_schedule_is_live_while_a_task_of_it_is(given: Session) -> None:
    fired, other, idle = [await plant(given) for _ in range(3)]
    for id in (fired, other):
        assert await fire(given, id, next=await now_of(given) + HOUR)
    [task] = await given.fetch("select id from ferryman.tasks where schedule = $1", other)

    assert await schedules.live(given, [fired, idle]) == {fired}
    await store.cancel(given, [task["id"]], tenant="default", expired=False, code=None, reason=None)
    assert await schedules.live(given, [fired, other, idle]) == {fired}
