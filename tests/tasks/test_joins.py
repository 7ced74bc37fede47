"""T19: children are created once, their ends reach their parent with its join, and none outlives its parent."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman import Child, Context, Ferryman
from ferryman.kernel import errors, invariants, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.tasks import watch
from ferryman.tasks.joins import CHILD, Joins, child_id
from ferryman.tasks.model import Call
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED, READY, RUNNING, TASK
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.testing import plant
from tests.conformance.ear import Ear
from tests.patience import PATIENCE_SECONDS
from tests.tasks.parking import MakeApp, parked, parks

pytestmark = pytest.mark.contract("T19")

SECOND = timedelta(seconds=1)
ONCE: dict[str, Any] = {"max_retries": 0}
AGAIN: dict[str, Any] = {"max_retries": 3, "backoff": 0}


async def square(n: int) -> int:
    return n * n


async def fall(n: int) -> int:
    raise ValueError(f"no {n}")


async def hang() -> None:
    await asyncio.Event().wait()


async def children(app: Ferryman) -> dict[UUID, str]:
    async with app.database.session() as tx:
        rows = await tx.fetch("select id, state from ferryman.tasks where callback = 'child'")
        assert await invariants.check(tx, TASK_INVARIANTS) == []
    return {row["id"]: row["state"] for row in rows}


async def test_a_join_of_a_hundred_wakes_its_parent_once(make_app: MakeApp) -> None:
    halves = asyncio.Event(), asyncio.Event()

    async def squared(n: int) -> int:
        await halves[n % 2].wait()  # an end that meets the parent on its way to park lets it look once more
        return n * n

    async def flow(ctx: Context) -> list[int]:
        return await ctx.join([ctx.child(squared, n=n) for n in range(100)])

    app = await make_app((flow, ONCE), squared)
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        halves[0].set()
        while list((await children(app)).values()).count("succeeded") < 50:
            pass
        halves[1].set()
        assert await task.result(timeout=PATIENCE_SECONDS) == [n * n for n in range(100)]

    assert len(await children(app)) == 100
    assert await parks(app, task.id) == 1


async def test_a_child_is_awaited_like_a_call(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> int:
        child: Child[int] = ctx.child(square, {"n": 3})
        other: Child[int] = ctx.child("square", n=1)
        return await child + await other

    app = await make_app((flow, ONCE), square)
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == 10


async def test_a_child_is_created_once_however_often_its_parent_is_tried(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> int:
        child = ctx.child(square, n=3)
        if ctx.attempt < 3:
            await child
            raise ValueError("once more")
        return await child

    app = await make_app((flow, AGAIN), square)
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == 9

    assert len(await children(app)) == 1


async def test_a_childs_failure_reaches_its_parent_with_code_and_reason(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> dict[str, Any]:
        good, bad = ctx.child(square, n=2), ctx.child(fall, n=2)
        try:
            await ctx.join([good, bad])
        except errors.TaskChildFailed as error:
            return {**error.details, "good": await good}
        raise AssertionError

    app = await make_app((flow, ONCE), square, (fall, ONCE))
    async with app.worker():
        found = await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS)

    assert found.pop("task_id") in {str(id) for id in await children(app)}
    assert found == {
        "code": "TASK_RETRY_EXHAUSTED", "reason": "TASK_EXECUTION_FAILED: ValueError: no 2", "good": 4,
    }  # fmt: skip


async def test_a_cancelled_child_is_a_failed_one(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        try:
            await ctx.child(hang)
        except errors.TaskChildFailed as error:
            return error.details["code"]

    app = await make_app((flow, ONCE), hang)
    async with app.worker():
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        [child] = await children(app)
        await app.tasks.cancel(child, reason="enough")
        assert await task.result(timeout=PATIENCE_SECONDS) == "TASK_CANCELLED"


async def test_branches_go_on_as_their_own_children_end(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        async def branch(n: int) -> int:
            got = await ctx.child(square, {"n": n}, name=f"square-{n}")
            return await ctx.step(f"after-{n}", lambda: got + 1)

        return await asyncio.gather(*(branch(n) for n in range(4)))

    app = await make_app((flow, ONCE), square)
    async with app.worker():
        assert await (await app.tasks.create(flow)).result(timeout=PATIENCE_SECONDS) == [1, 2, 5, 10]


async def test_children_have_children(make_app: MakeApp) -> None:
    async def tree(ctx: Context, depth: int) -> int:
        if depth == 0:
            return 1
        return sum(await ctx.join([ctx.child(tree, depth=depth - 1) for _ in range(2)]))

    app = await make_app((tree, ONCE))
    async with app.worker():
        assert await (await app.tasks.create(tree, depth=3)).result(timeout=PATIENCE_SECONDS) == 8


@pytest.mark.contract("T14")
async def test_cancelling_a_parent_cancels_its_children_and_theirs(make_app: MakeApp) -> None:
    ready = asyncio.Event()

    async def leaf() -> None:
        ready.set()
        await asyncio.Event().wait()

    async def middle(ctx: Context) -> None:
        await ctx.child(leaf)

    async def top(ctx: Context) -> None:
        await ctx.join([ctx.child(middle), ctx.child(hang)])

    app = await make_app((top, ONCE), (middle, ONCE), leaf, hang)
    async with app.worker():
        task = await app.tasks.create(top)
        await asyncio.wait_for(ready.wait(), PATIENCE_SECONDS)
        await parked(app, task.id)

        assert await app.tasks.cancel(task.id) == [task.id]

        assert set((await children(app)).values()) == {"cancelled"}
        assert len(await children(app)) == 3


async def _fails(ctx: Context) -> None:
    await asyncio.shield(ctx.child(hang).born)
    raise ValueError("no")


async def _returns(ctx: Context) -> None:
    await asyncio.shield(ctx.child(hang).born)


@pytest.mark.parametrize("flow", [_fails, _returns])
async def test_a_child_does_not_outlive_its_parent_however_that_ends(make_app: MakeApp, flow: Any) -> None:
    app = await make_app((flow, ONCE), hang)
    async with app.worker():
        end = await app.tasks.end((await app.tasks.create(flow)).id)

        assert end.state in ("failed", "succeeded")
        assert list((await children(app)).values()) == ["cancelled"]


@pytest.mark.contract("W13")
async def test_a_parent_that_is_reaped_for_good_takes_its_children_with_it(make_app: MakeApp) -> None:
    app = await make_app(hang)
    async with app.database.transaction() as tx:
        parent = await plant(tx, TASK, RUNNING, leased_until=-SECOND, **ONCE)
        child = await plant(tx, TASK, READY, callback=CHILD, callback_ref=str(parent))
        await tx.fetch(
            "insert into ferryman.task_steps (task, kind, name, nth, child, state, at)"
            " values ($1, 'child', 'hang', 1, $2, 'open', now())",
            parent,
            child,
        )

    async with app.database.session() as ground:
        report = await watchdog.tick(ground, _rules())

    assert report.acted("W13") == 1
    assert (await app.tasks.record(child)).state == CANCELLED


def _rules() -> list[watchdog.Rule]:
    return watch.rules(Owners({CHILD: Joins()}), NoDoorbell(), sweep=SECOND, interval=SECOND)


async def test_the_watchdog_collects_what_an_ended_parent_has_left(make_app: MakeApp) -> None:
    app = await make_app(hang)
    async with app.database.transaction() as tx:
        parent = await plant(tx, TASK, CANCELLED)
        child = await plant(tx, TASK, READY, callback=CHILD, callback_ref=str(parent))
        living = await plant(tx, TASK, READY, callback=CHILD, callback_ref=str(await plant(tx, TASK, READY)))
        await tx.fetch(
            "insert into ferryman.task_steps (task, kind, name, nth, child, state, at)"
            " select callback_ref::uuid, 'child', 'hang', 1, id, 'open', now() from ferryman.tasks where callback = 'child'"
        )

    async with app.database.session() as ground:
        report = await watchdog.tick(ground, _rules())

    assert report.acted("T19-strays") == 1
    assert [(await app.tasks.record(id)).state for id in (child, living)] == [CANCELLED, READY]


@pytest.mark.parametrize("wait", ["children", "event"])
async def test_the_watchdog_wakes_what_waits_for_nothing_any_more(make_app: MakeApp, wait: str) -> None:
    async def flow(ctx: Context) -> Any:
        if wait == "event":
            return await ctx.wait_event("go")
        return await ctx.child(hang)

    app = await make_app((flow, ONCE), hang)
    async with app.worker(grace=timedelta(0)):
        task = await app.tasks.create(flow)
        await parked(app, task.id)
    async with app.database.transaction() as tx:
        await tx.fetch("update ferryman.task_steps set state = 'failed' where kind = 'child'")
        await tx.fetch(
            "insert into ferryman.task_signals (task, at, name) select task, now(), 'go' from ferryman.task_waits"
        )

    async with app.database.session() as ground:
        await ground.fetch(
            "update ferryman.retention set next_at = '-infinity'"
        )  # the worker's watchdog has just looked
        report = await watchdog.tick(ground, [rule for rule in _rules() if rule.name == "T19-stuck"])
        await ground.fetch("update ferryman.retention set next_at = '-infinity'")
        again = await watchdog.tick(ground, [rule for rule in _rules() if rule.name == "T19-stuck"])

    assert (report.acted(), again.acted()) == (1, 0)


def test_the_id_of_a_child_follows_from_its_call_and_comes_after_its_parents() -> None:
    call = Call(UUID("01900000-0000-7000-bfff-ffffffffffff"), 1, "child", "mail", 1, 1)

    assert child_id(call) == child_id(call._replace(epoch=2, position=None))
    assert child_id(call) not in (child_id(call._replace(nth=2)), child_id(call._replace(name="sms")))
    assert child_id(call) > call.task
    assert child_id(call).version == 7
    assert child_id(call._replace(task=UUID(int=2**128 - 1))).version == 7


@pytest.mark.contract("T14", "T19")
async def test_the_child_of_a_parent_that_the_watchdog_ends_is_told(make_app: MakeApp) -> None:
    async def flow(ctx: Context) -> Any:
        return await ctx.child(hang)

    app = await make_app((flow, ONCE), hang)
    async with app.worker(grace=timedelta(0)):
        task = await app.tasks.create(flow)
        await parked(app, task.id)
        [child] = await children(app)
    late = "update ferryman.tasks set ends_at = ferryman.clock(), wake_at = ferryman.clock() where id = $1"
    rules = watch.rules(Owners({CHILD: Joins()}), app.doorbell, sweep=SECOND, interval=SECOND)
    ear = Ear(app.doorbell, "cancel")
    async with app.database.session() as ground:
        await ground.fetch(late, task.id)
        await watchdog.tick(ground, [rule for rule in rules if rule.name == "T21"])

    await ear.until(lambda ear: str(child) in ear.hints)
