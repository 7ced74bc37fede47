"""T19: a step runs once and is remembered across attempts; a replay that meets another one fails and says so."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pydantic
import pytest

from ferryman import Context, DoNotRetry
from ferryman.kernel import errors, faults
from tests.patience import PATIENCE_SECONDS
from tests.tasks.parking import MakeApp, parked, pass_time

pytestmark = pytest.mark.contract("T19")

AGAIN: dict[str, Any] = {"max_retries": 3, "backoff": 0}


class Ran:
    """Counts what really ran."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def do(self, name: str, value: Any = None) -> Any:
        self.names.append(name)
        return value


async def test_a_step_runs_once_however_often_its_task_is_tried(make_app: MakeApp) -> None:
    ran = Ran()

    async def flow(ctx: Context) -> list[Any]:
        first = await ctx.step("first", ran.do, "first", {"a": 1})
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return [first, await ctx.step("second", ran.do, "second", 2)]

    app = await make_app((flow, AGAIN))
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == [{"a": 1}, 2]

    assert ran.names == ["first", "second"]


async def test_a_step_that_fails_is_tried_again_at_the_next_attempt(make_app: MakeApp) -> None:
    ran = Ran()

    async def flaky(attempt: int) -> int:
        await ran.do("flaky")
        if attempt < 2:
            raise ValueError("not yet")
        return attempt

    async def flow(ctx: Context) -> int:
        await ctx.step("sound", ran.do, "sound")
        return await ctx.step("flaky", flaky, ctx.attempt)

    app = await make_app((flow, AGAIN))
    async with app.worker():
        task = await app.tasks.create(flow)
        assert await task.result(timeout=PATIENCE_SECONDS) == 2

    assert ran.names == ["sound", "flaky", "flaky"]
    again = next(event for event in await app.tasks.events(task.id) if event.reason_code)
    assert again.reason_message == "ValueError: not yet"


async def test_a_step_has_tries_of_its_own(make_app: MakeApp) -> None:
    ran = Ran()

    async def flaky() -> str:
        await ran.do("flaky")
        if len(ran.names) < 3:
            raise ValueError("not yet")
        return "done"

    async def flow(ctx: Context) -> str:
        return await ctx.step("flaky", flaky, retries=2, backoff=0)

    app = await make_app((flow, {"max_retries": 0}))
    async with app.worker():
        task = await app.tasks.create(flow)
        assert await task.result(timeout=PATIENCE_SECONDS) == "done"


async def test_a_failure_that_the_handler_caught_is_remembered(make_app: MakeApp) -> None:
    ran = Ran()

    async def primary() -> str:
        await ran.do("primary")
        if len(ran.names) == 1:
            raise ConnectionError("away")
        return "primary"

    async def flow(ctx: Context) -> str:
        try:
            got = await ctx.step("primary", primary)
        except errors.TaskStepFailed as error:
            got = await ctx.step("fallback", ran.do, "fallback", error.message)
        if ctx.attempt == 1:
            raise ValueError("once more")
        return got

    app = await make_app((flow, AGAIN))
    async with app.worker():
        got = await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert got == "The step 'primary' failed: ConnectionError: away."
    assert ran.names == ["primary", "fallback"]


async def test_a_step_that_must_not_be_retried_fails_its_task_at_once(make_app: MakeApp) -> None:
    async def refuse() -> None:
        raise DoNotRetry("the card was refused")

    async def flow(ctx: Context) -> None:
        await ctx.step("charge", refuse, retries=5, backoff=0)

    app = await make_app((flow, AGAIN))
    async with app.worker():
        task = await app.tasks.create(flow)
        with pytest.raises(errors.TaskExecutionFailed, match="the card was refused"):
            await task.result(timeout=PATIENCE_SECONDS)

    assert (await task.refresh()).attempt == 1


class Order(pydantic.BaseModel):
    id: UUID
    lines: tuple[int, ...]


async def test_a_result_is_the_same_the_first_time_and_at_each_replay(make_app: MakeApp) -> None:
    seen: list[Any] = []

    def typed() -> Order:
        return Order(id=UUID(int=7), lines=(1, 2))

    def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return {"pair": (1, 2)}

    async def flow(ctx: Context) -> None:
        seen.append((await ctx.step("typed", typed), await ctx.step("untyped", untyped)))
        if ctx.attempt < 2:
            raise ValueError("once more")

    app = await make_app((flow, AGAIN))
    async with app.worker():
        await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert seen == [(Order(id=UUID(int=7), lines=(1, 2)), {"pair": [1, 2]})] * 2


