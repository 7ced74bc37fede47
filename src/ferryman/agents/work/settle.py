"""The outcomes of claims are stored: ends, suspensions with their tools' tasks, and turns that are given up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from ferryman.agents.ends import Aftermath, Parties, finish, hold
from ferryman.agents.model import Amount, Call, End, Outcome, Release, Suspension
from ferryman.agents.ports import Starts
from ferryman.agents.store import budgets, heads
from ferryman.kernel import errors, faults
from ferryman.kernel.db import Tx
from ferryman.tasks.intake.create import create
from ferryman.tasks.work.lanes import named


async def settle(
    tx: Tx, outcomes: Sequence[Outcome], parties: Parties, *, owner: UUID, after: Aftermath
) -> tuple[set[UUID], set[UUID]]:
    """Store a set in the caller's transaction; answer with those that were stored and those that were busy."""
    done: set[UUID] = set()
    busy: set[UUID] = set()
    ends = [each for each in outcomes if isinstance(each, End)]
    waiting = [each for each in outcomes if isinstance(each, Suspension)]
    if _started(waiting):
        await _prepare(tx, waiting, ends, parties, after=after)
    if ends:
        rows, left = await finish(tx, ends, parties, after=after)
        done |= {row["id"] for row in rows}
        busy |= left
    if waiting:
        moved, left = await suspend(tx, waiting, parties, after=after)
        done |= moved
        busy |= left
    given_up = [each for each in outcomes if isinstance(each, Release)]
    if given_up:
        turns, epochs = [each.id for each in given_up], [each.epoch for each in given_up]
        moved, left = await heads.release(tx, turns, epochs, owner=owner)
        done |= moved
        busy |= left
        after.targets.add("")
    faults.point("settle.inside")
    return done, busy


async def suspend(
    tx: Tx, suspensions: Sequence[Suspension], parties: Parties, *, after: Aftermath
) -> tuple[set[UUID], set[UUID]]:
    """Suspend turns on their calls and create the tools' tasks; answer with those that are, and with those that were busy."""
    started = _started(suspensions)
    moved, busy = await heads.suspend(tx, suspensions)
    calls: list[Call] = [call for each in suspensions if each.id in moved for call in each.calls]
    drafts = [call.task for call in calls if call.task is not None]
    if drafts:
        answers = await create(tx, drafts, ends_after=parties.terms.ends_after)
        for answer in answers:
            if isinstance(answer, errors.FerrymanError):
                raise answer
        after.tasks.lanes += sorted({named(draft.task.queue, draft.task.tenant) for draft in drafts})
    await _spend(tx, [each for each in suspensions if each.id in moved])
    for kind, asked in started.items():
        made = [(each, call) for each, call in asked if each.id in moved]
        if made:
            await kind.start(tx, made, prepared=True, parties=parties, after=after)
    if any(not each.calls for each in suspensions if each.id in moved):
        after.targets.add("")
    return moved, busy


Asked = tuple[Suspension, Call]


def _started(suspensions: Sequence[Suspension]) -> dict[type[Starts], list[Asked]]:
    """Return the calls that set something going besides tasks, by its kind."""
    found: dict[type[Starts], list[Asked]] = defaultdict(list)
    for each in suspensions:
        for call in each.calls:
            if call.start is not None:
                found[type(call.start)].append((each, call))
    return found


async def _prepare(
    tx: Tx,
    suspensions: Sequence[Suspension],
    ends: Sequence[End],
    parties: Parties,
    *,
    after: Aftermath,
) -> None:
    """Lock every head that this transaction will touch in the one order, before the first of them is written."""
    started = _started(suspensions)
    for kind, asked in started.items():
        await kind.start(tx, asked, prepared=False, parties=parties, after=after)
    touched = {(each.tenant, each.agent_id) for each in suspensions} | {(each.tenant, each.agent_id) for each in ends}
    touched |= {agent for asked in started.values() for _, call in asked for agent in call.start.heads}
    await hold(tx, parties, [(each.callback, each.callback_ref) for each in ends], beside=touched)


async def _spend(tx: Tx, suspensions: Sequence[Suspension]) -> None:
    """Count the calls that were made against their budgets, which have them reserved; in one order, for each is locked."""
    made = [
        (each.tenant, call.budget, each.id, call.tool_call_id)
        for each in suspensions
        for call in each.calls
        if call.budget is not None
    ]
    for tenant, budget, turn, name in sorted(made):
        await budgets.spend(tx, Amount(tool_calls=1), tenant=tenant, id=budget, turn=turn, name=name)
