"""The reasons of limits, pauses, waits and schedules (K22)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman import Context, Ferryman
from ferryman.kernel.pool import Database, Session
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.states import READY, RUNNING, TASK
from ferryman.testing import plant
from tests.tasks.conftest import MakeApp
from tests.tasks.parking import parked
from tests.tasks.test_explain import WATCHED, work

HOUR = timedelta(hours=1)


@pytest.fixture
async def tx(db: Database) -> AsyncIterator[Session]:
    async with db.session() as session:
        await session.fetch(WATCHED)
        await work(session)
        yield session


async def told(tx: Session, id: UUID) -> Explanation:
    explanation = await explain(tx, id, tenant="default")
    assert explanation is not None
    return explanation


async def holder(tx: Session, **columns: object) -> UUID:
    return await plant(tx, TASK, RUNNING, slot=True, leased_until=HOUR, **columns)


@pytest.mark.contract("K22", "T17")
@pytest.mark.parametrize("tenant", ["*", "default"])
async def test_its_queue_is_paused(tx: Session, tenant: str) -> None:
    task = await plant(tx, TASK, READY)
    await tx.fetch("insert into ferryman.queues (name, tenant, paused_at) values ('default', $1, now())", tenant)

    assert (await told(tx, task)).codes() == ["queue_paused"]


@pytest.mark.contract("K22", "T17")
async def test_its_handler_is_paused(tx: Session) -> None:
    task = await plant(tx, TASK, READY)
    await tx.fetch("insert into ferryman.paused_names (name) values ('mail')")

    assert (await told(tx, task)).codes() == ["name_paused"]


@pytest.mark.contract("K22", "T17")
async def test_its_queue_is_at_its_limit_and_who_holds_it_until_when(tx: Session) -> None:
    await tx.fetch("insert into ferryman.queues (name, concurrency) values ('default', 2)")
    task, first = await plant(tx, TASK, READY), await holder(tx)
    free = (await told(tx, task)).codes()
    await holder(tx, tenant="other")

    [reason] = (await told(tx, task)).reasons

    assert (free, reason.code) == (["in_line"], "queue_limit")
    # Both are counted; of the other tenant's nothing more is told.
    assert reason.says.startswith("2 of its queue")
    doing = "It waits for a slot of its queue default: 2 of 2 are held, 1 of them by other tenants."
    assert (await told(tx, task)).doing == doing
    assert reason.about["holders"] == [str(first)]
    assert reason.until is not None


@pytest.mark.contract("K22", "T17")
async def test_its_tenants_share_is_used_up(tx: Session) -> None:
    await tx.fetch("insert into ferryman.queues (name, tenant, concurrency) values ('default', 'default', 1)")
    task = await plant(tx, TASK, READY)
    await holder(tx, tenant="other")
    free = (await told(tx, task)).codes()
    await holder(tx)

    full = await told(tx, task)
    assert (free, full.codes()) == (["in_line"], ["queue_limit"])
    assert full.doing == "It waits for a slot of its tenant in its queue default: 1 of 1 is held."


@pytest.mark.contract("K22", "T17")
async def test_its_key_is_at_its_limit(tx: Session) -> None:
    await tx.fetch("insert into ferryman.queues (name, key_concurrency) values ('default', 2)")
    task, before = await plant(tx, TASK, READY, limit_key="k"), await plant(tx, TASK, READY, limit_key="k", rank=-HOUR)
    other = await plant(tx, TASK, READY, limit_key="other", rank=-HOUR)
    first = await holder(tx, limit_key="k")
    await holder(tx, limit_key="other")
    [free] = (await told(tx, task)).reasons
    second = await holder(tx, limit_key="k")

    [reason] = (await told(tx, task)).reasons

    assert (free.code, free.about["ahead"]) == ("in_line", 1)
    assert (reason.code, reason.about["key_concurrency"]) == ("key_limit", 2)
    assert set(reason.about["holders"]) == {str(first), str(second)}
    assert (await told(tx, task)).doing == "It waits for a slot of its key k in its queue default: 2 of 2 are held."
    assert (await told(tx, other)).doing == "It waits for a worker."
    assert before != task


@pytest.mark.contract("K22", "T17")
async def test_the_rate_gate_of_its_queue_is_closed_until(tx: Session) -> None:
    task = await plant(tx, TASK, READY)
    await tx.fetch(
        "insert into ferryman.queues (name, rate_count, rate_interval, burst, open_at)"
        " values ('default', 1, '1 minute', 3, now() + interval '5 minutes')"
    )

    [closed] = (await told(tx, task)).reasons
    await tx.fetch("update ferryman.queues set open_at = now() + interval '2 minutes'")
    opened = (await told(tx, task)).codes()
    [row] = await tx.fetch("select now() as now")

    assert closed.code == "rate_gate"
    assert closed.until is not None
    assert abs(closed.until - row["now"] - timedelta(minutes=3)) < timedelta(seconds=30)
    assert opened == ["in_line"]


@pytest.mark.contract("K22", "T19")
async def test_what_a_parked_task_waits_for(make_app: MakeApp) -> None:
    async def crew() -> None: ...

    async def sail(ctx: Context, what: str) -> None:
        if what == "sleep":
            await ctx.sleep(HOUR, name="tide")
        elif what == "event":
            await ctx.wait_event("wind", HOUR)
        else:
            await ctx.child("crew")

    app = await make_app((crew, {"queue": "far"}), sail)
    async with app.worker():
        tasks = {what: await app.tasks.create(sail, what=what) for what in ("sleep", "event", "child")}
        explained = {}
        for what, task in tasks.items():
            await parked(app, task.id)
            explained[what] = await app.tasks.explain(task.id)

    assert {what: each.codes() for what, each in explained.items()} == {
        "sleep": ["sleeping"],
        "event": ["waiting_for_event"],
        "child": ["waiting_for_child"],
    }
    assert [each.doing for each in explained.values()] == [
        "It sleeps.",
        "It waits for an event.",
        "It waits for its children.",
    ]
    assert [each.reasons[0].until is None for each in explained.values()] == [False, False, True]
    assert explained["event"].reasons[0].says.startswith("It waits for the event wind until ")
    assert explained["child"].reasons[0].about["child_state"] == "ready"


@pytest.mark.contract("K22", "T19", "T20")
async def test_what_a_parked_task_waits_for_stands_in_its_rows_and_not_in_the_log(make_app: MakeApp) -> None:
    async def sail(ctx: Context, what: str) -> None:
        if what == "sleep":
            await ctx.sleep(HOUR, name="tide")
        else:
            await ctx.wait_event("wind", HOUR)

    app = await make_app(sail)
    async with app.worker():
        tasks = [await app.tasks.create(sail, what=what) for what in ("sleep", "event")]
        for task in tasks:
            await parked(app, task.id)
    async with app.database.transaction() as tx:
        await tx.fetch("set local session_replication_role = replica")  # as if these days had been dropped
        await tx.fetch("truncate ferryman.events")

    assert [(await app.tasks.explain(task.id)).codes()[0] for task in tasks] == ["sleeping", "waiting_for_event"]


@pytest.mark.contract("K22", "T5", "T19")
async def test_one_that_backs_off_waits_for_none_of_the_calls_it_left_open(tx: Session) -> None:
    task = await plant(tx, TASK, READY, rank=None, wake_at=HOUR, attempt=2, epoch=2, last_error_code="TASK_TIMEOUT")
    await tx.fetch(
        "insert into ferryman.task_steps (task, at, until, nth, kind, name, state)"
        " select $1, now(), now() + interval '2 hours', 1, kind, kind, 'open' from unnest(array['sleep', 'event']) as kind",
        task,
    )
    await tx.fetch(
        "insert into ferryman.task_waits (task, epoch, children, names) values ($1, 1, '{}', '{event}')", task
    )

    assert (await told(tx, task)).codes() == ["backing_off"]


@pytest.mark.contract("K22", "T10")
async def test_a_schedule_is_explained_too(database_url: str, tx: Session) -> None:
    async with Ferryman(database_url, tenant="other") as other:
        await other.schedules.create("mail", {}, every=HOUR, schedule_id="hourly")
    async with Ferryman(database_url) as app:
        schedule = await app.schedules.create("mail", {}, every=HOUR, schedule_id="hourly")
        active = await app.tasks.explain("hourly")
        await tx.fetch(
            "update ferryman.schedules set next_run_at = now() - interval '1 second' where id = $1", schedule.id
        )
        due = await app.tasks.explain(schedule.id)
        await schedule.pause()
        paused = await app.tasks.explain(schedule.id)
        await schedule.delete()
        ended = await app.tasks.explain(schedule.id)

    assert [each.codes() for each in (active, due, paused, ended)] == [
        ["fires_at"], ["firing_due"], ["schedule_paused"], ["schedule_ended"],
    ]  # fmt: skip
    assert active.id == schedule.id
    assert (active.domain, active.state, active.doing) == ("schedule", "active", "It waits for its next firing.")
    assert active.ends is not None
    assert active.ends.rule == "T10"
