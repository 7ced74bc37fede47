"""Questions about tasks."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx
from ferryman.tasks import store
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.rules import request
from ferryman.tasks.states import TaskState

PAGE_MAX = 1000


class LogLine(NamedTuple):
    """One line of a task's log."""

    id: int
    attempt: int
    at: datetime
    level: str
    message: str


async def get(tx: Tx, task_id: str | UUID, *, tenant: str) -> TaskRecord | None:
    """Find a task by its id, or by the task_id its creator gave it."""
    if isinstance(task_id, UUID):
        return await store.get(tx, tenant=tenant, id=task_id, task_id=None)
    name = ids.check_name(task_id, "task_id")
    return await store.get(tx, tenant=tenant, id=request.as_uuid(name), task_id=name)


async def page(
    tx: Tx, *, tenant: str, state: str | None, queue: str | None, name: str | None, before: UUID | None, limit: int
) -> list[TaskRecord]:
    """Read a page of tasks, newest first."""
    if state is not None and state not in set(TaskState):
        known = ", ".join(each.value for each in TaskState)
        raise errors.TaskInvalidRequest(f"state: expected one of {known}, got {state!r}.", field="state")
    if not 1 <= limit <= PAGE_MAX:
        raise errors.TaskInvalidRequest(f"limit: expected 1 to {PAGE_MAX}, got {limit}.", field="limit")
    return await store.list_page(tx, tenant=tenant, state=state, queue=queue, name=name, before=before, limit=limit)


async def logs(tx: Tx, id: UUID, *, tenant: str, after: int, limit: int) -> list[LogLine]:
    """Read what a handler said, in order."""
    rows = await store.read_log(tx, id, tenant=tenant, after=after, limit=limit)
    return [LogLine(row["id"], row["attempt"], row["at"], row["level"], row["message"]) for row in rows]
