"""What one call, one queue or one line of code does to the others beside it: nothing (K12, K16, K24, T17)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Context, Ferryman
from ferryman.kernel import errors
from ferryman.tasks.states import CANCELLED, SUCCEEDED
from tests.patience import PATIENCE_SECONDS
from tests.tasks.parking import MakeApp, parked

SECONDS = 8  # less than our connections wait for a lock


async def mail(n: int = 0) -> int:
    return n


async def fails() -> None:
    raise errors.DoNotRetry("no")


async def rows(app: Ferryman) -> int:
    async with app.database.session() as tx:
        [row] = await tx.fetch("select count(*) as count from ferryman.tasks")
    return int(row["count"])


@pytest.mark.contract("K24", "K25")
async def test_a_create_without_a_key_waits_for_nobody_elses_key(make_app: MakeApp) -> None:
    app = await make_app(mail)
    async with app.database.transaction() as tx:
        await app.tasks.create(mail, idempotency_key="order-7", connection=tx)
        waiting = asyncio.create_task(app.tasks.create(mail, idempotency_key="order-7"))
        await asyncio.sleep(0)

        async with asyncio.timeout(SECONDS):
            plain = await app.tasks.create(mail, n=1)

        assert not waiting.done()
    assert (await waiting).id != plain.id


@pytest.mark.contract("K16", "T17")
@pytest.mark.parametrize("options", [{"idempotency_keys": ["a", "b", "c"]}, {"queue": "small"}])
async def test_many_in_a_callers_transaction_are_all_there_or_none(make_app: MakeApp, options: dict[str, Any]) -> None:
    app = await make_app(mail)
    await app.queues.set("small", max_depth=2, new=True)
    await app.tasks.create(mail, idempotency_key="b", max_retries=7)

    async with app.database.transaction() as tx:
        with pytest.raises((errors.TaskDuplicate, errors.TaskQueueFull)):
            await app.tasks.create_many(mail, [{}, {}, {}], max_retries=1, connection=tx, **options)
        lent = await app.tasks.create(mail, connection=tx)

    assert await rows(app) == 2
    assert (await app.tasks.record(lent.id)).name == "mail"


@pytest.mark.contract("T17")
async def test_a_depth_holds_for_whoever_has_set_it_before_any_ring_is_heard(make_app: MakeApp) -> None:
    app = await make_app(mail, doorbell="none")
    app.doorbell.ring = lambda *_told: None  # type: ignore[method-assign]  # not even in this process

    await app.queues.set("small", max_depth=1, new=True)

    await app.tasks.create(mail, queue="small")
    with pytest.raises(errors.TaskQueueFull):
        await app.tasks.create(mail, queue="small")


@pytest.mark.contract("T17", "T8")
async def test_a_queue_that_the_app_does_not_declare_is_refused_at_every_door(make_app: MakeApp) -> None:
    refused: list[str] = []

    async def parent(ctx: Context) -> None:
        try:
            await ctx.child(mail, queue="tpyo")
        except errors.UnknownQueue as error:
            refused.append(error.code)

    app = await make_app(mail, parent)
    app.queue("post")

    with pytest.raises(errors.UnknownQueue):
        await app.tasks.create(mail, queue="tpyo")
    with pytest.raises(errors.UnknownQueue):
        await app.schedules.create(mail, every=60, queue="tpyo")
    async with app.worker():
        await (await app.tasks.create(parent)).result(timeout=PATIENCE_SECONDS)

    assert refused == ["UNKNOWN_QUEUE"]


@pytest.mark.contract("T17")
async def test_a_worker_that_was_told_of_no_queues_serves_those_that_its_app_declares(make_app: MakeApp) -> None:
    app = await make_app(mail)
    app.queue("post")

    async with app.worker():
        assert await (await app.tasks.create(mail, {"n": 3}, queue="post")).result(timeout=PATIENCE_SECONDS) == 3


@pytest.mark.contract("T17")
async def test_a_try_anew_of_a_singleton_is_the_singleton(make_app: MakeApp) -> None:
    app = await make_app((fails, {"singleton": True}))
    async with app.worker():
        old = await app.tasks.create(fails)
        with pytest.raises(errors.FerrymanError):
            await old.result(timeout=PATIENCE_SECONDS)

    [tried] = await app.tasks.retry(old.id)
    met = await app.tasks.create(fails)

    assert (met.id, met.idempotent_hit) == (tried.new, True)


@pytest.mark.contract("T10", "K24")
async def test_a_schedule_whose_day_has_passed_does_not_keep_its_worker_from_starting(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = await make_app()
    past = datetime.now(UTC) - timedelta(days=1)

    @app.schedule(cron="0 8 * * *", ends_at=past, name="old")
    @app.task
    async def report() -> int:
        return 7

    async with app.worker():
        handle = await app.tasks.create(report)
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    assert (await handle.refresh()).state is SUCCEEDED
    assert "fires no more" in caplog.text
    assert await app.schedules.list() == []


@pytest.mark.contract("T19", "K24")
async def test_a_row_that_a_caller_holds_stops_no_other_tasks_steps(make_app: MakeApp) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def flow(ctx: Context, held: bool) -> int:
        if held:
            began.set()
            await go.wait()
        return await ctx.step("one", mail, 1)

    app = await make_app(flow)
    async with app.worker():
        held = await app.tasks.create(flow, held=True, max_retries=0)
        await began.wait()
        async with app.database.session() as caller:
            await caller.fetch("begin")
            await app.tasks.cancel(held.id, connection=caller)
            go.set()

            assert await (await app.tasks.create(flow, held=False)).result(timeout=SECONDS) == 1
            await caller.fetch("rollback")

        assert await held.result(timeout=PATIENCE_SECONDS) == 1


@pytest.mark.contract("K16", "T17")
@pytest.mark.parametrize("door", ["python", "sql"])
async def test_a_callers_open_transaction_does_not_shut_the_gate_of_a_queue_with_a_depth(
    make_app: MakeApp, door: str
) -> None:
    app = await make_app(mail)
    await app.queues.set("small", max_depth=100, concurrency=2, new=True)

    async with app.worker(queues=["small"]), app.database.session() as caller:
        await caller.fetch("begin")
        if door == "python":
            await app.tasks.create(mail, queue="small", connection=caller)
        else:
            await caller.fetch("""select ferryman.create_tasks('{"name": "mail", "queue": "small", "payload": {}}')""")
        async with app.database.session() as other:
            await other.fetch(
                "insert into ferryman.tasks (id, name, queue, payload, timeout_ms, max_retries, due_at, ends_at, created_at,"
                " updated_at, state, rank) select gen_random_uuid(), 'mail', 'small', '{}', 60000, 0, now(),"
                " now() + interval '1 day', now(), now(), 'ready', now()"
            )
        app.doorbell.ring("ready")

        async with asyncio.timeout(SECONDS), app.database.session() as other:
            while not await other.fetch("select from ferryman.tasks where state = 'succeeded'"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await caller.fetch("rollback")


@pytest.mark.contract("T10", "T19")
async def test_a_firing_that_overtakes_another_takes_its_children_along(make_app: MakeApp) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def flow(ctx: Context) -> None:
        await ctx.child(hang)

    app = await make_app(flow, hang)
    schedule = await app.schedules.create(flow, every=3600, overlap="cancel_previous")
    async with app.worker():
        first = await schedule.trigger()
        await parked(app, first.id)
        [child] = await app.tasks.list(name="hang")

        await schedule.trigger()

        assert (await app.tasks.record(first.id)).state is CANCELLED
        assert (await app.tasks.record(child.id)).state is CANCELLED


# As the result of a task over a slow wire; the server gives up a statement after 0.8 s.
SLOW = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$;
create trigger slow before update on ferryman.tasks
    for each row when (new.state = 'succeeded' and new.id = any ('{{{ids}}}')) execute function public.slow();
"""
MEND = "drop function public.slow() cascade"


@pytest.mark.contract("K24", "K25")
async def test_outcomes_that_take_too_long_by_themselves_keep_nobody_else_from_being_begun_and_ended(
    make_app: MakeApp,
) -> None:
    app = await make_app(mail, worker={"lease": "2s", "poll": "100ms"})
    slow = [await app.tasks.create(mail) for _ in range(2)]
    async with app.database.session() as tx:
        await tx.execute(SLOW.format(ids=",".join(str(each.id) for each in slow)))

    async with app.worker(), asyncio.timeout(SECONDS * 3):
        for n in range(5):
            assert await (await app.tasks.create(mail, n=n)).result() == n
        assert [(await app.tasks.record(each.id)).state.value for each in slow] == ["running"] * 2
        async with app.database.session() as tx:
            await tx.execute(MEND)
        assert [await each.result() for each in slow] == [0, 0]
