"""Ends that come at one moment, on connections of their own: one winner, nothing lost, no deadlock (B13)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from ferryman.agents import intake
from ferryman.agents.model import Stop, Taken
from ferryman.agents.work import settle
from ferryman.batches.ends import expire
from ferryman.batches.intake import fork
from ferryman.batches.model import Forked
from ferryman.batches.work.dispatch import dispatch
from ferryman.kernel import ids
from ferryman.kernel.pool import Database, Session
from tests.agents.house import OWNER, TENANT
from tests.batches.yard import PROFILES, Yard, task
from tests.patience import PATIENCE_SECONDS

Act = Callable[[Session], Coroutine[Any, Any, bool]]  # whether it was told to come again


async def _both(yard: Yard, first: Act, second: Act) -> None:
    """Let the second come when the first has written and not committed: it waits in line, or is told to come again."""
    met = asyncio.Event()
    async with yard.db.transaction() as tx:
        assert not await first(tx)
        two = asyncio.create_task(_until_done(yard, second, met))
        waiting = asyncio.create_task(_waiting(yard, 1))
        await asyncio.wait([asyncio.create_task(met.wait()), waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert not two.done()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await two


async def _until_done(yard: Yard, act: Act, met: asyncio.Event) -> None:
    busy = True
    while busy:
        async with yard.db.transaction() as tx:
            busy = await act(tx)
        met.set()


async def _waiting(yard: Yard, count: int) -> None:
    """Wait until so many stand in line for a lock."""
    sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await yard.value(sql) < count:  # noqa: ASYNC110 - another process, PostgreSQL, is watched
            await asyncio.sleep(0.005)


def _ends(yard: Yard, child: Taken, status: str = "success", **more: Any) -> Act:
    async def act(tx: Session) -> bool:
        ends = [yard.ends_as(child, status, **more)]
        _, busy = await settle.settle(tx, ends, yard.parties, owner=OWNER, after=yard.after)
        return bool(busy)

    return act


def _expires(yard: Yard, batch: Any) -> Act:
    async def act(tx: Session) -> bool:
        await expire(tx, [batch], yard.parties, yard.owner.terms, after=yard.after)
        return False

    return act


async def _expire(yard: Yard, batch: Any) -> None:
    async with yard.db.transaction() as tx:
        await _expires(yard, batch)(tx)


@pytest.mark.contract("B13", "B7")
@pytest.mark.parametrize("parents", [0, 1])
async def test_two_last_children_at_once_close_the_batch_exactly_once(db: Database, parents: int) -> None:
    yard = Yard(db)
    # Without a parent there is no head to stand in line for, only the batch itself.
    caller = await yard.parent() if parents else None
    batch, [one, two] = await yard.running(caller=caller)

    await _both(yard, _ends(yard, one), _ends(yard, two))

    assert (await yard.batch(batch)).status == "success"
    assert len(await yard.told()) == parents
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B8")
@pytest.mark.parametrize("first", ["child", "deadline"])
async def test_the_last_success_and_the_deadline_have_one_winner(db: Database, first: str) -> None:
    yard = Yard(db)
    caller = await yard.parent()
    batch, [child] = await yard.running(1, caller=caller, deadline_seconds=5)
    await yard.travel(6)
    acts = [_ends(yard, child), _expires(yard, batch)]

    await _both(yard, *(acts if first == "child" else reversed(acts)))

    won = {"child": ("success", ["success"]), "deadline": ("timeout", ["canceled"])}[first]
    assert ((await yard.batch(batch)).status, await yard.statuses(batch)) == won
    assert [each["status"] for each in await yard.told()] == [won[0]]
    # The child has ended in either case, and the stop that came too late does nothing.
    await yard.carry_out_stops()
    assert (await yard.turn(child.id)).turn_status == "success"
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B7")
@pytest.mark.parametrize("first", ["success", "failure"])
async def test_fail_fast_against_a_success(db: Database, first: str) -> None:
    yard = Yard(db)
    caller = await yard.parent()
    batch, [one, two] = await yard.running(caller=caller, fail_fast=True)
    acts = [_ends(yard, one), _ends(yard, two, "failed", code="no")]

    await _both(yard, *(acts if first == "success" else reversed(acts)))

    assert (await yard.batch(batch)).status == "failed"
    assert await yard.statuses(batch) == (["success", "failed"] if first == "success" else ["canceled", "failed"])
    assert [each["status"] for each in await yard.told()] == ["failed"]
    await yard.carry_out_stops()
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B6")
async def test_an_end_that_comes_after_the_close_changes_nothing(yard: Yard) -> None:
    batch, [one, two] = await yard.running()
    await yard.cancel_batch(batch)
    before = await yard.tasks_of(batch)
    await yard.finish(one)
    await yard.finish(two, "failed", code="late")
    assert await yard.tasks_of(batch) == before
    assert (await yard.batch(batch)).status == "failed"
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B5")
async def test_a_dispatch_and_a_deadline_do_not_leave_a_child_behind(db: Database) -> None:
    yard = Yard(db)
    batch, _ = await yard.running(1, deadline_seconds=5)
    more = await yard.fork(deadline_seconds=5)
    await yard.travel(6)
    async with db.transaction() as tx:
        await dispatch(tx, yard.parties, yard.owner.terms, after=yard.after)
        expiring = asyncio.create_task(_expire(yard, more))
        await _waiting(yard, 1)
    await expiring
    await yard.carry_out_stops()
    [left] = await yard.tasks_of(more)
    assert left.status == "canceled"
    assert left.current_agent_turn_id is not None
    assert (await yard.turn(left.current_agent_turn_id)).error_code == "stopped"
    await _expire(yard, batch)
    await yard.carry_out_stops()
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B4")
@pytest.mark.parametrize("turned", [False, True])
async def test_sets_of_forks_make_the_same_batches_in_one_order(yard: Yard, turned: bool) -> None:
    low, high = sorted([uuid4(), uuid4()])
    order = (high, low) if turned else (low, high)
    async with yard.db.transaction() as tx:
        await fork(tx, [yard.wanted(id=low)], yard.owner.terms, profiles=PROFILES)
        both = asyncio.create_task(yard.answer_forks(*(yard.wanted(id=id) for id in order)))
        await _waiting(yard, 1)
        # It waits for the lower one first, and has not touched the other.
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await yard.answer_forks(yard.wanted(id=high)) == [Forked(high)]
    assert await both == [Forked(id, created=False) for id in order]
    assert await yard.broken() == []


async def _ask_to_stop(yard: Yard, *turns: Taken) -> None:
    async with yard.db.transaction() as tx:
        asked = [Stop(tenant=TENANT, agent_id=each.agent_id, turn=each.id, id=ids.new_id()) for each in turns]
        await intake.stop(tx, asked, after=yard.after)


@pytest.mark.contract("B13", "B8", "A16")
async def test_two_who_ask_for_the_same_stops_wait_for_each_other_in_one_order(yard: Yard) -> None:
    """As a batch that ends and messages that interrupt the turns of its children do."""
    batch, children = await yard.running(3)
    one, two, three = sorted(children, key=lambda each: each.id)
    async with yard.db.transaction() as tx:
        await intake.stop(
            tx, [Stop(tenant=TENANT, agent_id=three.agent_id, turn=three.id, id=ids.new_id())], after=yard.after
        )
        first = asyncio.create_task(_ask_to_stop(yard, one, three, two))
        await _waiting(yard, 1)
        second = asyncio.create_task(_ask_to_stop(yard, two, one))
        await _waiting(yard, 2)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(first, second)
    assert await yard.carry_out_stops() == 3
    assert (await yard.batch(batch)).status == "failed"
    assert await yard.broken() == []


@pytest.mark.contract("B13", "B12")
async def test_many_children_on_many_connections_close_every_batch_once(db: Database) -> None:
    yard = Yard(db)
    batches = [await yard.fork(*[task() for _ in range(6)]) for _ in range(5)]
    await yard.dispatch()
    children = await yard.children()
    assert len(children) == 30
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(_until_done(yard, _ends(yard, each), asyncio.Event()) for each in children))
    for batch in batches:
        assert (await yard.batch(batch)).status == "success"
    assert await yard.broken() == []
