"""Questions about tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx
from ferryman.tasks import store
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.rules import request
from ferryman.tasks.states import TaskState
from ferryman.tasks.store import steps as remembered

PAGE_MAX = 1000
LOG_ID_MAX = 2**63 - 1


class LogLine(NamedTuple):
    """One line of a task's log."""

    id: int
    attempt: int
    at: datetime
    level: str
    message: str


class Step(NamedTuple):
    """One durable call that a task remembers: open, done or failed; `until` is when a sleep or a wait ends."""

    kind: str
    name: str
    nth: int
    state: str
    at: datetime
    until: datetime | None
    child: UUID | None
    result: str | None


class WorkerRecord(NamedTuple):
    """One worker process, as it last said of itself."""

    boot_id: UUID
    host: str
    pid: int
    version: str
    queues: Sequence[str]
    handlers: Sequence[str]
    settings: Mapping[str, Any]
    started_at: datetime
    seen_until: datetime
    alive: bool


@dataclass(frozen=True, slots=True)
class Depth:
    """How much of a queue is live, by state; the oldest is this many seconds past its due time (below 0: not due)."""

    queue: str
    state: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Orphans:
    """Waiting tasks that no living worker would take."""

    queue: str
    name: str
    count: int
    due_at: datetime
    ends_at: datetime
    queue_served: bool


async def get(tx: Tx, task_id: str | UUID, *, tenant: str) -> TaskRecord | None:
    """Find a task by its id, or by the task_id its creator gave it."""
    if isinstance(task_id, UUID):
        return await store.get(tx, tenant=tenant, id=task_id, task_id=None)
    name = ids.check_name(task_id, "task_id")
    return await store.get(tx, tenant=tenant, id=request.as_uuid(name), task_id=name)


async def ids_of(
    session: Callable[[], AbstractAsyncContextManager[Tx]], task_ids: Sequence[str | UUID], *, tenant: str
) -> list[UUID]:
    """Return the ids of tasks that are given by id or by name; the names are looked up together, if there are any."""
    known = [each if isinstance(each, UUID) else request.as_uuid(ids.check_name(each, "task_id")) for each in task_ids]
    names = [str(each) for each, id in zip(task_ids, known, strict=True) if id is None]
    if not names:
        return [id for id in known if id is not None]
    async with session() as tx:
        found = await store.named(tx, names, tenant=tenant)
    for name in names:
        if name not in found:
            raise errors.TaskNotFound(f"There is no task {name} for tenant {tenant}.", task_id=name)
    return [found[str(each)] if id is None else id for each, id in zip(task_ids, known, strict=True)]


async def page(
    tx: Tx, *, tenant: str, state: object, queue: object, name: object, before: object, limit: object
) -> list[TaskRecord]:
    """Read a page of tasks, newest first; what it is asked by comes from outside and is checked here."""
    if state is not None and (not isinstance(state, str) or state not in set(TaskState)):
        known = ", ".join(each.value for each in TaskState)
        raise errors.TaskInvalidRequest(f"state: expected one of {known}, got {ascii(state)[:60]}.", field="state")
    if before is not None and not isinstance(before, UUID):
        got = ascii(before)[:60]
        raise errors.TaskInvalidRequest(f"before: expected the id of a task, as a UUID, got {got}.", field="before")
    return await store.list_page(
        tx,
        tenant=tenant,
        state=state,
        queue=None if queue is None else ids.check_name(queue, "queue"),
        name=None if name is None else ids.check_name(name, "name"),
        before=before,
        limit=request.whole(limit, "limit", 1, PAGE_MAX),
    )


async def logs(tx: Tx, id: UUID, *, tenant: str, after: object, limit: object) -> list[LogLine]:
    """Read what a handler said, in order."""
    rows = await store.read_log(
        tx,
        id,
        tenant=tenant,
        after=request.whole(after, "after", 0, LOG_ID_MAX),
        limit=request.whole(limit, "limit", 1, PAGE_MAX),
    )
    return [LogLine(row["id"], row["attempt"], row["at"], row["level"], row["message"]) for row in rows]


async def steps(tx: Tx, id: UUID, *, tenant: str) -> list[Step]:
    """Read what a task remembers of its durable calls, in order; of very many the first."""
    rows = await remembered.read(tx, id, tenant=tenant, limit=PAGE_MAX)
    return [Step(*(row[name] for name in Step._fields)) for row in rows]


async def workers(tx: Tx) -> list[WorkerRecord]:
    """Read who works, and who went without a word in the last day."""
    names = WorkerRecord._fields
    rows = [{name: row[name] for name in names} for row in await store.workers(tx)]
    return [WorkerRecord(**{**row, "settings": json.loads(row["settings"])}) for row in rows]


async def depth(tx: Tx) -> list[Depth]:
    """Count live tasks by queue and state."""
    return [Depth(row["queue"], row["state"], row["count"], row["oldest_seconds"]) for row in await store.queues(tx)]


async def orphans(tx: Tx) -> list[Orphans]:
    """Find waiting tasks that no living worker would take, by queue and handler."""
    return [Orphans(**{part.name: row[part.name] for part in fields(Orphans)}) for row in await store.orphans(tx)]
