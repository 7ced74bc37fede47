"""What every birth has in common, whoever asks for it: the order of keys, what was met, the record of the newborn (T12)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import Row
from ferryman.tasks.model import Created, Draft, NewTask, TaskRecord
from ferryman.tasks.rules import request
from ferryman.tasks.states import TaskState

# A create that meets a task which is deleted before it can be read is sent again; retention is not that fast twice.
TRIES = 3

_PAYLOAD = TaskRecord._fields.index("payload")


def place(task: NewTask) -> tuple[str, str, str]:
    """Return where a task stands in the order in which keys are taken."""
    return task.idempotency_key or "", task.idempotency_scope or "", task.task_id or ""


def compare(draft: Draft, hits: dict[str, TaskRecord]) -> Created | errors.TaskDuplicate:
    """Answer a create that met existing tasks: a hit, or a conflict."""
    by_id, by_key = hits.get("task_id"), hits.get("idempotency_key")
    existing = by_id or by_key
    assert existing is not None
    if by_id is not None and by_key is not None and by_id.id != by_key.id:
        fields = ["task_id", "idempotency_key"]
    else:
        fields = request.conflicts(draft, existing)
    if fields:
        return errors.TaskDuplicate(conflict_fields=fields, existing=existing.as_json())
    # Our own id, made here: this very create was sent twice because its first answer was lost. Only where the caller's
    # task_id is the id itself, nothing tells a repeat from a hit.
    made_here = draft.task.task_id is not None or "task_id" not in draft.given
    repeated = made_here and existing.id == draft.task.id
    return Created(existing, idempotent_hit=not repeated)


def newborn(task: NewTask, row: Row) -> TaskRecord:
    """Return the record of a task that was just born."""
    return born_as(task, TaskState(row["state"]), row["due_at"], row["ends_at"], row["created_at"])


def born_as(task: NewTask, state: TaskState, due_at: datetime, ends_at: datetime, born: datetime) -> TaskRecord:
    """Return the record of a task that was born so."""
    return TaskRecord(
        task.id, task.task_id or str(task.id), task.tenant, task.name, task.queue, task.priority, task.schedule_type,
        task.scheduled_at, state, 1, task.max_retries, task.timeout_ms, task.idempotency_key,
        task.idempotency_scope, None, None, due_at, ends_at, born, born, None, None, None, None,
        task.payload, None, None, None, None, None, task.limit_key,
    )  # fmt: skip


def siblings(first: TaskRecord, ids: Sequence[UUID], payloads: Sequence[str]) -> list[TaskRecord]:
    """Return the records of tasks that were born alike; put together from parts: `_replace` takes five times as long."""
    assert TaskRecord._fields[:2] == ("id", "task_id")
    before, after = first[2:_PAYLOAD], first[_PAYLOAD + 1 :]
    return [
        TaskRecord._make((id, str(id), *before, payload, *after)) for id, payload in zip(ids, payloads, strict=True)
    ]
