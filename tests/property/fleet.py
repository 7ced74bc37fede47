"""Scenes of two batches, each at one point of its life, with everything that can happen to it due.

The batch with the lower id belongs to the parent with the higher name, so that who locks both in one order locks the other two
against it. The first is to fail fast.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ferryman.agents.model import Taken
from ferryman.batches.intake import Wanted
from ferryman.batches.model import Caller
from ferryman.kernel import ids
from ferryman.kernel.pool import Database
from tests.batches.yard import BROKEN_INBOX, REFUSE, Yard, caller_of, task

CALLS = ("call-low", "call-high")
DEADLINE_SECONDS = 60
# Past the deadline, the leases of children and what is waited for from whom nothing is heard; before a parent's call gives up.
LONG_SECONDS = 310
# Past the leases of children, and nothing else: whoever reaps a turn after so long lets another worker take it over.
PASSED_SECONDS = {"lapsed": 40}


@dataclass
class Fleet:
    """Two batches, their parents, and the turns of children that somebody has in hand."""

    yard: Yard
    batches: list[UUID]
    parents: list[Caller]
    wanted: list[Wanted]
    children: list[list[Taken]] = field(default_factory=list)
    beside: list[Taken] = field(default_factory=list)


async def forked(db: Database, *more: dict[str, Any]) -> Fleet:
    """Fork two batches of one task and what more is asked for."""
    yard = Yard(db)
    parents = [await yard.parent(name, call) for name, call in zip(("zoe", "ann"), CALLS, strict=True)]
    batches = sorted(ids.new_id() for _ in range(2))
    wanted = [
        yard.wanted(
            task(), *(more or (task(),)), caller=caller, id=batch, fail_fast=batch == batches[0],
            deadline_seconds=DEADLINE_SECONDS,
        )
        for batch, caller in zip(batches, parents, strict=True)
    ]  # fmt: skip
    await yard.answer_forks(*wanted)
    fleet = Fleet(yard, batches, parents, wanted)
    await ask_to_stop(fleet)
    return fleet


async def ask_to_stop(fleet: Fleet) -> None:
    """Ask that both parents be stopped; nobody has carried it out."""
    for parent in fleet.parents:
        assert parent.turn is not None
        assert parent.agent_id is not None
        await fleet.yard.stop(parent.turn, parent.agent_id)


async def pending(db: Database) -> Fleet:
    """Nothing is sent yet."""
    return await forked(db)


async def refused(db: Database) -> Fleet:
    """The second task of each is for an agent that is gone: it will be rejected."""
    await Yard(db).agent("bob")
    fleet = await forked(db, task("bob", strategy="reuse"))
    await fleet.yard.write("delete from ferryman.agent_state_head where agent_id = 'bob'")
    return fleet


async def put_off(db: Database) -> Fleet:
    """The second task of each cannot be sent now; that of the second batch has been tried often enough."""
    await Yard(db).agent("bob")
    fleet = await forked(db, task("bob", strategy="reuse"))
    await fleet.yard.write(BROKEN_INBOX)
    await fleet.yard.write(REFUSE)
    await fleet.yard.write(
        "update ferryman.pmo_batch_tasks set attempt_count = 5 where task_index = 1 and batch_id = $1", fleet.batches[1]
    )
    return fleet


async def running(db: Database) -> Fleet:
    """Both children of each are at work, for agents that let themselves be interrupted."""
    fleet = await forked(db)
    await fleet.yard.dispatch()
    taken = await fleet.yard.children()
    fleet.children = [taken[:2], taken[2:]]
    await fleet.yard.write("update ferryman.agents set when_busy = 'interrupt' where profile = 'child'")
    return fleet


async def lapsed(db: Database) -> Fleet:
    """Both children of each are with a worker that has not been heard of for longer than a lease."""
    return await running(db)


async def stopping(db: Database) -> Fleet:
    """Both children of each are at work, and asked to stop."""
    fleet = await running(db)
    for each in (child for children in fleet.children for child in children):
        await fleet.yard.stop(each.id, each.agent_id)
    return fleet


async def last(db: Database) -> Fleet:
    """One child of each has ended, the last one is at work."""
    fleet = await running(db)
    for children in fleet.children:
        await fleet.yard.finish(children.pop(0))
    return fleet


async def unheard(db: Database) -> Fleet:
    """Of the first child of each no epoch is known; the second waits in line behind what its agent does."""
    taken = [await Yard(db).begin(name) for name in ("bob", "cid")]
    fleet = await forked(db, task("bob", strategy="reuse"), task("cid", strategy="reuse"))
    fleet.beside = taken
    await fleet.yard.dispatch()
    await fleet.yard.write("update ferryman.pmo_batch_tasks set current_turn_epoch = null")
    return fleet


async def lost(db: Database) -> Fleet:
    """The first child of each has no message: it was never there."""
    fleet = await forked(db)
    await fleet.yard.dispatch()
    rows = await fleet.yard.rows(
        "select current_agent_turn_id as turn from ferryman.pmo_batch_tasks where task_index = 0"
    )
    turns = [row["turn"] for row in rows]
    await fleet.yard.write(
        "update ferryman.agent_state_head set status = 'idle', active_agent_turn_id = null, active_inbox_id = null,"
        " output_box_id = null, turn_deadline = null, dispatch_deadline = null, ready_at = null, callback = null,"
        " callback_ref = null where active_agent_turn_id = any($1)", turns,
    )  # fmt: skip
    await fleet.yard.write("delete from ferryman.agent_inbox where id = any($1)", turns)
    await fleet.yard.write("update ferryman.pmo_batch_tasks set current_turn_epoch = null where task_index = 0")
    taken = await fleet.yard.children()
    fleet.children = [[each] for each in taken]
    return fleet


async def orphaned(db: Database) -> Fleet:
    """Both parents were stopped, and nobody has looked after the batches since."""
    fleet = await running(db)
    await fleet.yard.carry_out_stops()
    return fleet


async def unsettled(db: Database) -> Fleet:
    """Both children of each have ended, and their batches were not told."""
    fleet = await running(db)
    await fleet.yard.write("update ferryman.agent_state_head set callback = null, callback_ref = null")
    for children in fleet.children:
        await fleet.yard.finish(children[0])
        await fleet.yard.finish(children[1], "failed", code="no")
    return fleet


async def tree(db: Database) -> Fleet:
    """The child of the batch with the higher id has forked the one with the lower id."""
    yard = Yard(db)
    parent = await yard.parent("ann", CALLS[1])
    low, high = sorted(ids.new_id() for _ in range(2))
    top = yard.wanted(task(), caller=parent, id=high, deadline_seconds=DEADLINE_SECONDS)
    await yard.answer_forks(top)
    await yard.dispatch()
    [middle] = await yard.children()
    await yard.settle(yard.waits(middle, (CALLS[0], 3600.0)))
    caller = caller_of(middle, CALLS[0])
    below = yard.wanted(task(), task(), caller=caller, id=low, deadline_seconds=DEADLINE_SECONDS)
    await yard.answer_forks(below)
    await yard.dispatch()
    fleet = Fleet(yard, [low, high], [caller, parent], [below, top], [await yard.children(), []], [middle])
    await ask_to_stop(fleet)
    return fleet


SCENES: dict[str, Callable[[Database], Awaitable[Fleet]]] = {
    each.__name__: each
    for each in (pending, refused, put_off, running, lapsed, stopping, last, unheard, lost, orphaned, unsettled, tree)
}
