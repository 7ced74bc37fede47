"""Waiting for a result without busy polling, progress and logs (T18)."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman import Context
from ferryman.kernel import errors
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp


@pytest.mark.contract("T18")
@pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, None, True, 1.5, "ü"]}, False], ids=repr)
async def test_a_result_comes_back_as_it_was(make_app: MakeApp, value: Any) -> None:
    async def gives() -> Any:
        return value

    app = await make_app(gives)
    handle = await app.tasks.create(gives)

    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == value


@pytest.mark.contract("T18", "K2")
async def test_a_result_comes_by_doorbell_and_not_by_polling(make_app: MakeApp) -> None:
    async def quick() -> int:
        return 1

    app = await make_app(quick, worker={"poll": timedelta(minutes=10)})

    async with app.worker():
        handle = await app.tasks.create(quick)
        assert await handle.result(timeout=PATIENCE_SECONDS) == 1


@pytest.mark.contract("T18", "K2")
async def test_a_result_comes_from_another_process_without_any_doorbell(make_app: MakeApp) -> None:
    async def quick() -> int:
        return 1

    worker, client = await make_app(quick, doorbell="none"), await make_app(quick, doorbell="none")
    handle = await client.tasks.create(quick)

    async with worker.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == 1


@pytest.mark.contract("T18")
async def test_many_may_wait_for_one_task_and_one_who_leaves_disturbs_nobody(make_app: MakeApp) -> None:
    go = asyncio.Event()

    async def waits() -> int:
        await go.wait()
        return 7

    app = await make_app(waits)
    handle = await app.tasks.create(waits)
    async with app.worker():
        waiters = [asyncio.create_task(handle.result()) for _ in range(5)]
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.01)
        waiters[0].cancel()
        go.set()

        assert await asyncio.gather(*waiters[1:]) == [7] * 4


@pytest.mark.contract("T18", "K20")
async def test_waiting_for_a_task_that_does_not_exist_is_refused(make_app: MakeApp) -> None:
    app = await make_app()

    with pytest.raises(errors.TaskNotFound):
        await asyncio.wait_for(app.tasks.end(uuid4()), PATIENCE_SECONDS)


@pytest.mark.contract("T18")
async def test_progress_is_seen_while_the_task_runs(make_app: MakeApp) -> None:
    seen_half = asyncio.Event()

    async def steps(ctx: Context) -> None:
        ctx.progress(50, "half way")
        await seen_half.wait()

    app = await make_app(steps)
    handle = await app.tasks.create(steps)
    words: list[tuple[int | None, str | None, str]] = []
    async with app.worker():
        async for word in handle.watch():
            words.append((word.percent, word.message, word.state))
            if word.percent == 50:
                seen_half.set()

    assert (50, "half way", "running") in words
    assert words[-1][2] == "succeeded"
    assert (await handle.refresh()).progress == 50


@pytest.mark.contract("T18", "R6")
@pytest.mark.parametrize("percent", [-1, 101, float("nan"), float("inf"), True], ids=repr)
async def test_progress_outside_0_to_100_is_the_handlers_mistake(make_app: MakeApp, percent: Any) -> None:
    async def wrong(ctx: Context) -> None:
        ctx.progress(percent)

    app = await make_app(wrong)
    handle = await app.tasks.create(wrong, max_retries=0)

    async with app.worker():
        with pytest.raises(errors.TaskRetryExhausted) as failure:
            await handle.result(timeout=PATIENCE_SECONDS)

    assert "expected 0 to 100" in str(failure.value.details["reason"])


@pytest.mark.contract("T18")
async def test_what_a_handler_says_is_kept_in_order_for_each_attempt(make_app: MakeApp) -> None:
    def says(ctx: Context) -> None:
        ctx.log(f"try {ctx.attempt}")
        ctx.log("no\0pe \ud800", level="warning")
        if ctx.attempt == 1:
            raise ValueError

    app = await make_app(says)
    handle = await app.tasks.create(says, backoff=0)
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    lines = await app.tasks.logs(handle.id)

    assert [(line.attempt, line.level, line.message) for line in lines] == [
        (1, "info", "try 1"),
        (1, "warning", "no\\x00pe \\ud800"),
        (2, "info", "try 2"),
        (2, "warning", "no\\x00pe \\ud800"),
    ]


@pytest.mark.contract("T18")
async def test_a_flood_of_words_is_bounded_and_says_so(make_app: MakeApp) -> None:
    async def floods(ctx: Context) -> None:
        for n in range(10_500):
            ctx.log(str(n))

    app = await make_app(floods)
    handle = await app.tasks.create(floods)
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    async with app.database.session() as tx:
        [row] = await tx.fetch(
            "select count(*) as count, max(message) filter (where level = 'warning') as last from ferryman.task_logs"
        )
    assert row["count"] == 10_001
    assert "some are missing" in row["last"]


@pytest.mark.contract("T18")
async def test_whoever_waits_is_let_go_when_the_app_closes(make_app: MakeApp) -> None:
    async def never() -> None: ...

    app = await make_app(never)
    handle = await app.tasks.create(never)
    waiter = asyncio.create_task(handle.result())
    await asyncio.sleep(0)

    await app.close()

    with pytest.raises(errors.NotOpen):
        await waiter