@pytest.mark.contract("T4", "K13")
async def test_a_result_that_is_not_json_ends_its_own_task_and_no_other(make_app: MakeApp) -> None:
    async def flow(ctx: Context, bad: bool) -> int:
        try:
            await ctx.step("make", lambda: {1, 2} if bad else 1)
        except errors.FerrymanError:
            return -1  # whatever the handler makes of it
        return 1

    app = await make_app((flow, AGAIN))
    async with app.worker():
        tasks = [await app.tasks.create(flow, bad=n == 3) for n in range(6)]
        for n, task in enumerate(tasks):
            if n != 3:
                assert await task.result(timeout=PATIENCE_SECONDS) == 1
        with pytest.raises(errors.TaskInvalidResult, match="step 'make' cannot be stored"):
            await tasks[3].result(timeout=PATIENCE_SECONDS)

    record = await tasks[3].refresh()
    assert (record.state, record.attempt, record.last_error_code) == ("failed", 1, "TASK_INVALID_RESULT")


Flow = Callable[[Context], Any]


async def _ab(ctx: Context) -> None:
    await ctx.step("a", lambda: 1)
    await ctx.step("b", lambda: 2)


async def _renamed(ctx: Context) -> None:
    await ctx.step("a", lambda: 1)
    await ctx.step("c", lambda: 3)


async def _inserted(ctx: Context) -> None:
    await ctx.step("new", lambda: 0)
    await _ab(ctx)


async def _removed(ctx: Context) -> None:
    await ctx.step("b", lambda: 2)


async def _other_kind(ctx: Context) -> None:
    await ctx.sleep(0, name="a")


@pytest.mark.parametrize("later", [_renamed, _inserted, _removed, _other_kind])
async def test_a_replay_that_meets_another_step_fails_and_is_not_retried(make_app: MakeApp, later: Flow) -> None:
    async def flow(ctx: Context) -> None:
        await (_ab(ctx) if ctx.attempt == 1 else later(ctx))
        raise ValueError("once more")

    app = await make_app((flow, AGAIN))
    async with app.worker():
        task = await app.tasks.create(flow)
        with pytest.raises(errors.TaskReplayMismatch, match="in an earlier attempt"):
            await task.result(timeout=PATIENCE_SECONDS)

    record = await task.refresh()
    assert (record.state, record.attempt, record.last_error_code) == ("failed", 2, "TASK_REPLAY_MISMATCH")


async def test_a_handler_that_swallows_the_mismatch_fails_all_the_same(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(f"step{ctx.attempt}", lambda: 1)
        except errors.FerrymanError:
            return "fine"
        raise ValueError("once more")

    app = await make_app((flow, AGAIN))
    async with app.worker():
        with pytest.raises(errors.TaskReplayMismatch):
            await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)


async def test_a_handler_may_grow_at_its_end_while_tasks_are_in_flight(make_app: MakeApp) -> None:
    ran = Ran()

    async def flow(ctx: Context) -> None:
        await ctx.step("a", ran.do, "a")
        if ctx.attempt == 1:
            raise ValueError("once more")
        await ctx.step("b", ran.do, "b")

    app = await make_app((flow, AGAIN))
    async with app.worker():
        await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert ran.names == ["a", "b"]


async def test_parallel_branches_are_known_again_by_name_in_whatever_order_they_went(make_app: MakeApp) -> None:
    ran = Ran()

    async def flow(ctx: Context) -> tuple[str, str]:
        y_ended = asyncio.Event()

        async def x() -> str:
            await ctx.step("x1", ran.do, "x1")
            if ctx.attempt == 1:
                await y_ended.wait()
                raise ValueError("the replay comes to x2 before it comes to y2")
            got: str = await ctx.step("x2", ran.do, "x2", "x")
            return got

        async def y() -> str:
            await ctx.step("y1", ran.do, "y1")
            got: str = await ctx.step("y2", ran.do, "y2", "y")
            y_ended.set()
            return got

        return await asyncio.gather(x(), y())

    app = await make_app((flow, AGAIN))
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == ["x", "y"]

    assert sorted(ran.names) == ["x1", "x2", "y1", "y2"]


