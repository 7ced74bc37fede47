"""Queues at work: limits, rates, pauses, fairness, through the doors that users hold."""

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Context
from ferryman.kernel import errors
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp
from tests.tasks.hall import Hall, job, results
from tests.tasks.parking import parked

pytestmark = pytest.mark.contract("T17")

# Limits


async def test_no_more_run_than_a_queue_allows_over_all_workers(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit(n: int) -> None:
        await hall.visit("all")

    apps = [await make_app((visit, {"queue": "mail"})) for _ in range(2)]
    for app in apps:
        app.queue("mail", concurrency=3)
    async with apps[0].worker(queues=["mail"]), apps[1].worker(queues=["mail"]):
        made = await apps[0].tasks.create_many(visit, [{"n": n} for n in range(60)])
        await hall.seen(3)
        hall.doors.set()
        await results(made)

    assert hall.most["all"] == 3
    assert await apps[0].queues.holders("mail") == []


async def test_no_more_of_one_key_run_than_its_slots_and_other_keys_go_on(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit(customer: int) -> None:
        await hall.visit(customer)

    app = await make_app((visit, {"limit_key": "customer-{customer}"}))
    app.queue("default", key_concurrency=2)
    made = await app.tasks.create_many(visit, [{"customer": n % 7} for n in range(70)])
    async with app.worker():
        await hall.seen(2 * 7)
        hall.doors.set()
        await results(made)

    assert made[0].task.limit_key == "customer-0"
    assert set(hall.most.values()) == {2}


async def test_a_key_on_a_queue_that_nobody_declared_has_one_slot(make_app: MakeApp) -> None:
    hall = Hall()

    async def visit() -> None:
        await hall.visit("all")

    app = await make_app(visit)
    async with app.worker():
        await results([await app.tasks.create(visit, limit_key="customer-7") for _ in range(5)])

    assert hall.most["all"] == 1


async def test_a_slot_that_becomes_free_is_taken_at_once_by_whoever_waits(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit(n: int) -> None:
        await hall.visit(n)

    first, second = await make_app(visit), await make_app(visit)
    await first.queues.set("default", new=True, concurrency=1)
    # No worker polls within the test: only the ring can tell the second.
    quiet = {"poll": timedelta(seconds=60), "concurrency": 1}
    async with first.worker(**quiet), second.worker(**quiet):
        made = [await first.tasks.create(visit, n=n) for n in range(2)]
        await hall.seen(1)
        hall.doors.set()
        await results(made)  # within half the time after which somebody would poll


async def test_a_slot_of_a_cancelled_task_is_free(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit(n: int) -> None:
        await hall.visit(n)

    app = await make_app(visit)
    app.queue("default", concurrency=1)
    async with app.worker():
        held = await app.tasks.create(visit, n=0)
        await hall.seen(1)
        await app.tasks.create(visit, n=1)
        await held.cancel()
        await hall.seen(2)
        hall.doors.set()

    assert hall.order == [0, 1]


async def test_a_limit_set_while_work_runs_counts_what_runs(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit(n: int) -> None:
        await hall.visit("all")

    app = await make_app(visit)
    async with app.worker():
        made = list(await app.tasks.create_many(visit, [{"n": n} for n in range(3)]))
        await hall.seen(3)
        queue = await app.queues.set("default", concurrency=3)
        made += await app.tasks.create_many(visit, [{"n": n} for n in range(6)])
        assert (queue.held, len(await app.queues.holders("default"))) == (3, 3)
        assert await (await make_app(visit, tenant="acme")).queues.holders("default") == [], (
            "tasks of others are counted"
        )
        hall.doors.set()
        await results(made)

    assert hall.most["all"] == 3


@pytest.mark.contract("T21")
async def test_what_waits_at_a_gate_still_ends_at_its_time(make_app: MakeApp) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, concurrency=1)
    await app.queues.pause("default")
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    task = await app.tasks.create(job, ends_at=soon, limit_key="k")
    async with app.worker():
        with pytest.raises(errors.TaskExpired):
            await task.result(timeout=PATIENCE_SECONDS)


@pytest.mark.contract("T19")
async def test_a_parked_task_holds_no_slot_and_is_heard_at_its_gate_when_it_is_woken(make_app: MakeApp) -> None:
    async def flow(ctx: Context, waits: bool) -> str:
        return str(await ctx.wait_event("go", 60)) if waits else "passed"

    app = await make_app(flow)
    async with app.worker(poll=timedelta(seconds=60)):
        first = await app.tasks.create(flow, waits=True, limit_key="k")
        await parked(app, first.id)
        other = await app.tasks.create(flow, waits=False, limit_key="k")
        assert await other.result(timeout=PATIENCE_SECONDS) == "passed"
        await first.send_event("go", "now")
        assert await first.result(timeout=PATIENCE_SECONDS) == "now"


# Rates


async def test_a_rate_bounds_the_starts_over_all_workers(make_app: MakeApp) -> None:
    apps = [await make_app(job) for _ in range(2)]
    await apps[0].queues.set("default", new=True, rate="50/s", burst=3)
    made = await apps[0].tasks.create_many(job, [{}] * 40)
    async with apps[0].worker(), apps[1].worker():
        await results(made)

    async with apps[0].database.session() as tx:
        starts = [
            row["at"] for row in await tx.fetch("select started_at as at from ferryman.tasks order by started_at")
        ]
    # Three at one moment: of however many that follow each other, the last comes one interval later for each beyond three.
    for (first, begun), (last, at) in itertools.combinations(enumerate(starts), 2):
        assert at - begun > timedelta(seconds=(last - first - 2) / 50 - 0.001)


async def test_a_rate_that_is_raised_holds_for_workers_that_wait_for_the_one_before(make_app: MakeApp) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, rate="1/hour", burst=1)
    async with app.worker():
        await results(await app.tasks.create_many(job, [{}]))
        waiting = await app.tasks.create_many(job, [{}] * 2)
        await app.queues.set("default", rate="50/s", burst=1)
        await results(waiting)


# Pauses


async def test_nothing_of_a_paused_queue_starts_and_what_comes_in_waits(make_app: MakeApp) -> None:
    hall = Hall()

    async def visit(name: str) -> None:
        await hall.visit(name)

    app = await make_app(visit)
    async with app.worker(queues=["default", "other"]):
        await results([await app.tasks.create(visit, name="before")])
        await app.queues.pause("default")
        paused = await app.tasks.create(visit, name="paused")
        await results([await app.tasks.create(visit, name="other", queue="other") for _ in range(3)])
        assert hall.order == ["before", "other", "other", "other"]
        await app.queues.resume("default")
        await results([paused])


async def test_no_task_of_a_paused_handler_starts(make_app: MakeApp) -> None:
    app = await make_app((job, {"name": "one"}), (job, {"name": "two"}))
    await app.queues.pause_task("one")
    async with app.worker():
        paused = await app.tasks.create("one", name="one")
        await results([await app.tasks.create("two", name="two") for _ in range(3)])
        assert (await paused.refresh()).state == "ready"
        assert list(await app.queues.paused_tasks()) == ["one"]
        await app.queues.resume_task("one")
        await results([paused])


# Fairness


async def test_a_tenant_with_little_to_do_is_served_beside_one_with_much(make_app: MakeApp, database_url: str) -> None:
    order: list[str] = []

    async def visit(tenant: str) -> None:
        order.append(tenant)

    app, small = await make_app(visit, tenant="large"), await make_app(visit, tenant="small")
    await app.queues.set("default", new=True, concurrency=2)
    made = [*await app.tasks.create_many(visit, [{"tenant": "large"}] * 100)]
    late = await small.tasks.create_many(visit, [{"tenant": "small"}] * 5)
    async with app.worker():
        await results(late)
        place = max(n for n, tenant in enumerate(order) if tenant == "small")
        await results(made)

    assert place < 30


async def test_a_heavier_queue_gets_its_share_of_a_worker(make_app: MakeApp) -> None:
    order: list[str] = []

    async def visit(queue: str) -> None:
        order.append(queue)

    app = await make_app(visit)
    app.queue("heavy", weight=4)
    app.queue("light")
    made: list[Any] = []
    for queue in ("light", "heavy"):
        made += await app.tasks.create_many(visit, [{"queue": queue}] * 100, queue=queue)
    async with app.worker(queues=["light", "heavy"], concurrency=10, lanes=1):
        await results(made)

    first = Counter(order[:60])
    assert first["heavy"] > 2 * first["light"] > 0
