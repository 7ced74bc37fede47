"""The outcomes of claims are stored: ends, suspensions with their tools' tasks, and turns that are given up."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.agents.ends import Aftermath, Parties, finish
from ferryman.agents.model import Call, End, Outcome, Release, Suspension
from ferryman.agents.store import heads
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
    if ends:
        rows, left = await finish(tx, ends, parties, after=after)
        done |= {row["id"] for row in rows}
        busy |= left
    waiting = [each for each in outcomes if isinstance(each, Suspension)]
    if waiting:
        moved, left = await suspend(tx, waiting, parties, after=after)
        done |= moved
        busy |= left
    given_up = [each for each in outcomes if isinstance(each, Release)]
    if given_up:
        rows = await heads.release(tx, [each.id for each in given_up], [each.epoch for each in given_up], owner=owner)
        done |= {row["id"] for row in rows}
        after.targets.add("")
    faults.point("settle.inside")
    return done, busy


async def suspend(
    tx: Tx, suspensions: Sequence[Suspension], parties: Parties, *, after: Aftermath
) -> tuple[set[UUID], set[UUID]]:
    """Suspend turns on their calls and create the tools' tasks; answer with those that are, and with those that were busy."""
    moved, busy = await heads.suspend(tx, suspensions)
    calls: list[Call] = [call for each in suspensions if each.id in moved for call in each.calls]
    drafts = [call.task for call in calls if call.task is not None]
    if drafts:
        answers = await create(tx, drafts, ends_after=parties.terms.ends_after)
        for answer in answers:
            if isinstance(answer, errors.FerrymanError):
                raise answer
        after.tasks.lanes += sorted({named(draft.task.queue, draft.task.tenant) for draft in drafts})
    if any(not each.calls for each in suspensions if each.id in moved):
        after.targets.add("")
    return moved, busy