async def test_a_row_of_steps_of_one_name_is_kept_apart_by_its_order(make_app: MakeApp) -> None:
    ran = Ran()

    async def flow(ctx: Context) -> list[int]:
        got = await asyncio.gather(*(ctx.step("fetch", ran.do, "fetch", n) for n in range(5)))
        if ctx.attempt == 1:
            raise ValueError("once more")
        return got

    app = await make_app((flow, AGAIN))
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == [0, 1, 2, 3, 4]

    assert len(ran.names) == 5


async def test_two_branches_that_share_a_name_are_refused(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        async def branch(n: int) -> None:
            await ctx.step("fetch", lambda: n)
            await ctx.step("store", lambda: n)

        await asyncio.gather(branch(1), branch(2))

    app = await make_app((flow, AGAIN))
    async with app.worker():
        task = await app.tasks.create(flow)
        with pytest.raises(errors.TaskStepAmbiguous, match="step 'fetch' is called in two parallel branches"):
            await task.result(timeout=PATIENCE_SECONDS)

    assert (await task.refresh()).attempt == 1


async def test_a_step_inside_a_step_is_refused(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> None:
        await ctx.step("outer", lambda: ctx.step("inner", lambda: 1))

    app = await make_app((flow, {"max_retries": 0}))
    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted, match="inside the step 'outer'"):
            await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)


def _plain(ctx: Context) -> None:
    assert ctx.step("a", lambda: 1) is None


@pytest.mark.contract("T16")
async def test_steps_are_for_async_handlers(make_app: MakeApp) -> None:
    app = await make_app((_plain, {"max_retries": 0}))
    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted, match="are for async handlers"):
            await (await app.tasks.create(_plain)).result(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ctx: ctx.step("two words", int), "name: expected 1 to 200 characters"),
        (lambda ctx: ctx.step("a", int, retries=-1), "retries: expected a whole number"),
        (lambda ctx: ctx.sleep(), "sleep: expected a duration or until"),
        (lambda ctx: ctx.sleep(-1), "duration: expected seconds, 0 or more, got -1"),
        (lambda ctx: ctx.sleep(float("nan")), "duration: expected seconds"),
        (lambda ctx: ctx.wait_event("go", "soon"), "timeout: expected seconds, 0 or more, got 'soon'"),
        (lambda ctx: ctx.child("nobody"), "No handler is named nobody"),
        (lambda ctx: ctx.child("flow", {"odd": 1}), "The payload does not fit flow"),
    ],
)
async def test_a_wrong_call_says_what_was_expected(make_app: MakeApp, call: Flow, said: str) -> None:
    async def flow(ctx: Context) -> None:
        await call(ctx)

    app = await make_app((flow, {"max_retries": 0}))
    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted) as caught:
            await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert said in caught.value.message


@pytest.mark.contract("K24")
async def test_a_step_written_while_the_database_goes_away_is_written_once(make_app: MakeApp) -> None:
    ran = Ran()

    async def flow(ctx: Context) -> int:
        await ctx.step("a", ran.do, "a")
        return len(ran.names)

    app = await make_app(flow)
    with faults.armed("step.committed=away@1"):
        async with app.worker():
            assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == 1

    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) as count from ferryman.task_steps")
    assert row["count"] == 1


@pytest.mark.contract("T6")
async def test_parked_time_is_outside_the_timeout_and_uses_no_attempt(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> int:
        await ctx.sleep(3600)
        return ctx.attempt

    app = await make_app((flow, {"timeout": 60, "max_retries": 0}))
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        await pass_time(app, 3601)
        assert await task.result(timeout=PATIENCE_SECONDS) == 1


@pytest.mark.contract("K24")
async def test_a_step_waits_for_tables_that_are_not_there_as_the_end_of_a_handler_does(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def flow(ctx: Context) -> int:
        begun.set()
        await go.wait()
        return await ctx.step("one", int)

    app = await make_app((flow, {"max_retries": 0}))
    async with app.worker():
        task = await app.tasks.create(flow)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        async with app.database.session() as tx:
            await tx.fetch("alter table ferryman.task_steps rename to put_away")
        go.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "durable calls wait for the database" not in caplog.messages:  # noqa: ASYNC110 - what is logged
                await asyncio.sleep(0.01)
        async with app.database.session() as tx:
            await tx.fetch("alter table ferryman.put_away rename to task_steps")

        assert await task.result(timeout=PATIENCE_SECONDS) == 0
