"""What people read of batches, a page at a time."""

from __future__ import annotations

from uuid import UUID

import pytest

from ferryman.batches.intake import read
from ferryman.batches.model import Caller
from ferryman.kernel import ids
from tests.agents.house import TENANT
from tests.batches.yard import Yard, task


@pytest.mark.contract("S5")
async def test_batches_are_counted_by_what_their_tasks_are(yard: Yard) -> None:
    first, taken = await yard.running(3)
    await yard.finish(taken[0])
    second = await yard.fork(task(), task())
    other = await yard.answer_fork(task(), caller=Caller(tenant="other"))

    async with yard.db.session() as tx:
        found = await read.counts(tx, [first, second, other.id], tenant=TENANT)  # type: ignore[union-attr]

    assert found == {first: {"success": 1, "dispatched": 2}, second: {"pending": 2}, other.id: {}}  # type: ignore[union-attr]


@pytest.mark.contract("B11")
async def test_the_batches_of_a_turn_are_found_by_it(yard: Yard) -> None:
    caller = await yard.parent()
    assert caller.turn is not None
    assert caller.agent_id is not None
    mine = await yard.fork(task(), caller=caller)
    await yard.fork(task())

    async with yard.db.session() as tx:
        found = await read.forked(tx, caller.turn, caller.agent_id, tenant=TENANT)
        hidden = await read.forked(tx, caller.turn, caller.agent_id, tenant="other")
        nothing = await read.forked(tx, ids.new_id(), caller.agent_id, tenant=TENANT)

    assert [each.id for each in found] == [mine]
    assert hidden == nothing == []


@pytest.mark.contract("S5", "K12")
async def test_batches_are_listed_by_status_newest_first_a_page_at_a_time(yard: Yard) -> None:
    ended, [child] = await yard.running(1)
    await yard.finish(child)
    first, second = [await yard.fork(task()) for _ in range(2)]
    await yard.answer_fork(task(), caller=Caller(tenant="other"))

    async def listed(status: str | None, before: UUID | None = None, limit: int = 10) -> list[UUID]:
        async with yard.db.session() as tx:
            return [each.id for each in await read.listed(tx, tenant=TENANT, status=status, before=before, limit=limit)]

    assert await listed("running") == [second, first]
    assert await listed("running", before=second) == [first]
    assert await listed("running", limit=1) == [second]
    assert await listed("success") == [ended]
    assert await listed(None) == [second, first, ended]
