"""Each invariant notices what it is there for: a violation is planted past every guard, and reported by its name."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import invariants, telemetry, watchdog
from ferryman.kernel.db import load
from ferryman.kernel.invariants import KERNEL_INVARIANTS
from ferryman.kernel.pool import Database, Session
from ferryman.tasks.states import TASK
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.testing import travel

ALL = (*KERNEL_INVARIANTS, *TASK_INVARIANTS)

pytestmark = pytest.mark.contract("K23")

# What a sound row has in each state, beside what all have.
COLUMNS: dict[str, str] = {
    "pending": "wake_at = ferryman.clock() + interval '1 hour'",
    "ready": "rank = ferryman.clock()",
    "running": "leased_until = ferryman.clock() + interval '30 s', lease_owner = gen_random_uuid(), epoch = 1,"
    " lease_count = 1, started_at = ferryman.clock()",
    "succeeded": "finished_at = ferryman.clock(), epoch = 1, lease_count = 1, started_at = ferryman.clock()",
    "cancelled": "finished_at = ferryman.clock()",
}
LIFE: dict[str, list[str | None]] = {
    "pending": [None, "pending"],
    "ready": [None, "ready"],
    "running": [None, "pending", "ready", "running"],
    "succeeded": [None, "ready", "running", "succeeded"],
    "cancelled": [None, "pending", "cancelled"],
}


async def plant(tx: Session, state: str) -> UUID:
    """Put a sound task of this state into the tables, with its life in the log."""
    task = uuid4()
    await tx.fetch(
        "insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms,"
        " max_retries) select $1, 'ready', 'mail', '{}', now, now + interval '30 days', now, now, 300000, 3"
        " from ferryman.clock() as now",
        task,
    )
    await tx.fetch(f"update ferryman.tasks set state = '{state}', {COLUMNS[state]} where id = $1", task)
    for from_state, to_state in zip(LIFE[state], LIFE[state][1:], strict=False):
        await tell(tx, task, from_state, to_state)
    return task


async def tell(tx: Session, task: UUID, from_state: str | None, to_state: str | None, **more: Any) -> None:
    said = {"attempt": 1, "tenant": "default", "kind": "task", **more}
    await tx.fetch(
        "insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)"
        " values (ferryman.clock(), $1, $2, $3, $4, $5, $6)",
        task,
        said["attempt"],
        said["tenant"],
        said["kind"],
        from_state,
        to_state,
    )


@pytest.fixture
async def open_tx(tx: Session) -> Session:
    """A transaction in which nothing guards the tables."""
    await tx.execute(
        """
        set local session_replication_role = replica;
        do $$ declare rule record; begin
            for rule in select conname from pg_constraint where conrelid = 'ferryman.tasks'::regclass and contype = 'c' loop
                execute format('alter table ferryman.tasks drop constraint %I', rule.conname);
            end loop;
        end $$;
        drop index ferryman.tasks_idempotency;
        """
    )
    return tx


async def broken(tx: Session, *, deep: bool = True) -> dict[str, invariants.Violation]:
    return {violation.name: violation for violation in await invariants.check(tx, ALL, deep=deep)}


async def test_sound_tasks_of_every_state_break_nothing(open_tx: Session) -> None:
    for state in LIFE:
        await plant(open_tx, state)
        keyed = await plant(open_tx, state)
        await open_tx.fetch("update ferryman.tasks set idempotency_key = $2 where id = $1", keyed, state)

    assert await broken(open_tx) == {}


@pytest.mark.parametrize("state", LIFE)
async def test_what_is_said_of_a_task_beside_its_moves_breaks_nothing(open_tx: Session, state: str) -> None:
    task = await plant(open_tx, state)
    await tell(open_tx, task, "succeeded", None)
    await tell(open_tx, task, "boarding", "sailing", kind="ferry")
    await tell(open_tx, task, "sailing", "cancelled", kind="ferry")
    await tell(open_tx, task, "cancelled", "running", kind="ferry")

    assert await broken(open_tx) == {}


async def test_claims_that_retention_has_dropped_are_not_missed(open_tx: Session) -> None:
    task = await plant(open_tx, "running")
    await open_tx.fetch("delete from ferryman.events where to_state in ('pending', 'ready')")
    await open_tx.fetch("update ferryman.tasks set epoch = 3, lease_count = 3 where id = $1", task)

    assert await broken(open_tx) == {}


@pytest.mark.parametrize("state", ["running", "succeeded"])
async def test_only_a_task_that_waits_needs_an_end_of_waiting(open_tx: Session, state: str) -> None:
    task = await plant(open_tx, state)
    await open_tx.fetch("update ferryman.tasks set ends_at = 'infinity' where id = $1", task)

    assert await broken(open_tx) == {}


async def test_a_retry_is_logged_with_the_attempt_that_ended(open_tx: Session) -> None:
    task = await plant(open_tx, "running")
    await open_tx.fetch(
        "update ferryman.tasks set state = 'ready', attempt = 2, rank = now(), leased_until = null, lease_owner = null"
        " where id = $1",
        task,
    )
    await tell(open_tx, task, "running", "ready", attempt=1)

    assert await broken(open_tx) == {}


# The state planted, and what is done to the row to break the invariant of that name.
DEEDS = {
    "running_is_leased": ("running", "leased_until = null"),
    "claimed_has_a_fence": ("running", "epoch = 0"),
    "live_has_a_clock": ("ready", "ends_at = 'infinity'"),
    "one_place_to_wait": ("ready", "rank = null"),
    "ended_is_finished": ("succeeded", "finished_at = null"),
    "attempts_within_cap": ("ready", "attempt = 5, max_retries = 3"),
    "live_is_bounded": ("ready", "finished_at = now()"),
    "row_and_log_agree": ("ready", "state = 'pending'"),
    "claims_are_logged": ("running", "lease_count = 2, epoch = 2"),
    "one_tenant": ("ready", "tenant = 'another'"),
    "nothing_is_overdue": ("running", "leased_until = ferryman.clock() - interval '16 s'"),
}
# The state planted, and the move told that never was.
TALES = {
    "one_end": ("succeeded", "running", "failed"),
    "legal_moves": ("pending", "pending", "running"),
    "unbroken_log": ("ready", "pending", "ready"),
}


@pytest.mark.parametrize("name", DEEDS)
async def test_a_row_that_breaks_it_is_reported(open_tx: Session, name: str) -> None:
    state, deed = DEEDS[name]
    task = await plant(open_tx, state)
    await open_tx.fetch(f"update ferryman.tasks set {deed} where id = $1", task)

    found = await broken(open_tx)

    assert found[name].rows[0]["id"] == str(task)


@pytest.mark.parametrize("name", TALES)
async def test_a_tale_that_breaks_it_is_reported(open_tx: Session, name: str) -> None:
    state, from_state, to_state = TALES[name]
    task = await plant(open_tx, state)
    await tell(open_tx, task, from_state, to_state)

    found = await broken(open_tx)

    assert found[name].rows[0]["id"] == str(task)


async def test_two_rows_with_one_key_are_reported(open_tx: Session) -> None:
    for _ in range(2):
        await plant(open_tx, "ready")
    await open_tx.fetch("update ferryman.tasks set idempotency_key = 'order-1'")

    found = await broken(open_tx)

    assert found["one_row_per_key"].rows[0]["rows"] == 2


async def test_an_attempt_that_the_log_does_not_know_is_reported(open_tx: Session) -> None:
    task = await plant(open_tx, "running")
    await open_tx.fetch("update ferryman.tasks set attempt = 2 where id = $1", task)

    assert "row_and_log_agree" in await broken(open_tx)


async def test_what_was_said_after_the_last_move_does_not_hide_that_the_row_tells_another(open_tx: Session) -> None:
    task = await plant(open_tx, "ready")
    await open_tx.fetch("update ferryman.tasks set state = 'pending' where id = $1", task)
    await tell(open_tx, task, "ready", None)

    assert "row_and_log_agree" in await broken(open_tx)


async def test_a_lease_that_outlasts_its_attempt_is_reported(open_tx: Session) -> None:
    task = await plant(open_tx, "running")
    await open_tx.fetch("update ferryman.tasks set leased_until = leased_until + interval '1 hour' where id = $1", task)

    assert "live_has_a_clock" in await broken(open_tx)


async def test_a_move_that_follows_the_end_is_reported(open_tx: Session) -> None:
    task = await plant(open_tx, "succeeded")
    await tell(open_tx, task, "succeeded", "ready")

    assert "one_end" in await broken(open_tx)


# What a parked task waits for, and how its row is broken.
PARKS = {
    "parked_has_a_clock": ("null, '{}', '{go}'", "wake_at = ends_at + interval '1 s'"),
    "join_counts_the_living": ("1, array[gen_random_uuid()], '{}'", "wake_at = ends_at"),
}


@pytest.mark.contract("T19")
@pytest.mark.parametrize("name", PARKS)
async def test_a_park_that_breaks_it_is_reported(open_tx: Session, name: str) -> None:
    waits, deed = PARKS[name]
    task = await plant(open_tx, "ready")
    await open_tx.fetch(
        f"insert into ferryman.task_waits (task, epoch, open, children, names) values ($1, 0, {waits})", task
    )
    assert await broken(open_tx) == {}

    await open_tx.fetch(f"update ferryman.tasks set rank = null, {deed} where id = $1", task)

    found = await broken(open_tx)
    assert found[name].rows[0]["id"] == str(task)
    await open_tx.fetch("update ferryman.task_waits set epoch = 1")
    assert name not in await broken(open_tx)


# What is agreed for a queue of which two tasks run, and the change that makes it one too many.
LIMITS = {
    "slots_within_limits": "concurrency",
    "keys_within_limits": "key_concurrency",
}


@pytest.mark.parametrize("name", LIMITS)
async def test_more_slots_held_than_were_agreed_are_reported(open_tx: Session, name: str) -> None:
    await open_tx.execute(f"insert into ferryman.queues (name, {LIMITS[name]}) values ('default', 2), ('other', 1)")
    for _ in range(2):
        await plant(open_tx, "running")
    key = "'k'" if name == "keys_within_limits" else "null"
    await open_tx.execute(f"update ferryman.tasks set slot = true, limit_key = {key}, started_at = ferryman.clock()")
    await plant(open_tx, "running")
    assert await broken(open_tx) == {}

    await open_tx.execute(f"update ferryman.queues set {LIMITS[name]} = 1")

    assert (await broken(open_tx))[name].rows[0]["held"] == 2


async def test_a_limit_that_was_lowered_lets_go_on_what_runs(open_tx: Session) -> None:
    for _ in range(2):
        await plant(open_tx, "running")
    await open_tx.execute("update ferryman.tasks set slot = true, limit_key = 'k'")
    await open_tx.execute("insert into ferryman.queues (name, concurrency) values ('default', 1)")

    assert await broken(open_tx) == {}


async def test_a_limit_of_one_tenant_is_not_for_the_others(open_tx: Session) -> None:
    await open_tx.execute("insert into ferryman.queues (name, tenant, concurrency) values ('default', 'acme', 1)")
    for _ in range(2):
        await plant(open_tx, "running")
    await open_tx.execute("update ferryman.tasks set slot = true, started_at = ferryman.clock()")

    assert await broken(open_tx) == {}


def test_every_invariant_has_a_violation_to_show_and_a_sentence() -> None:
    assert {*DEEDS, *TALES, *PARKS, *LIMITS, "one_row_per_key"} == {invariant.name for invariant in ALL}
    assert all(invariant.says.endswith(".") for invariant in ALL)


def test_the_legal_moves_are_those_that_the_machine_declares() -> None:
    listed = set(re.findall(r"\('(\w+)', '(\w+)'\)", load("ferryman.tasks", "invariants/legal_moves").text))

    births = {("nothing", str(state)) for state in TASK.initial}
    assert listed == births | {(str(one), str(other)) for one, other in TASK.pairs()}


async def test_every_rule_in_the_views_is_the_one_that_the_machine_declares(open_tx: Session) -> None:
    for state in TASK.live:
        await plant(open_tx, str(state))

    rows = await open_tx.fetch("select state, rule from ferryman.bounds")

    assert {row["state"]: row["rule"] for row in rows} == {str(state): by.rule for state, by in TASK.bounds().items()}


async def test_a_shallow_check_leaves_out_what_reads_whole_tables(open_tx: Session) -> None:
    task = await plant(open_tx, "ready")
    await open_tx.fetch("update ferryman.tasks set rank = null, lease_owner = $1 where id = $1", task)

    assert set(await broken(open_tx, deep=False)) == {"running_is_leased"}


@pytest.mark.contract("K21", "W21")
async def test_every_live_task_is_listed_with_the_rule_that_ends_it(open_tx: Session) -> None:
    planted = {await plant(open_tx, state): state for state in LIFE}

    rows = await open_tx.fetch("select id, state, rule, ends_by, terminal_by from ferryman.bounds")

    assert {(planted[row["id"]], row["rule"]) for row in rows} == {
        ("pending", "T21"),
        ("ready", "T21"),
        ("running", "W13"),
    }
    assert all(row["ends_by"] < row["terminal_by"] for row in rows)


OVERDUE = {
    "W13": ("running", timedelta(seconds=50)),
    "T1": ("pending", timedelta(minutes=61)),
    "T21": ("ready", timedelta(days=31)),
}


@pytest.mark.contract("K21")
@pytest.mark.parametrize("rule", OVERDUE)
async def test_what_no_rule_has_ended_in_time_is_overdue(open_tx: Session, rule: str) -> None:
    state, later = OVERDUE[rule]
    task = await plant(open_tx, state)
    assert await open_tx.fetch("select from ferryman.overdue") == []

    await travel(open_tx, later)

    [row] = await open_tx.fetch("select id, rule, state, tenant, domain from ferryman.overdue")
    assert (row["id"], row["rule"], row["state"], row["tenant"], row["domain"]) == (
        task,
        rule,
        state,
        "default",
        "task",
    )


@pytest.mark.contract("K21", "K24")
async def test_nothing_is_overdue_while_the_grace_after_an_outage_lasts(open_tx: Session) -> None:
    await plant(open_tx, "running")
    await travel(open_tx, timedelta(hours=1))

    await open_tx.fetch("update ferryman.watchdog set grace_until = clock_timestamp() + interval '20 s'")

    assert await open_tx.fetch("select from ferryman.overdue") == []


# What a clock that went an hour ahead leaves behind when it is right again.
AHEAD = (
    "update ferryman.watchdog set ticked_at = clock_timestamp() + interval '1 hour',"
    " grace_until = clock_timestamp() + interval '1 hour 30 s'"
)


@pytest.mark.contract("K21", "K24")
async def test_a_grace_of_a_clock_that_was_set_back_hides_nothing_that_is_overdue(open_tx: Session) -> None:
    await plant(open_tx, "running")
    await travel(open_tx, timedelta(hours=1))

    await open_tx.fetch(AHEAD)

    assert len(await open_tx.fetch("select from ferryman.overdue")) == 1


@pytest.mark.contract("K21", "K24")
async def test_the_next_tick_after_a_clock_was_set_back_clears_the_grace(open_tx: Session) -> None:
    await plant(open_tx, "running")
    await travel(open_tx, timedelta(hours=1))
    await open_tx.fetch(AHEAD)

    await watchdog.Watchdog(open_tx, []).tick()

    assert len(await open_tx.fetch("select from ferryman.overdue")) == 1
    assert await open_tx.fetch("select from ferryman.watchdog where grace_until > clock_timestamp()") == []


@pytest.mark.contract("W16")
async def test_what_is_overdue_raises_the_alarm_and_lets_it_go(open_tx: Session) -> None:
    await plant(open_tx, "running")
    await travel(open_tx, timedelta(hours=1))
    await watchdog.tick(open_tx, [watchdog.W16])
    raised = telemetry.OVERDUE.of("task", "W13")._value.get()

    await open_tx.fetch("update ferryman.tasks set leased_until = ferryman.clock()")
    await watchdog.tick(open_tx, [watchdog.W16])

    assert (raised, telemetry.OVERDUE.of("task", "W13")._value.get()) == (1, 0)


LOOKS = {
    **{view: f"select * from ferryman.{view}" for view in ("bounds", "overdue")},
    **{invariant.name: invariant.statement.sql().replace("$1", "100") for invariant in ALL if not invariant.deep},
}


@pytest.mark.contract("K21")
async def test_the_views_and_a_shallow_check_read_only_what_is_live(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.fetch(
            "insert into ferryman.tasks (id, state, name, payload, due_at, ends_at, created_at, updated_at, timeout_ms,"
            " max_retries, rank) select gen_random_uuid(), 'ready', 'mail', '{}', now(), now(), now(), now(), 1, 0, now()"
            " from generate_series(1, 5000)"
        )
        await tx.execute("set local session_replication_role = replica")
        await tx.fetch("update ferryman.tasks set state = 'succeeded', finished_at = now(), rank = null")
    async with db.session() as session:
        await session.execute("vacuum analyze ferryman.tasks")
        for look in LOOKS.values():
            plan = "\n".join(row[0] for row in await session.fetch(f"explain {look}"))
            assert "Seq Scan on tasks" not in plan, plan
