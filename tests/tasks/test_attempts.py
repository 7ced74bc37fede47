"""Tries, retries and their delays (T3, T4, T5)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from ferryman import Context, DoNotRetry, Ferryman, Handle
from ferryman.kernel import errors, retry
from ferryman.tasks.rules import ending
from ferryman.tasks.states import FAILED, READY, SUCCEEDED
from ferryman.testing import travel
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp


async def end_of(handle: Handle) -> Any:
    with pytest.raises(errors.FerrymanError) as failure:
        await handle.result(timeout=PATIENCE_SECONDS)
    return failure.value


async def log_of(app: Ferryman, handle: Handle) -> list[tuple[Any, ...]]:
    events = await app.tasks.events(handle.id)
    return [(each.from_state, each.to_state, each.attempt, each.reason_code) for each in events[1:]]


async def settled(app: Ferryman, handle: Handle, attempt: int) -> None:
    """Return when this attempt has been settled: the sweep is rung for the delay of the next."""
    rung = asyncio.Event()
    stop = app.doorbell.listen("due", lambda _hints: rung.set())
    while (await handle.refresh()).attempt == attempt:
        await asyncio.wait_for(rung.wait(), PATIENCE_SECONDS)
        rung.clear()
    stop()


@pytest.mark.contract("T3", "T4", "T13")
async def test_a_task_that_always_fails_is_tried_once_more_than_its_retries(make_app: MakeApp) -> None:
    seen: list[int] = []

    async def fails(ctx: Context) -> None:
        seen.append(ctx.attempt)
        raise ValueError(f"try {ctx.attempt}")

    app = await make_app(fails)
    handle = await app.tasks.create(fails, max_retries=2, backoff=0)

    async with app.worker():
        error = await end_of(handle)

    task = await handle.refresh()
    assert seen == [1, 2, 3]
    assert (error.code, task.state, task.attempt) == ("TASK_RETRY_EXHAUSTED", FAILED, 3)
    assert task.last_error_code == "TASK_RETRY_EXHAUSTED"
    assert task.last_error_reason == "TASK_EXECUTION_FAILED: ValueError: try 3"
    assert await log_of(app, handle) == [
        ("ready", "running", 1, None),
        ("running", "ready", 1, "TASK_EXECUTION_FAILED"),
        ("ready", "running", 2, None),
        ("running", "ready", 2, "TASK_EXECUTION_FAILED"),
        ("ready", "running", 3, None),
        ("running", "failed", 3, "TASK_RETRY_EXHAUSTED"),
    ]


@pytest.mark.contract("T3", "T4")
async def test_without_retries_the_first_failure_is_the_last(make_app: MakeApp) -> None:
    async def fails() -> None:
        raise ValueError("no")

    app = await make_app(fails)
    handle = await app.tasks.create(fails, max_retries=0)

    async with app.worker():
        error = await end_of(handle)

    assert (error.code, (await handle.refresh()).attempt) == ("TASK_RETRY_EXHAUSTED", 1)


@pytest.mark.contract("T4")
async def test_a_retry_that_succeeds_leaves_no_error_behind(make_app: MakeApp) -> None:
    async def second_time(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return "done"

    app = await make_app(second_time)
    handle = await app.tasks.create(second_time, backoff=0)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == "done"

    task = await handle.refresh()
    assert (task.state, task.attempt, task.last_error_code, task.last_error_reason) == (SUCCEEDED, 2, None, None)


@pytest.mark.contract("T4")
async def test_a_handler_that_asks_not_to_be_retried_is_not(make_app: MakeApp) -> None:
    async def refuses() -> None:
        raise DoNotRetry("the address does not exist")

    app = await make_app(refuses)
    handle = await app.tasks.create(refuses, max_retries=5)

    async with app.worker():
        error = await end_of(handle)

    task = await handle.refresh()
    assert (error.code, task.attempt) == ("TASK_EXECUTION_FAILED", 1)
    assert (task.last_error_code, task.last_error_reason) == ("TASK_EXECUTION_FAILED", "the address does not exist")


@pytest.mark.contract("T4", "T6")
async def test_timeout_and_failure_exclude_each_other_for_one_attempt(make_app: MakeApp) -> None:
    async def cleans_up_badly(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while ending")

    app = await make_app(cleans_up_badly)
    handle = await app.tasks.create(cleans_up_badly, timeout=0.05, max_retries=0)

    async with app.worker():
        await end_of(handle)

    reason = (await handle.refresh()).last_error_reason or ""
    assert reason.startswith("TASK_TIMEOUT:")
    assert "TASK_EXECUTION_FAILED" not in reason


@pytest.mark.contract("T5")
async def test_a_retry_waits_out_its_backoff_and_no_longer(make_app: MakeApp) -> None:
    async def second_time(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    async def other() -> None: ...

    app = await make_app(second_time, other)
    handle = await app.tasks.create(second_time, backoff=3600)
    async with app.worker():
        await settled(app, handle, 1)
        waiting = await handle.refresh()
        await (await app.tasks.create(other)).result(timeout=PATIENCE_SECONDS)
        assert (await handle.refresh()).state == READY
        async with app.database.session() as tx:
            await travel(tx, timedelta(seconds=3600 * 1.1 + 1))
        app.doorbell.ring("due")

        assert await handle.result(timeout=PATIENCE_SECONDS) == 2

    assert waiting.attempt == 2
    assert timedelta(seconds=3600) <= waiting.due_at - waiting.updated_at <= timedelta(seconds=3960)


# A delay of a second may be over before anybody has read the row that tells of it.
NOTE_DELAYS = (
    "create table delays (attempt integer, wait interval)",
    """create function note_delay() returns trigger language plpgsql as
       $$ begin insert into delays values (old.attempt, new.due_at - new.updated_at); return null; end $$""",
    """create trigger delays after update on ferryman.tasks for each row
       when (new.attempt > old.attempt) execute function note_delay()""",
)


@pytest.mark.contract("T5", "K18")
@pytest.mark.parametrize(
    ("backoff", "least"),
    [(None, [1, 2, 4]), (7, [7, 7, 7]), ([1, 5], [1, 5, 5]), ({"base_seconds": 20, "factor": 3}, [20, 60, 60])],
    ids=str,
)
async def test_the_delays_are_those_asked_for(make_app: MakeApp, backoff: Any, least: list[float]) -> None:
    async def fails() -> None:
        raise ValueError("no")

    app = await make_app(fails)
    async with app.database.session() as tx:
        for statement in NOTE_DELAYS:
            await tx.fetch(statement)
    handle = await app.tasks.create(fails, max_retries=3, backoff=backoff)

    async with app.worker():
        for attempt in (1, 2, 3):
            await settled(app, handle, attempt)
            async with app.database.session() as tx:
                await travel(tx, timedelta(seconds=100))
            app.doorbell.ring("due")

    async with app.database.session() as tx:
        waits = [row["wait"].total_seconds() for row in await tx.fetch("select wait from delays order by attempt")]
    assert all(wanted <= waited <= wanted * 1.1 for wanted, waited in zip(least, waits, strict=True))


@pytest.mark.contract("K18", "T5")
def test_those_who_failed_at_one_moment_do_not_come_back_at_one_moment() -> None:
    failed = [
        ending.ending(attempt=1, max_retries=3, code=ending.EXECUTION_FAILED, reason="no", backoff=retry.DEFAULT)
        for _ in range(10)
    ]

    assert len({each.delay for each in failed}) == 10
