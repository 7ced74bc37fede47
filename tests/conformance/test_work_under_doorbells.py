"""R8, K2: one suite of stories about work, told under every doorbell; whatever it loses, doubles or delays, all work ends.

Each story has two apps on one database, with a doorbell each: one creates and asks, the other works. So every ring has to
cross, and nothing but the poll remains where none does.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from ferryman import Command, Context, Ferryman, Message, Turn
from ferryman.ingest.ports import Item, Page, Request
from ferryman.ingest.sinks.call import CallSink
from ferryman.kernel import errors, invariants
from ferryman.kernel.doorbell import Doorbell
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.testing import travel
from tests.conformance.ear import Make
from tests.patience import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.contract("R8", "K2"),
    pytest.mark.parametrize("name", ["postgres", "nats", "none", "lossy", "deaf", "doubled", "late"]),
]

POLL = timedelta(milliseconds=100)
MANY = 500


class Stage(NamedTuple):
    """Who creates, who works, and what the handlers told."""

    client: Ferryman
    works: Ferryman
    begun: "asyncio.Queue[str]"
    aborted: "asyncio.Queue[str]"


def play(database_url: str, bell: Doorbell) -> Ferryman:
    return Ferryman(
        database_url,
        doorbell=bell,
        worker={
            "poll": POLL,
            "lease": "6s",
            "grace": "5s",
            "lease_sweep_seconds": 0.2,
            "watchdog_interval_seconds": 0.5,
        },
    )


@pytest.fixture
async def stage(database_url: str, make: Make, name: str) -> AsyncIterator[Stage]:
    works, client = (play(database_url, make(name)) for _ in range(2))
    begun: asyncio.Queue[str] = asyncio.Queue()
    aborted: asyncio.Queue[str] = asyncio.Queue()

    @works.task
    async def double(n: int) -> int:
        return 2 * n

    @works.task
    def slowly(n: int, ctx: Context) -> int:
        ctx.progress(50, "half way")
        return n

    @works.task
    async def third_time(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return ctx.attempt

    @works.task
    async def never() -> None:
        raise ValueError("never")

    @works.task
    async def stays(word: str) -> None:
        begun.put_nowait(word)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            aborted.put_nowait(word)
            raise

    async with works, client:
        yield Stage(client, works, begun, aborted)
        async with works.database.session() as tx:
            assert await invariants.check(tx, TASK_INVARIANTS) == []


async def test_what_is_created_while_a_worker_waits_is_run(stage: Stage) -> None:
    async with stage.works.worker():
        for number in range(5):
            handle = await stage.client.tasks.create("double", n=number)

            assert await handle.result(timeout=PATIENCE_SECONDS) == 2 * number


async def test_what_was_created_before_its_worker_came_is_run(stage: Stage) -> None:
    handles = [await stage.client.tasks.create("double", n=number) for number in range(5)]

    async with stage.works.worker():
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in handles] == [0, 2, 4, 6, 8]


async def test_five_hundred_at_once_all_end(stage: Stage) -> None:
    async with stage.works.worker(concurrency=50):
        handles = await stage.client.tasks.create_many("double", [{"n": n} for n in range(MANY)])
        results = await asyncio.gather(*(each.result(timeout=PATIENCE_SECONDS) for each in handles))

    assert results == [2 * n for n in range(MANY)]


async def test_two_workers_share_the_work_and_run_nothing_twice(stage: Stage) -> None:
    async with stage.works.worker(concurrency=5), stage.works.worker(concurrency=5):
        handles = await stage.client.tasks.create_many("slowly", [{"n": n} for n in range(100)])
        results = await asyncio.gather(*(each.result(timeout=PATIENCE_SECONDS) for each in handles))

    assert results == list(range(100))
    async with stage.client.database.session() as tx:
        rows = await tx.fetch("select distinct epoch, attempt from ferryman.tasks")
    assert [tuple(row) for row in rows] == [(1, 1)]  # type: ignore[arg-type]


async def test_a_retry_comes_when_its_time_has_come(stage: Stage) -> None:
    async with stage.works.worker():
        handle = await stage.client.tasks.create("third_time", max_retries=2, backoff=0.05)

        assert await handle.result(timeout=PATIENCE_SECONDS) == 3


async def test_a_failure_is_told_to_its_waiter(stage: Stage) -> None:
    async with stage.works.worker():
        handle = await stage.client.tasks.create("never", max_retries=0)

        with pytest.raises(errors.TaskRetryExhausted, match="ValueError: never"):
            await handle.result(timeout=PATIENCE_SECONDS)


async def test_a_task_of_the_near_future_runs_then_and_not_before(stage: Stage) -> None:
    at = datetime.now(UTC) + timedelta(seconds=0.5)
    async with stage.works.worker():
        handle = await stage.client.tasks.create("double", {"n": 4}, at=at)

        assert await handle.result(timeout=PATIENCE_SECONDS) == 8

    record = await handle.refresh()
    assert record.started_at is not None
    assert record.started_at >= at


async def test_a_task_of_tomorrow_runs_when_tomorrow_has_come(stage: Stage) -> None:
    async with stage.works.worker():
        handle = await stage.client.tasks.create("double", {"n": 4}, at=datetime.now(UTC) + timedelta(days=1))
        async with stage.client.database.session() as tx:
            await travel(tx, timedelta(days=1, seconds=1))

        assert await handle.result(timeout=PATIENCE_SECONDS) == 8


async def test_a_waiting_task_can_be_cancelled(stage: Stage) -> None:
    handle = await stage.client.tasks.create("double", n=1)
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))

    assert await handle.cancel() is True

    with pytest.raises(errors.TaskCancelled):
        await waiting


async def test_a_running_handler_is_told_that_its_task_was_cancelled(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        handle = await stage.client.tasks.create("stays", word="one")
        other = await stage.client.tasks.create("stays", word="two")
        assert {await stage.begun.get(), await stage.begun.get()} == {"one", "two"}

        assert await handle.cancel() is True

        assert await stage.aborted.get() == "one"
        with pytest.raises(errors.TaskCancelled):
            await handle.result(timeout=PATIENCE_SECONDS)
        assert stage.aborted.empty()
        await other.cancel()


async def test_progress_and_the_end_reach_a_watcher(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        handle = await stage.client.tasks.create("slowly", n=7)

        states = [word.state.value async for word in handle.watch()]

    assert states[-1] == "succeeded"


async def test_what_a_leaving_worker_hands_back_is_run_by_another(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with stage.works.worker(grace=timedelta(0), lease=timedelta(seconds=300)):
            handle = await stage.client.tasks.create("stays", word="one")
            assert await stage.begun.get() == "one"
        async with stage.works.worker(grace=timedelta(0), lease=timedelta(seconds=300)):
            assert await stage.begun.get() == "one"
            await handle.cancel()
            assert (await handle.refresh()).attempt == 1


async def test_turns_batches_and_commands_end_too(stage: Stage) -> None:
    @stage.works.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @stage.works.agent
    async def clerk(turn: Turn) -> int:
        return int(await turn.call_tool("add", a=1, b=2))

    @stage.works.on_command("Sum.Request")
    async def asked(command: Command) -> Message:
        return Message("Sum.Add", {"a": 1, "b": 2})

    stage.works.capability("Sum.Add")(add)
    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        await stage.client.agents.create("ada", profile="clerk")
        turn = await stage.client.agents.send("ada", "add")
        task = {"target_strategy": "new", "target_ref": "clerk", "instruction": "add"}
        batch = await stage.works.batches.fork([task, task], deadline_seconds=60)
        sent = await stage.client.commands.send("Sum.Request", {})

        assert await turn.result() == 3
        assert (await batch.result())["status"] == "success"
        assert (await stage.client.commands.wait(sent.id)).status == "COMPLETED"


async def test_a_durable_task_hears_of_its_event_and_of_its_children(stage: Stage) -> None:
    @stage.works.task
    async def part(n: int) -> int:
        return n

    @stage.works.task
    async def whole(ctx: Context) -> int:
        word = await ctx.wait_event("go", timeout=PATIENCE_SECONDS)
        parts = await ctx.join([ctx.child(part, {"n": n}) for n in range(3)])
        return int(word) + sum(parts)

    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        task = await stage.client.tasks.create("whole", {})
        await stage.client.tasks.send_event(task.id, "go", 4)
        assert await task.result() == 7


async def test_a_schedule_fires_and_a_window_is_fetched(stage: Stage) -> None:
    @stage.works.task
    async def fired() -> str:
        return "fired"

    taken: list[Item] = []

    def take(items: Sequence[Item]) -> None:
        taken.extend(items)

    @stage.works.source(name="depot", sink=CallSink(take), safety_lag=timedelta(0))
    async def depot(request: Request) -> Page:
        return Page([{"id": 1}])

    async with asyncio.timeout(PATIENCE_SECONDS), stage.works.worker():
        made = await stage.client.schedules.create("fired", {}, every=3600)
        # From the side that does not work, so that the plan has to be heard of there.
        stage.client.source(name="depot", sink=CallSink(take), safety_lag=timedelta(0))(depot)
        since = datetime(2026, 1, 1, tzinfo=UTC)
        plan = await stage.client.ingest.plan(source="depot", since=since, until=since + timedelta(hours=1))
        assert plan.id is not None
        await stage.client.ingest.wait(plan.id)
        assert taken == [{"id": 1}]
        async with stage.client.database.session() as tx:
            await travel(tx, timedelta(hours=1))
        while not (found := await stage.client.schedules.firings(made.id)):  # noqa: ASYNC110 - told through the database
            await asyncio.sleep(POLL.total_seconds())
        assert await (await stage.client.tasks.get(found[0].task_id)).result() == "fired"
