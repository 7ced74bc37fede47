"""Sending events to tasks (T19): kept until a wait takes them, and the task that waits for one is woken with it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.ids import check_name
from ferryman.tasks.intake.cancel import Transactions
from ferryman.tasks.rules.request import as_uuid
from ferryman.tasks.states import TASK, TaskState
from ferryman.tasks.store import steps


class Sent(NamedTuple):
    """An event that was kept: its number, its task, and the lane to ring for if the task was parked for it."""

    number: int
    task: UUID
    lane: str | None


async def send(db: Transactions, task_id: str | UUID, name: str, payload: str | None, *, tenant: str) -> Sent:
    """Send an event to a task of a tenant that has not ended."""
    known = check_name(name, "name")
    id = task_id if isinstance(task_id, UUID) else as_uuid(check_name(task_id, "task_id"))
    async with db.transaction() as tx:
        held = await steps.hold_one(tx, tenant=tenant, id=id, task_id=None if id is not None else str(task_id))
        if held is None:
            raise errors.TaskNotFound(f"There is no task {task_id} for tenant {tenant}.", task_id=str(task_id))
        if TaskState(held["state"]) in TASK.terminal:
            sentence = f"The task {held['task_id']} has ended ({held['state']}): nothing can be sent to it any more."
            raise errors.TaskEnded(sentence, task_id=held["task_id"], state=held["state"])
        number, lane = await steps.send(tx, held["id"], known, payload)
    return Sent(number, held["id"], lane)
