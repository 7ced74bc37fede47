"""Queues at work: limits, rates, pauses, fairness, through the doors that users hold."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Client, Context
from ferryman.app import wiring
from ferryman.kernel import errors, watchdog
from ferryman.kernel.pool import Line
from tests.tasks.conftest import MakeApp
from tests.tasks.parking import parked

pytestmark = pytest.mark.contract("T17")

PATIENCE_SECONDS = 30.0


class Hall:
    """Counts who is inside, by a name; nobody leaves before the doors are opened, if they are closed."""

    def __init__(self, *, open: bool = True) -> None:
        self.inside: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()
        self.order: list[Any] = []
        self.doors = asyncio.Event()
        self._moved = asyncio.Event()
        if open:
            self.doors.set()

    async def visit(self, name: Any) -> None:
        self.inside[name] += 1
        self.most[name] = max(self.most[name], self.inside[name])
        self.order.append(name)
        self._moved.set()
        await asyncio.sleep(0)
        await self.doors.wait()
        self.inside[name] -= 1

    async def seen(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.order) < count:
                self._moved.clear()
                await self._moved.wait()


async def job(name: str = "x") -> str:
    return name


async def results(handles: Any) -> list[Any]:
    return [await handle.result(timeout=PATIENCE_SECONDS) for handle in handles]


# Limits


async def test_no_more_run_than_a_queue_allows_over_all_workers(make_app: MakeApp) -> None:
    hall = Hall()

    async def visit(n: int) -> None:
        await hall.visit("all")

    apps = [await make_app((visit, {"queue": "mail"})) for _ in range(2)]
    for app in apps:
        app.queue("mail", concurrency=3)
    async with apps[0].worker(queues=["mail"]), apps[1].worker(queues=["mail"]):
        await results(await apps[0].tasks.create_many(visit, [{"n": n} for n in range(60)]))

    assert hall.most["all"] == 3
    assert await apps[0].queues.holders("mail") == []


async def test_no_more_of_one_key_run_than_its_slots_and_other_keys_go_on(make_app: MakeApp) -> None:
    hall = Hall()

    async def visit(customer: int) -> None:
        await hall.visit(customer)

    app = await make_app((visit, {"limit_key": "customer-{customer}"}))
    app.queue("default", key_concurrency=2)
    made = await app.tasks.create_many(visit, [{"customer": n % 7} for n in range(70)])
    async with app.worker():
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
        began = time.monotonic()
        hall.doors.set()
        await results(made)

    assert time.monotonic() - began < 10


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
    starts: list[float] = []

    async def begin() -> None:
        starts.append(time.monotonic())

    apps = [await make_app(begin) for _ in range(2)]
    await apps[0].queues.set("default", new=True, rate="50/s", burst=3)
    made = await apps[0].tasks.create_many(begin, [{}] * 40)
    async with apps[0].worker(), apps[1].worker():
        await results(made)

    # Forty starts, three of them at one moment: the last one comes no sooner than 37 intervals after the first.
    assert max(starts) - min(starts) > 37 / 50 - 0.1


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


# Depth


async def test_a_full_queue_refuses_the_newest_and_stores_nothing(make_app: MakeApp) -> None:
    app = await make_app((job, {"queue": "mail"}))
    app.queue("mail", max_depth=2)
    await app.declare_queues()
    await app.tasks.flows.learn()
    await app.tasks.create_many(job, [{}, {}])

    with pytest.raises(errors.TaskQueueFull) as refused:
        await app.tasks.create(job)
    with pytest.raises(errors.TaskQueueFull):
        await app.tasks.create_many(job, [{}, {}])

    assert (refused.value.retryable, refused.value.details["max_depth"]) == (True, 2)
    assert len(await app.tasks.list(queue="mail")) == 2


async def test_depth_is_counted_by_tenant_and_includes_what_runs(make_app: MakeApp) -> None:
    hall = Hall(open=False)

    async def visit() -> None:
        await hall.visit("all")

    app, other = await make_app(visit), await make_app(visit, tenant="other")
    await app.queues.set("default", new=True, max_depth=1)
    for each in (app, other):
        await each.tasks.flows.learn()
    async with app.worker():
        running = await app.tasks.create(visit)
        await hall.seen(1)
        with pytest.raises(errors.TaskQueueFull):
            await app.tasks.create(visit)
        waiting = await other.tasks.create(visit)
        hall.doors.set()
        await results([running, waiting])


async def test_a_full_queue_may_cancel_the_oldest_or_answer_with_the_newest(make_app: MakeApp) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, max_depth=2, at_limit="cancel_oldest")
    await app.tasks.flows.learn()
    made = [await app.tasks.create(job, name=str(n)) for n in range(3)]

    assert [(await each.refresh()).state.value for each in made] == ["cancelled", "ready", "ready"]
    assert made[0].task.last_error_code == "TASK_QUEUE_FULL"

    await app.queues.set("default", at_limit="coalesce")
    met = await app.tasks.create(job, name="late")
    assert (met.id, met.idempotent_hit) == (made[2].id, True)


async def test_a_repeat_is_answered_however_full_the_queue_is(make_app: MakeApp) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, max_depth=1)
    await app.tasks.flows.learn()
    first = await app.tasks.create(job, idempotency_key="k")

    again = await app.tasks.create(job, idempotency_key="k")

    assert (again.id, again.idempotent_hit) == (first.id, True)


async def test_fifty_creates_at_once_do_not_overfill_a_queue(make_app: MakeApp) -> None:
    apps = [await make_app(job) for _ in range(2)]
    await apps[0].queues.set("default", new=True, max_depth=10)
    for app in apps:
        await app.tasks.flows.learn()

    answers = await asyncio.gather(*(app.tasks.create(job) for app in apps for _ in range(25)), return_exceptions=True)

    assert sum(isinstance(each, errors.TaskQueueFull) for each in answers) == 40
    assert len(await apps[0].tasks.list(state="ready")) == 10


# Those that meet


async def test_a_singleton_that_lives_is_the_answer_until_it_has_ended(make_app: MakeApp) -> None:
    app = await make_app((job, {"singleton": True}))
    first = await app.tasks.create(job)
    again = await app.tasks.create(job, name="other")
    apart = await app.tasks.create(job, singleton="mine")

    assert (again.id, again.idempotent_hit) == (first.id, True)
    assert apart.id != first.id
    async with app.worker():
        await results([first, apart])
    assert not (await app.tasks.create(job)).idempotent_hit


async def test_a_hundred_simultaneous_creates_of_a_singleton_make_one(make_app: MakeApp) -> None:
    apps = [await make_app((job, {"singleton": "{name}"})) for _ in range(2)]

    made = await asyncio.gather(*(app.tasks.create(job, name="one") for app in apps for _ in range(50)))

    assert len({each.id for each in made}) == 1
    assert sum(not each.idempotent_hit for each in made) == 1


async def test_singletons_of_two_tenants_do_not_meet(make_app: MakeApp) -> None:
    apps = [await make_app((job, {"singleton": True}), tenant=tenant) for tenant in ("acme", "beta")]

    assert len({(await app.tasks.create(job)).id for app in apps}) == 2


async def test_calls_in_quick_succession_become_one_task_with_the_last_payload(make_app: MakeApp) -> None:
    app = await make_app((job, {"debounce": 0.5, "debounce_key": "all"}))
    made = [await app.tasks.create(job, name=str(n)) for n in range(3)]

    assert len({each.id for each in made}) == 1
    assert [each.idempotent_hit for each in made] == [False, True, True]
    assert made[2].task.due_at > made[0].task.due_at
    async with app.worker():
        assert await made[0].result(timeout=PATIENCE_SECONDS) == "2"
    later = await app.tasks.create(job, name="later")
    assert later.id != made[0].id


# Tries anew


async def test_a_failed_task_is_tried_anew_as_a_new_task_that_names_it(make_app: MakeApp) -> None:
    tries: list[str] = []

    async def fragile(name: str) -> str:
        tries.append(name)
        if len(tries) == 1:
            raise errors.DoNotRetry("not today")
        return name

    app = await make_app(fragile)
    async with app.worker():
        old = await app.tasks.create(fragile, name="a", task_id="mine", idempotency_key="k", priority=-2, limit_key="c")
        with pytest.raises(errors.TaskExecutionFailed):
            await old.result(timeout=PATIENCE_SECONDS)
        [retried] = await app.tasks.retry("mine")
        new = await app.tasks.get(retried.new)
        assert await new.result(timeout=PATIENCE_SECONDS) == "a"

    record = await new.refresh()
    assert (record.retry_of, record.priority, record.limit_key, record.idempotency_key) == (old.id, -2, "c", None)
    assert (await old.refresh()).state == "failed"
    assert [event.to_state for event in await app.tasks.events(new.id)] == ["ready", "running", "succeeded"]


async def test_what_lives_succeeded_or_is_being_retried_is_not_tried_anew(make_app: MakeApp) -> None:
    app, other = await make_app(job), await make_app(job, tenant="other")
    live, done, gone = [await app.tasks.create(job) for _ in range(3)]
    await gone.cancel()
    async with app.worker():
        await results([done])
    foreign = await other.tasks.create(job)
    await foreign.cancel()

    first = await app.tasks.retry(live.id, done.id, gone.id, foreign.id)
    again = await app.tasks.retry(gone.id)

    assert [each.old for each in first] == [gone.id]
    assert again == []
    await app.tasks.cancel(first[0].new)
    assert await app.tasks.retry(gone.id, untried=True) == []
    assert len(await app.tasks.retry(gone.id)) == 1


# Declaring


async def test_a_declared_queue_is_stored_when_a_worker_starts(make_app: MakeApp) -> None:
    app = await make_app((job, {"queue": "mail"}))
    app.queue(
        "mail",
        concurrency=5,
        key_concurrency=2,
        rate="100/minute",
        burst=7,
        weight=3,
        max_depth=50,
        at_limit="coalesce",
    )
    async with app.worker(queues=["mail"]):
        await results([await app.tasks.create(job)])

    queue = await app.queues.get("mail")
    assert (queue.concurrency, queue.key_concurrency, queue.rate, queue.burst) == (5, 2, "100/minute", 7)
    assert (queue.weight, queue.max_depth, queue.at_limit) == (3, 50, "coalesce")


async def test_an_app_that_declares_its_queues_refuses_others(make_app: MakeApp) -> None:
    app = await make_app(job)
    app.queue("mail")

    with pytest.raises(errors.UnknownQueue, match="Did you mean mail"):
        await app.tasks.create(job, queue="mails")

    assert (await app.tasks.create(job)).task.queue == "default"
    assert len(await app.tasks.list()) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda queues: queues.set("nobody", concurrency=1), lambda queues: queues.pause("nobody"),
        lambda queues: queues.resume("nobody"), lambda queues: queues.get("nobody"),
    ],
)  # fmt: skip
async def test_a_queue_that_nobody_knows_is_refused_and_not_made(make_app: MakeApp, ask: Any) -> None:
    app = await make_app(job)

    with pytest.raises(errors.UnknownQueue):
        await ask(app.queues)

    assert await app.queues.list() == []


@pytest.mark.parametrize(
    "terms", [{"concurrency": 0}, {"rate": "often"}, {"weight": -1}, {"max_depth": 0}, {"colour": "red"}]
)
async def test_what_cannot_be_agreed_is_refused_and_changes_nothing(make_app: MakeApp, terms: dict[str, Any]) -> None:
    app = await make_app(job)
    with pytest.raises(errors.QueueInvalid):
        await app.queues.set("default", new=True, **terms)
    with pytest.raises((errors.QueueInvalid, TypeError)):
        app.queue("mail", **terms)

    assert await app.queues.list() == []


async def test_the_watchdog_rings_for_a_task_that_stands_before_a_free_slot(
    make_app: MakeApp, database_url: str
) -> None:
    app = await make_app(job)
    await app.queues.set("default", new=True, concurrency=1)
    rung = asyncio.Event()
    app.doorbell.listen("queues", lambda _hints: rung.set())
    await app.tasks.create(job, priority=-9)
    rules = [rule for rule in wiring.rules(app._open) if rule.name == "T17"]

    line = Line(database_url)
    report = await watchdog.tick(line, rules)
    await line.close()

    assert report.outcomes[0].found == 1
    await asyncio.wait_for(rung.wait(), PATIENCE_SECONDS)


def test_plain_code_reaches_queues_and_tries_anew(database_url: str) -> None:
    with Client(database_url) as client:
        task = client.create("greet", queue="mail")
        assert client.queues.set("mail", concurrency=2).concurrency == 2
        client.queues.pause("mail")
        assert client.queues.get("mail").paused_at is not None
        client.queues.resume("mail")
        client.queues.pause_task("greet")
        client.queues.resume_task("greet")
        task.cancel()
        assert [each.old for each in client.retry(task.id)] == [task.id]
        assert [queue.name for queue in client.queues.list()] == ["mail"]
        assert client.queues.holders("mail") == []
