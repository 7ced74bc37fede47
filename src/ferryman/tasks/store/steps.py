"""What tasks remember of themselves, what they wait for, and what is sent to them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import Answer, Asked, Birth, Call, Ended, Kept, Outcome
from ferryman.tasks.states import SUCCEEDED

_REMEMBER = load("ferryman.tasks", "task_steps/remember")
_MINE = load("ferryman.tasks", "task_steps/mine")
_LOAD = load("ferryman.tasks", "task_steps/load")
_WAIT = load("ferryman.tasks", "task_steps/wait")
_BEAR = load("ferryman.tasks", "task_steps/bear")
_CHILDREN = load("ferryman.tasks", "task_steps/children")
_ANSWER = load("ferryman.tasks", "task_steps/answer")
_READ = load("ferryman.tasks", "task_steps/read")
_STRAYS = load("ferryman.tasks", "task_steps/strays")
_HOLD = load("ferryman.tasks", "task_waits/hold")
_TRY_HOLD = load("ferryman.tasks", "task_waits/try_hold")
_PARK = load("ferryman.tasks", "task_waits/park")
_STUCK = load("ferryman.tasks", "task_waits/stuck")
_WAKE = load("ferryman.tasks", "task_waits/wake")
_HOLD_ONE = load("ferryman.tasks", "task_signals/hold")
_SEND = load("ferryman.tasks", "task_signals/send")

OPEN, DONE, FAILED = "open", "done", "failed"

Key = tuple[str, str, int]
Claim = tuple[UUID, int]  # task, epoch


class Parked(NamedTuple):
    """What parking a set came to: who waits, which lanes have one that does not wait, and who was busy."""

    ids: set[UUID]
    lanes: list[str]
    busy: set[UUID]


async def remember(tx: Tx, kept: Sequence[Kept], *, owner: UUID) -> set[UUID]:
    """Write what steps came to; answer with the tasks whose steps were written: the others were stale, or busy."""
    rows = await many(
        tx,
        _REMEMBER,
        tasks=[each.call.task for each in kept],
        epochs=[each.call.epoch for each in kept],
        kinds=[each.call.kind for each in kept],
        names=[each.call.name for each in kept],
        nths=[each.call.nth for each in kept],
        positions=[each.call.position for each in kept],
        states=[each.state for each in kept],
        results=[each.result for each in kept],
        owner=owner,
    )
    return {row["task"] for row in rows}


async def mine(tx: Tx, claims: Sequence[Claim], *, owner: UUID) -> set[UUID]:
    """Find which claims are still current."""
    ids, epochs = [claim[0] for claim in claims], [claim[1] for claim in claims]
    return {row["id"] for row in await many(tx, _MINE, ids=ids, epochs=epochs, owner=owner)}


async def recall(tx: Tx, ids: Sequence[UUID]) -> dict[UUID, dict[Key, Answer]]:
    """Read what tasks remember."""
    found: dict[UUID, dict[Key, Answer]] = {id: {} for id in ids}
    for row in await many(tx, _LOAD, ids=ids):
        answer = Answer(row["state"], row["result"], row["position"])
        found[row["task"]][row["kind"], row["name"], row["nth"]] = answer
    return found


async def wait(tx: Tx, asked: Sequence[Asked], *, owner: UUID) -> dict[UUID, Answer | None]:
    """Ask whether waits are over, one for each task; None is one that would outlast its task, what is not there is not held."""
    calls = [each.call for each in asked]
    rows = await many(
        tx,
        _WAIT,
        tasks=[call.task for call in calls],
        epochs=[call.epoch for call in calls],
        kinds=[call.kind for call in calls],
        names=[call.name for call in calls],
        nths=[call.nth for call in calls],
        positions=[call.position for call in calls],
        seconds=[each.seconds for each in asked],
        untils=[each.until for each in asked],
        owner=owner,
    )
    return {
        row["task"]: Answer(row["state"], row["result"], until=row["until"]) if row["state"] is not None else None
        for row in rows
    }


async def bear(tx: Tx, births: Sequence[Birth], *, owner: UUID) -> set[UUID]:
    """Write the calls of children; answer with the parents that are held."""
    calls: list[Call] = [birth.call for birth in births]
    rows = await many(
        tx,
        _BEAR,
        tasks=[call.task for call in calls],
        epochs=[call.epoch for call in calls],
        names=[call.name for call in calls],
        nths=[call.nth for call in calls],
        positions=[call.position for call in calls],
        children=[birth.task.id for birth in births],
        owner=owner,
    )
    return {row["task"] for row in rows}


async def children(tx: Tx, ids: Collection[UUID]) -> list[UUID]:
    """Find the children of these tasks that live."""
    return [row["child"] for row in await many(tx, _CHILDREN, ids=list(ids))]


async def answer(tx: Tx, ended: Sequence[Ended]) -> list[str]:
    """Tell the ends of children to their parents; answer with the lanes of those that were woken."""
    rows = await many(
        tx,
        _ANSWER,
        children=[each.id for each in ended],
        states=[DONE if each.state is SUCCEEDED else FAILED for each in ended],
        results=[each.result if each.state is SUCCEEDED else _why(each) for each in ended],
    )
    return [row["lane"] for row in rows]


def _why(ended: Ended) -> str:
    return json.dumps({"state": ended.state.value, "code": ended.code, "reason": ended.reason})


async def strays(tx: Tx, limit: int) -> Sequence[Row]:
    """Find children that live although their parents have ended."""
    return await many(tx, _STRAYS, limit=limit)


async def hold(tx: Tx, ids: Collection[UUID]) -> None:
    """Lock parents, in the order of their ids."""
    await many(tx, _HOLD, ids=list(ids))


async def try_hold(tx: Tx, ids: Collection[UUID]) -> set[UUID]:
    """Lock parents, in the order of their ids; answer with those that somebody else holds."""
    return {row["id"] for row in await many(tx, _TRY_HOLD, ids=list(ids)) if not row["held"]}


async def park(tx: Tx, outcomes: Sequence[Outcome]) -> Parked:
    """Park a set; what is not in the answer was stale."""
    words = [
        {
            "id": str(each.id),
            "epoch": each.epoch,
            "owner": str(each.owner),
            "wake_at": None if each.park.wake_at is None else each.park.wake_at.isoformat(),
            "open": each.park.open,
            "children": [str(id) for id in each.park.children],
            "names": list(each.park.names),
        }
        for each in outcomes
        if each.park is not None
    ]
    rows = await many(tx, _PARK, parks=json.dumps(words))
    return Parked(
        {row["id"] for row in rows if row["moved"]},
        [row["lane"] for row in rows if row["roused"]],
        {row["id"] for row in rows if not row["moved"]},
    )


async def stuck(tx: Tx, limit: int, *, span: int = 5000, pace: timedelta = timedelta(0)) -> Sequence[Row]:
    """Find parked tasks that wait for nothing any more, in the next `span` rows of the walk; then it rests for `pace`."""
    return await many(tx, _STUCK, limit=limit, span=span, pace=pace)


async def wake(tx: Tx, ids: Collection[UUID]) -> list[UUID]:
    """Let parked tasks go on."""
    return [row["id"] for row in await many(tx, _WAKE, ids=list(ids))]


async def hold_one(tx: Tx, *, tenant: str, id: UUID | None, task_id: str | None) -> Row | None:
    """Lock one task of a tenant."""
    return await one(tx, _HOLD_ONE, tenant=tenant, id=id, task_id=task_id)


async def send(tx: Tx, id: UUID, name: str, payload: str | None) -> tuple[int, str | None]:
    """Keep an event for a task that is locked; answer with its number and with the lane of the task if it was woken."""
    row = await one(tx, _SEND, id=id, name=name, payload=payload)
    assert row is not None
    return row["id"], row["lane"]


async def read(tx: Tx, task: UUID, *, tenant: str, limit: int) -> Sequence[Row]:
    """Read what one task remembers of its durable calls, in order."""
    return await many(tx, _READ, task=task, tenant=tenant, limit=limit)
