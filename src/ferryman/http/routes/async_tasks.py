"""Async tasks over HTTP: what commands set going, and what comes of it outside (C5, C9)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter

from ferryman.commands.intake.read import task_json
from ferryman.commands.model import Completion
from ferryman.commands.states import AsyncTaskStatus
from ferryman.http.answers import Asked, Shape
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Reading, Writing
from ferryman.http.routes.tasks import Reason
from ferryman.kernel import errors

router = APIRouter(prefix="/async-tasks", tags=["commands"])


class AsyncTask(Shape):
    """What a command set going: the work of one capability."""

    id: UUID
    tenant: str
    task_type: str
    message_type: str
    triggered_by_command_id: UUID | None
    status: AsyncTaskStatus
    progress: float
    retry_count: int
    max_retries: int
    execution_node: str | None
    task: UUID | None
    deadline_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    input_data: Any
    result_data: Any
    error_data: Any


class Done(Asked):
    """What came of an async task whose work is done outside: a result of any JSON value, or an error."""

    type: str | None = None
    result: Any = None
    error: Any = None


class Matched(Done):
    """A result that knows its command and its type, and not its async task."""

    correlation_id: str
    type: str


class Ended(Shape):
    """Which async task was ended."""

    async_task_id: UUID
    changed: bool


class Progress(Asked):
    """How far an async task is, in percent."""

    progress: float


class Told(Shape):
    """Whether it was noted."""

    changed: bool


class Statistic(Shape):
    """How many async tasks there are of a type and status, and how long they took, in seconds."""

    task_type: str
    status: AsyncTaskStatus
    count: int
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    latest_created_at: datetime | None
    latest_completed_at: datetime | None


@router.get("/statistics", response_model=list[Statistic], summary="Count async tasks")
async def statistics(visit: Reading) -> Any:
    """Read how many async tasks there are of each type and status, and how long they took (C9)."""
    return await visit.doors.commands.statistics()


@router.post("/complete", response_model=Ended, openapi_extra=takes(Matched), summary="Match a result")
async def match(visit: Writing, asked: Annotated[Matched, asks(Matched)]) -> dict[str, Any]:
    """Take a result that knows its command and its type: the newest live async task of that type is ended by it."""
    return _ended(await visit.doors.commands.complete(**asked.model_dump()))


@router.get("/{async_task_id}", response_model=AsyncTask, summary="Read an async task")
async def task(visit: Reading, async_task_id: UUID) -> dict[str, Any]:
    """Read an async task, with its input and its result."""
    return task_json(await visit.doors.commands.task(async_task_id))


@router.post(
    "/{async_task_id}/complete",
    response_model=Ended,
    openapi_extra=takes(Done, required=False),
    summary="Complete an async task",
)
async def complete(
    visit: Writing, async_task_id: UUID, asked: Annotated[Done, asks(Done, required=False)]
) -> dict[str, Any]:
    """Take the result of an async task, or its error, from whoever did the work."""
    return _ended(await visit.doors.commands.complete(async_task_id=async_task_id, **asked.model_dump()))


@router.post("/{async_task_id}/progress", response_model=Told, openapi_extra=takes(Progress), summary="Tell progress")
async def progress(visit: Writing, async_task_id: UUID, asked: Annotated[Progress, asks(Progress)]) -> dict[str, Any]:
    """Note how far an async task is whose work is done outside."""
    door = visit.doors.commands
    if not await door.progress(async_task_id, asked.progress):
        found = await door.task(async_task_id)
        if found.terminal:
            raise errors.AsyncTaskEnded(f"The async task has ended, as {found.status}.", id=str(async_task_id))
        raise errors.CommandInvalidRequest("progress: a capability of this app does the work and tells of it.")
    return {"changed": True}


@router.post(
    "/{async_task_id}/cancel",
    response_model=Ended,
    openapi_extra=takes(Reason, required=False),
    summary="Cancel an async task",
)
async def cancel_task(
    visit: Writing, async_task_id: UUID, asked: Annotated[Reason, asks(Reason, required=False)]
) -> dict[str, Any]:
    """Cancel one async task; its command goes on with the others, and fails when they have ended."""
    return _ended(await visit.doors.commands.cancel_task(async_task_id, reason=asked.reason))


def _ended(answer: Completion) -> dict[str, Any]:
    if answer.code == errors.AsyncTaskNotFound.code:
        raise errors.AsyncTaskNotFound()
    if not answer.changed:
        raise errors.AsyncTaskEnded(id=str(answer.async_task_id))
    return {"async_task_id": answer.async_task_id, "changed": True}
