"""T19, T21: sleeps and waits for events survive restarts, hold no worker, and end."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Client, Context, Ferryman
from ferryman.kernel import errors, invariants
from ferryman.tasks.watch import TASK_INVARIANTS
from tests.patience import PATIENCE_SECONDS
from tests.tasks.parking import MakeApp, parked, parks, pass_time

pytestmark = pytest.mark.contract("T19")

ONCE: dict[str, Any] = {"max_retries": 0}


async def sound(app: Ferryman) -> None:
    async with app.database.session() as tx:
        assert await invariants.check(tx, TASK_INVARIANTS) == []


async def test_a_sleeping_task_holds_no_worker_and_is_ready_with_a_clock(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> str:
        await ctx.sleep(timedelta(hours=1))
        return "slept"

    async def other() -> str:
        return "ran"

    app = await make_app((flow, ONCE), other)
    async with app.worker(concurrency=1):
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        assert await (await app.tasks.create(other)).result(timeout=PATIENCE_SECONDS) == "ran"

        record = await task.refresh()
        assert (record.state, record.attempt, record.lease_owner) == ("ready", 1, None)
        assert timedelta(minutes=59) < record.due_at - record.updated_at < timedelta(minutes=61)
        await sound(app)
        await pass_time(app, 3601)
        assert await task.result(timeout=PATIENCE_SECONDS) == "slept"


@pytest.mark.contract("T13")
async def test_a_park_is_told_from_a_retry_in_the_log(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        await ctx.wait_event("go", 60)

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await task.send_event("go")
        await task.result(timeout=PATIENCE_SECONDS)

    happened = await app.tasks.events(task.id)
    assert [(event.from_state, event.to_state) for event in happened][1:4] == [
        ("ready", "running"), ("running", "ready"), ("ready", "running"),
    ]  # fmt: skip
    park = happened[2]
    assert (park.attempt, park.reason_code, park.reason_message) == (1, None, "parked")
    assert '"events": ["go"]' in str(park.data)
    assert {event.attempt for event in happened} == {1}


async def test_a_sleep_is_counted_from_its_first_call_and_not_from_each_replay(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> int:
        await asyncio.gather(ctx.sleep(100, name="long"), ctx.sleep(10, name="short"))
        return await ctx.step("count", lambda: 1)

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await pass_time(app, 11)
        await parked(app, task.id, times=2)
        await pass_time(app, 90)
        assert await task.result(timeout=PATIENCE_SECONDS) == 1


async def test_a_sleep_until_a_time_that_has_passed_does_not_park(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        await ctx.sleep(until=datetime.now(UTC) - timedelta(days=1))
        await ctx.sleep(0)

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await task.result(timeout=PATIENCE_SECONDS)

    assert await parks(app, task.id) == 0


@pytest.mark.contract("T21")
@pytest.mark.parametrize("wait", ["sleep", "until", "event"])
async def test_a_wait_past_the_end_of_its_task_is_refused(make_app: MakeApp, wait: str) -> None:
    later = datetime.now(UTC) + timedelta(days=400)

    async def flow(ctx: Context) -> None:
        match wait:
            case "sleep":
                await ctx.sleep(timedelta(days=400))
            case "until":
                await ctx.sleep(until=later)
            case _:
                await ctx.wait_event("go", timedelta(days=400))

    app = await make_app(flow)
    async with app.worker():
        task = await app.tasks.create(flow)
        with pytest.raises(errors.TaskWaitTooLong, match="would outlast its task"):
            await task.result(timeout=PATIENCE_SECONDS)

    record = await task.refresh()
    assert (record.state, record.attempt, record.last_error_code) == ("failed", 1, "TASK_WAIT_TOO_LONG")


@pytest.mark.contract("T21")
async def test_a_parked_task_is_cancelled_at_its_end(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        await ctx.wait_event("never")

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await sound(app)
        await pass_time(app, timedelta(days=31).total_seconds())
        with pytest.raises(errors.TaskExpired):
            await task.result(timeout=PATIENCE_SECONDS)


async def test_an_event_wakes_the_task_that_waits_for_it_and_brings_its_payload(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        return await ctx.wait_event("approval", timedelta(days=1))

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await app.tasks.send_event(task.id, "approval", {"by": "Ada", "yes": True})
        assert await task.result(timeout=PATIENCE_SECONDS) == {"by": "Ada", "yes": True}


async def test_an_event_of_another_name_does_not_wake_it(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        return await ctx.wait_event("go")

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await task.send_event("stop")
        assert (await task.refresh()).due_at == (await task.refresh()).ends_at
        await task.send_event("go", 1)
        assert await task.result(timeout=PATIENCE_SECONDS) == 1

    assert await parks(app, task.id) == 1


async def test_an_event_that_came_before_the_wait_is_there_and_each_is_taken_once(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        got = [await ctx.wait_event("go", 60), await ctx.wait_event("go", 60)]
        if ctx.attempt == 1:
            raise ValueError("once more")
        return [*got, await ctx.wait_event("go", 60)]

    app = await make_app((flow, {"max_retries": 1, "backoff": 0}))
    task = await app.tasks.create(flow)
    for n in range(3):
        await task.send_event("go", n)
    async with app.worker():
        assert await task.result(timeout=PATIENCE_SECONDS) == [0, 1, 2]

    assert await parks(app, task.id) == 0
    async with app.database.session() as tx:
        assert await tx.fetch("select from ferryman.task_signals") == []


async def test_two_waits_at_once_take_two_events(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        return await asyncio.gather(ctx.wait_event("go"), ctx.wait_event("go"))

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await task.send_event("go", 1)
        await parked(app, task.id, times=2)
        await task.send_event("go", 2)
        assert sorted(await task.result(timeout=PATIENCE_SECONDS)) == [1, 2]


async def test_an_event_that_does_not_come_raises_at_the_wait_and_at_each_replay(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> str:
        try:
            await ctx.wait_event("go", 10)
        except errors.TaskWaitTimeout as error:
            said = error.code
        if ctx.attempt == 1:
            await app.tasks.send_event(ctx.id, "go")  # too late, for good
            raise ValueError("once more")
        return said

    app = await make_app((flow, {"max_retries": 1, "backoff": 0}))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await pass_time(app, 11)
        assert await task.result(timeout=PATIENCE_SECONDS) == "TASK_WAIT_TIMEOUT"


async def test_a_wait_of_no_time_only_looks(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        first = await ctx.wait_event("go", 0)
        with pytest.raises(errors.TaskWaitTimeout):
            await ctx.wait_event("go", 0)
        return first

    app = await make_app((flow, ONCE))
    task = await app.tasks.create(flow)
    await task.send_event("go", 7)
    async with app.worker():
        assert await task.result(timeout=PATIENCE_SECONDS) == 7
    assert await parks(app, task.id) == 0


async def test_the_first_of_a_wait_and_a_step_lets_the_handler_go_on(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> str:
        late = asyncio.ensure_future(ctx.sleep(3600))
        quick = asyncio.ensure_future(ctx.step("quick", lambda: "done"))
        done, _ = await asyncio.wait([late, quick], return_when=asyncio.FIRST_COMPLETED)
        late.cancel()
        return done.pop().result() or ""

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        assert await task.result(timeout=PATIENCE_SECONDS) == "done"
    assert await parks(app, task.id) == 0


async def test_a_step_beside_a_wait_is_not_cut_off(make_app: MakeApp) -> None:
    began, go, ran = asyncio.Event(), asyncio.Event(), []

    async def slow() -> int:
        ran.append(1)
        began.set()
        await go.wait()
        return len(ran)

    async def flow(ctx: Context) -> Any:
        async with asyncio.TaskGroup() as group:
            step = group.create_task(ctx.step("slow", slow))
            event = group.create_task(ctx.wait_event("go"))
        return [step.result(), event.result()]

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await asyncio.wait_for(began.wait(), PATIENCE_SECONDS)
        await task.send_event("go", "sent while it ran")
        go.set()
        assert await task.result(timeout=PATIENCE_SECONDS) == [1, "sent while it ran"]
    assert ran == [1]


async def test_what_a_handler_cleans_up_is_cleaned_up_when_it_parks(make_app: MakeApp) -> None:
    cleaned: list[int] = []

    async def flow(ctx: Context) -> None:
        try:
            await ctx.wait_event("go")
        finally:
            cleaned.append(1)

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        assert cleaned == [1]
        await task.send_event("go")
        await task.result(timeout=PATIENCE_SECONDS)


@pytest.mark.contract("T14")
async def test_a_parked_task_can_be_cancelled(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        await ctx.wait_event("never")

    app = await make_app((flow, ONCE))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        assert await task.cancel(reason="not wanted")
        with pytest.raises(errors.TaskCancelled, match="not wanted"):
            await task.result(timeout=PATIENCE_SECONDS)
        with pytest.raises(errors.TaskEnded, match="has ended"):
            await task.send_event("never")


@pytest.mark.contract("K12")
async def test_no_tenant_sends_events_to_the_tasks_of_another(make_app: MakeApp) -> None:
    async def flow() -> None: ...

    ours, theirs = await make_app(flow), await make_app(flow, tenant="zeta")
    task = await ours.tasks.create(flow)

    with pytest.raises(errors.TaskNotFound):
        await theirs.tasks.send_event(task.id, "go")


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("two words", None, "TASK_INVALID_REQUEST"),
        ("go", {1}, "TASK_INVALID_PAYLOAD"),
        ("go", float("nan"), "TASK_INVALID_PAYLOAD"),
    ],
)
async def test_a_wrong_event_is_refused(make_app: MakeApp, name: str, given: Any, code: str) -> None:
    async def flow() -> None: ...

    app = await make_app(flow)
    task = await app.tasks.create(flow)

    with pytest.raises(errors.FerrymanError) as caught:
        await task.send_event(name, given)
    assert caught.value.code == code


async def test_a_script_can_send_an_event(database_url: str, make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        return [await ctx.wait_event("a"), await ctx.wait_event("b")]

    app = await make_app(flow)
    task = await app.tasks.create(flow, task_id="order-1")

    def script() -> None:
        with Client(database_url) as client:
            client.send_event("order-1", "a", 1)
            client.get("order-1").send_event("b", 2)

    await asyncio.to_thread(script)
    async with app.worker():
        assert await task.result(timeout=PATIENCE_SECONDS) == [1, 2]
