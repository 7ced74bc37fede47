"""T17 holds whoever lets a task be born: children and firings meet keys and full queues as creates do."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Context, Ferryman
from ferryman.kernel import errors, invariants
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Line
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from ferryman.tasks.work.scheduler import Scheduler
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

pytestmark = pytest.mark.contract("T17")

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ONCE: dict[str, Any] = {"max_retries": 0}


async def report(customer: int = 1) -> int:
    return customer


async def lone(app: Ferryman, name: str = "report") -> Any:
    """Return the only task of a name."""
    [task] = [each for each in await app.tasks.list() if each.name == name]
    return task


async def bounded(app: Ferryman, *, depth: int = 1, at_limit: str = "refuse_newest") -> None:
    await app.queues.set("reports", new=True, max_depth=depth, at_limit=at_limit)
    await app.tasks.flows.learn()


async def sound(app: Ferryman) -> None:
    async with app.database.session() as tx:
        assert await invariants.check(tx, [*TASK_INVARIANTS, *SCHEDULE_INVARIANTS]) == []


# Children


@pytest.mark.contract("T19")
async def test_a_child_has_the_keys_that_its_handler_declares(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> list[int]:
        return await ctx.join([ctx.child(report, customer=n) for n in (7, 8)])

    app = await make_app((flow, ONCE), (report, {"limit_key": "c-{customer}", "singleton": "s-{customer}"}))
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == [7, 8]

    async with app.database.session() as tx:
        rows = await tx.fetch("select limit_key, singleton, slot from ferryman.tasks where callback = 'child'")
    assert sorted(tuple(row) for row in rows) == [("c-7", "s-7", True), ("c-8", "s-8", True)]  # type: ignore[arg-type]
    await sound(app)


@pytest.mark.contract("T19")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"queue": "reports"}, "TASK_QUEUE_FULL"),
        ({"singleton": True, "queue": "elsewhere"}, "TASK_ALREADY_LIVE"),
        ({"debounce": 60.0}, "TASK_ALREADY_LIVE"),
    ],
)
async def test_a_child_that_cannot_be_born_is_refused_in_its_parents_handler_and_nothing_is_stored(
    make_app: MakeApp, options: dict[str, Any], code: str
) -> None:
    told: list[errors.FerrymanError] = []

    async def flow(ctx: Context) -> str:
        child = ctx.child(report, customer=2)
        with pytest.raises(errors.FerrymanError) as refused:
            await child
        told.append(refused.value)
        return refused.value.code

    app = await make_app((flow, ONCE), (report, options))
    await bounded(app)
    living = await app.tasks.create(report, customer=1)
    due = living.task.due_at
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == code

    [error] = told
    assert error.details.get("task_id", str(living.id)) == str(living.id)
    found = await lone(app)
    assert (found.id, found.due_at) == (living.id, due), "neither born, nor put off in somebody's name"
    async with app.database.session() as tx:
        assert await tx.fetch("select from ferryman.task_steps") == []
    await sound(app)


@pytest.mark.contract("T19")
async def test_a_refused_child_is_tried_again_with_the_next_attempt(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> int:
        if ctx.attempt == 2:
            await living.cancel()
        return await ctx.child(report, customer=2)

    app = await make_app((flow, {"max_retries": 1, "backoff": 0}), (report, {"singleton": True}))
    living = await app.tasks.create(report, customer=1, queue="nobody")
    async with app.worker():
        task = await app.tasks.create(flow)
        assert await task.result(timeout=PATIENCE_SECONDS) == 2

    assert (await task.refresh()).attempt == 2


@pytest.mark.contract("T19")
async def test_a_handler_that_goes_on_without_a_refused_child_takes_the_same_way_again(make_app: MakeApp) -> None:
    ways: list[str] = []

    async def flow(ctx: Context) -> str:
        try:
            way = str(await ctx.child(report, customer=2))
        except errors.TaskAlreadyLive as error:
            way = error.details["task_id"]
        ways.append(way)
        await ctx.step("note", lambda: way)
        if ctx.attempt == 1:
            await living.cancel()
            raise ValueError("once more")
        return way

    app = await make_app((flow, {"max_retries": 1, "backoff": 0}), (report, {"singleton": True, "queue": "elsewhere"}))
    living = await app.tasks.create(report, customer=1)
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == str(living.id)

    assert ways == [str(living.id)] * 2, "though the other had ended by then"


@pytest.mark.contract("T19")
async def test_of_children_asked_for_together_those_are_born_that_may(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> list[Any]:
        children = [ctx.child(report, customer=n) for n in range(4)]
        told: list[Any] = []
        for child in children:
            try:
                told.append(await child)
            except errors.TaskQueueFull as error:
                told.append(error.code)
        return told

    app = await make_app((flow, ONCE), (report, {"queue": "reports"}))
    await bounded(app, depth=2)
    async with app.worker(queues=["default", "reports"]):
        result = await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert result[:2] == [0, 1]
    assert len(await app.tasks.list(queue="reports")) >= 2
    await sound(app)


@pytest.mark.contract("T19")
@pytest.mark.parametrize("at_limit", ["cancel_oldest", "coalesce"])
async def test_a_child_makes_room_for_itself_but_is_not_answered_with_anothers_task(
    make_app: MakeApp, at_limit: str
) -> None:
    async def flow(ctx: Context) -> int:
        return await ctx.child(report, customer=2)

    app = await make_app((flow, ONCE), (report, {"queue": "reports"}))
    await bounded(app, at_limit=at_limit)
    await app.queues.pause("reports")
    older = await app.tasks.create(report, customer=1)
    async with app.worker(queues=["default", "reports"], poll=timedelta(seconds=1)):
        task = await app.tasks.create(flow)
        if at_limit == "coalesce":
            with pytest.raises(errors.FerrymanError, match="takes no more"):
                await task.result(timeout=PATIENCE_SECONDS)
            assert (await older.refresh()).state == "ready"
        else:
            with pytest.raises(errors.TaskCancelled):
                await older.result(timeout=PATIENCE_SECONDS)
            await app.queues.resume("reports")
            assert await task.result(timeout=PATIENCE_SECONDS) == 2
    await sound(app)


# Firings


@asynccontextmanager
async def firing(app: Ferryman) -> AsyncIterator[Scheduler]:
    line = Line(app._open.url)
    yield Scheduler(line, NoDoorbell(), ends_after=DAY, looks=app.tasks.flows.looks)
    await line.close()


async def fire(app: Ferryman, *, by: timedelta = MINUTE) -> None:
    """Let all schedules come due, and fire them."""
    async with app.database.session() as tx:
        await travel(tx, by)
    async with firing(app) as scheduler:
        while await scheduler.once():
            continue


async def reasons(app: Ferryman, name: str) -> list[list[tuple[str, str | None]]]:
    """Return why firings were skipped, for each time the schedule went on."""
    said = [json.loads(each.data) for each in await app.schedules.events(name) if each.data]
    told = [data for data in said if "fire_times" in data]
    return [[(each["code"], each.get("task_id")) for each in data.get("reasons", [])] for data in told]


@pytest.mark.contract("T10")
async def test_a_firing_has_the_keys_that_its_handler_declares_and_the_payload_makes(make_app: MakeApp) -> None:
    app = await make_app((report, {"limit_key": "c-{customer}", "singleton": "s-{customer}"}))
    await app.schedules.create(report, every=MINUTE, customer=5)
    await app.accept(
        {"name": "report", "schedule_type": "every", "interval": "1m", "limit_key": "mine", "singleton": "own"}
    )

    await fire(app)

    async with app.database.session() as tx:
        rows = await tx.fetch("select limit_key, singleton from ferryman.tasks order by limit_key")
    assert [tuple(row) for row in rows] == [("c-5", "s-5"), ("mine", "own")]  # type: ignore[arg-type]
    async with app.worker():
        task = await app.tasks.get((await app.tasks.list())[0].id)
        await task.result(timeout=PATIENCE_SECONDS)
    await sound(app)


@pytest.mark.contract("T10")
async def test_a_declared_schedule_follows_the_keys_that_its_handler_declares(database_url: str) -> None:
    for key in (None, "c-{customer}"):
        app = Ferryman(database_url)
        app.schedule({"customer": 3}, every=MINUTE)(app.task(limit_key=key)(report))
        async with app, app.worker():
            pass
        async with app, app.database.session() as tx:
            [row] = await tx.fetch("select limit_key from ferryman.schedules")
    assert row["limit_key"] == "c-3"


@pytest.mark.contract("T10")
@pytest.mark.parametrize(
    ("options", "code"), [({"queue": "reports"}, "TASK_QUEUE_FULL"), ({"singleton": True}, "TASK_ALREADY_LIVE")]
)
async def test_a_firing_that_may_not_be_is_skipped_for_a_reason_and_the_schedule_goes_on(
    make_app: MakeApp, options: dict[str, Any], code: str
) -> None:
    app = await make_app((report, options))
    await bounded(app)
    await app.schedules.create(report, every=MINUTE, schedule_id="s")
    living = await app.tasks.create(report)

    await fire(app)
    await living.cancel()
    await fire(app)

    schedule = await app.schedules.record("s")
    assert (schedule.state, schedule.fired, schedule.skipped) == ("active", 1, 1)
    met = None if code == "TASK_QUEUE_FULL" else str(living.id)
    assert await reasons(app, "s") == [[(code, met)], []]
    assert schedule.next_run_at is not None
    await sound(app)


@pytest.mark.contract("T10")
@pytest.mark.parametrize("at_limit", ["cancel_oldest", "coalesce"])
async def test_a_firing_at_a_full_queue_does_what_its_queue_agreed_to(make_app: MakeApp, at_limit: str) -> None:
    app = await make_app((report, {"queue": "reports"}))
    await bounded(app, at_limit=at_limit)
    await app.schedules.create(report, every=MINUTE, schedule_id="s")
    older = await app.tasks.create(report)

    await fire(app)

    schedule = await app.schedules.record("s")
    if at_limit == "cancel_oldest":
        assert (schedule.fired, schedule.skipped, (await older.refresh()).state) == (1, 0, "cancelled")
    else:
        assert (schedule.fired, schedule.skipped, (await older.refresh()).state) == (0, 1, "ready")
    await sound(app)


@pytest.mark.contract("T10")
async def test_what_its_own_schedule_skips_takes_nobodys_room(make_app: MakeApp) -> None:
    app = await make_app((report, {"queue": "reports"}))
    await bounded(app, depth=2, at_limit="cancel_oldest")
    oldest = await app.tasks.create(report)
    await app.schedules.create(report, every=MINUTE, schedule_id="s", overlap="skip")

    await fire(app)
    await fire(app)

    schedule = await app.schedules.record("s")
    assert (schedule.fired, schedule.skipped) == (1, 1)
    assert (await oldest.refresh()).state == "ready"


@pytest.mark.contract("T10")
async def test_a_debounced_firing_waits_for_quiet_and_the_next_puts_it_off(make_app: MakeApp) -> None:
    app = await make_app((report, {"debounce": 90.0}))
    await app.schedules.create(report, every=MINUTE, schedule_id="s", customer=4)

    await fire(app)
    waiting = await lone(app)
    await fire(app)
    later = await lone(app)

    assert (waiting.state, waiting.id) == ("pending", later.id)
    assert later.due_at - waiting.due_at > 0.9 * MINUTE
    assert (await app.schedules.record("s")).skipped == 1
    await sound(app)


@pytest.mark.contract("T10")
async def test_firings_of_two_schedules_with_one_singleton_make_one_task(make_app: MakeApp) -> None:
    app = await make_app((report, {"singleton": True}))
    for name in ("a", "b"):
        await app.schedules.create(report, every=MINUTE, schedule_id=name)

    await fire(app)

    await lone(app)
    counts = [(each.fired, each.skipped) for each in await app.schedules.list()]
    assert sorted(counts) == [(0, 1), (1, 0)]


@pytest.mark.contract("T10")
async def test_a_trigger_answers_as_a_create_would(make_app: MakeApp) -> None:
    async def other() -> None: ...

    app = await make_app((report, {"singleton": True}), (other, {"queue": "reports"}))
    await bounded(app)
    await app.schedules.create(report, every=MINUTE, schedule_id="s")
    await app.schedules.create(other, every=MINUTE, schedule_id="full")
    living = await app.tasks.create(report)
    await app.tasks.create(other)

    met = await app.schedules.trigger("s")
    with pytest.raises(errors.TaskQueueFull):
        await app.schedules.trigger("full")

    assert (met.id, met.idempotent_hit) == (living.id, True)
    assert [each.fired for each in await app.schedules.list()] == [0, 0]
    assert len(await app.tasks.list()) == 2


@pytest.mark.contract("T10", "W23")
async def test_a_key_that_an_open_transaction_holds_holds_up_one_schedule_and_no_other(make_app: MakeApp) -> None:
    async def other() -> None: ...

    app = await make_app((report, {"singleton": True}), other)
    await app.schedules.create(report, every=MINUTE)
    await app.schedules.create(other, every=MINUTE)
    async with app.database.transaction() as tx:
        await app.tasks.create(report, connection=tx._connection)

        await fire(app)

        await lone(app, "other")
    assert [each.name for each in await app.tasks.list()].count("report") == 1


# A wait for quiet that could never end


async def test_a_wait_for_quiet_that_outlasts_its_task_is_refused_and_nothing_is_stored(make_app: MakeApp) -> None:
    app = await make_app((report, {"debounce": 60.0}))
    soon = datetime.now(UTC) + timedelta(seconds=30)

    with pytest.raises(errors.TaskInvalidRequest) as refused:
        await app.tasks.create(report, ends_at=soon)
    with pytest.raises(errors.TaskInvalidRequest):
        await app.tasks.create_many(report, [{"customer": 1}], ends_at=soon)

    assert refused.value.details["field"] == "debounce"
    assert await app.tasks.list() == []
    await app.tasks.create(report, ends_at=soon + MINUTE)


async def test_a_call_that_would_push_a_waiting_task_past_its_end_brings_its_payload_and_no_delay(
    make_app: MakeApp,
) -> None:
    app = await make_app((report, {"debounce": 60.0}))
    first = await app.tasks.create(report, customer=1, ends_at=datetime.now(UTC) + timedelta(seconds=90))
    async with app.database.session() as tx:
        await travel(tx, timedelta(seconds=45))

    again = await app.tasks.create(report, customer=2)

    assert (again.id, again.task.due_at) == (first.id, first.task.due_at)
    assert (await again.refresh()).payload == '{"customer": 2}'
