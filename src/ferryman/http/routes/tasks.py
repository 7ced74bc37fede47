"""Tasks over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, page
from ferryman.http.bodies import Body, RepeatKey, takes, with_key
from ferryman.http.callers import Reading, Writing
from ferryman.kernel import payload
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.states import TaskState

router = APIRouter(prefix="/tasks", tags=["tasks"])


class NewTask(Asked):
    """A task to be made, in the form of the source."""

    name: str
    payload: Any = None
    task_id: str | None = None
    queue: str | None = None
    priority: int | None = None
    schedule_type: str | None = None
    scheduled_at: datetime | None = None
    timeout_ms: int | None = None
    max_retries: int | None = None
    backoff: Any = None
    idempotency_key: str | None = None
    idempotency_scope: str | None = None
    ends_at: datetime | None = None
    limit_key: str | None = None
    singleton: str | bool | None = None
    debounce: float | None = None
    debounce_key: str | None = None


class Listed(Shape):
    """A task, as lists show it."""

    id: UUID
    task_id: str
    tenant: str
    name: str
    queue: str
    priority: int
    schedule_type: str | None
    scheduled_at: datetime | None
    state: TaskState
    attempt: int
    max_retries: int
    timeout_ms: int
    idempotency_key: str | None
    idempotency_scope: str | None
    last_error_code: str | None
    last_error_reason: str | None
    due_at: datetime
    ends_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    leased_until: datetime | None
    progress: int | None
    progress_message: str | None
    schedule: UUID | None
    fire_time: datetime | None
    limit_key: str | None
    retry_of: UUID | None


class Task(Listed):
    """A task, whole."""

    payload: Any
    result: Any


class Created(Shape):
    """The answer to a create: the task, and whether it was there before."""

    idempotent_hit: bool
    task: Listed


class Reason(Asked):
    """Why."""

    reason: str | None = None


class Cancelled(Shape):
    """Whether the task was cancelled now."""

    cancelled: bool


class Retried(Shape):
    """The new task that tries an ended one anew; null if that one lives, succeeded or is being retried."""

    task_id: UUID | None


class LogLine(Shape):
    """A line that a handler said."""

    id: int
    attempt: int
    at: datetime
    level: str
    message: str


def whole(record: TaskRecord) -> dict[str, Any]:
    """Return a task with its payload and result as values."""
    texts = {"payload": record.payload, "result": record.result}
    return record._asdict() | {name: None if text is None else payload.decode(text) for name, text in texts.items()}


@router.post("", status_code=201, response_model=Created, openapi_extra=takes(NewTask))
async def create(visit: Writing, asked: Body, key: RepeatKey, response: Response) -> dict[str, Any]:
    """Create a task. With an Idempotency-Key, or a task_id, a repeat answers with the task that is there (200)."""
    made = await visit.doors.tasks.accept(with_key(asked, key))
    if made.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/tasks/{made.id}"
    return {"idempotent_hit": made.idempotent_hit, "task": made.task}


@router.get("", response_model=Page[Listed])
async def list_page(
    visit: Reading,
    state: Annotated[TaskState | None, Query(description="Of this state only.")] = None,
    queue: Annotated[str | None, Query(description="Of this queue only.")] = None,
    name: Annotated[str | None, Query(description="Of this handler only.")] = None,
    before: Annotated[UUID | None, Query(description="Go on before this id: `next` of the page before.")] = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List tasks, newest first, a page at a time."""
    found = await visit.doors.tasks.list(state=state, queue=queue, name=name, before=before, limit=limit)
    return page(found, limit=limit)


@router.get("/{task_id}", response_model=Task)
async def get(visit: Reading, task_id: str) -> dict[str, Any]:
    """Read a task, by its id or by the task_id that its creator gave it."""
    return whole(await visit.doors.tasks.record(task_id))


@router.post("/{task_id}/cancel", response_model=Cancelled)
async def cancel(visit: Writing, task_id: str, asked: Reason | None = None) -> dict[str, Any]:
    """Cancel a task that has not ended."""
    found = await visit.doors.tasks.record(task_id)
    done = await visit.doors.tasks.cancel(found.id, reason=None if asked is None else asked.reason)
    return {"cancelled": bool(done)}


@router.post("/{task_id}/retry", response_model=Retried)
async def retry(visit: Writing, task_id: str) -> dict[str, Any]:
    """Try a failed or cancelled task anew, as a new task."""
    found = await visit.doors.tasks.record(task_id)
    made = await visit.doors.tasks.retry(found.id)
    return {"task_id": made[0].new if made else None}


@router.get("/{task_id}/explain")
async def explain(visit: Reading, task_id: str) -> dict[str, Any]:
    """Say what a task is doing, why it is not running, and what ends it and when (K22)."""
    return (await visit.doors.tasks.explain(task_id)).as_json()


@router.get("/{task_id}/events")
async def events(visit: Reading, task_id: str) -> list[dict[str, Any]]:
    """Read everything that happened to a task, in order."""
    return [envelope(event) for event in await visit.doors.tasks.events(task_id)]


@router.get("/{task_id}/logs", response_model=Page[LogLine])
async def logs(
    visit: Reading,
    task_id: str,
    after: Annotated[
        int, Query(ge=0, le=2**63 - 1, description="Go on after this line: `next` of the page before.")
    ] = 0,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """Read what a task's handler said, in order."""
    return page(await visit.doors.tasks.logs(task_id, after=after, limit=limit), limit=limit)
