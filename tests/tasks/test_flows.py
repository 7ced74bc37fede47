"""How tasks that are to be born meet others: depth, singletons, debounce, tries anew."""

import asyncio

import pytest

from ferryman.kernel import errors
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp
from tests.tasks.hall import Hall, job, results

pytestmark = pytest.mark.contract("T17")

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
