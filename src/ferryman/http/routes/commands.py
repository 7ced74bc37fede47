"""Commands and their async tasks over HTTP (C1, C5, C10)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from ferryman.commands.intake.read import task_json
from ferryman.commands.model import CommandRecord, Completion
from ferryman.commands.states import AsyncTaskStatus, CommandStatus
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import Body, RepeatKey, asks, takes, with_key
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import Before, Key, Wait
from ferryman.http.routes.tasks import Reason
from ferryman.kernel import errors, payload

router = APIRouter(tags=["commands"])


class NewCommand(Asked):
    """A command to be sent."""

    command_type: str
    payload: Any = None
    session_id: str | None = None
    idempotency_key: str | None = None
    scope: str | None = None
    deadline_seconds: float | None = None


class Sent(Shape):
    """The answer to a send: the command is stored, and this is where to look."""

    accepted: bool
    command_id: UUID
    correlation_id: UUID
    location: str
    status: CommandStatus
    idempotent_hit: bool


class Listed(Shape):
    """A command, as lists show it."""

    id: UUID
    tenant: str
    scope: str
    command_type: str
    session_id: str | None
    idempotency_key: str | None
    status: CommandStatus
    tasks: int
    open: int
    failed: int
    retry_count: int
    error_code: str | None
    error_message: str | None
    deadline_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Command(Listed):
    """A command, whole."""

    payload: Any


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


class Happening(Shape):
    """Something that was logged of a command or of one of its async tasks."""

    id: int
    at: datetime
    kind: str
    subject: UUID
    name: str | None
    from_: str | None = Field(alias="from")
    to: str | None
    code: str | None
    reason: str | None
    data: Any


class Story(Shape):
    """All that came of a command: what was logged, in order, and its async tasks with their results."""

    command: Command
    tasks: list[AsyncTask]
    events: list[Happening]


class Cancelled(Shape):
    """Whether it was cancelled now; false when it had ended."""

    cancelled: bool


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


def whole(command: CommandRecord) -> dict[str, Any]:
    """Return a command with its payload as a value."""
    return command._asdict() | {"payload": payload.decode(command.payload)}


# Commands


@router.post(
    "/commands", status_code=202, response_model=Sent, openapi_extra=takes(NewCommand), summary="Send a command"
)
async def send(visit: Writing, asked: Body, key: RepeatKey, response: Response) -> dict[str, Any]:
    """Send a command, and answer when it is stored. With an Idempotency-Key a repeat answers with the same command."""
    sent = await visit.doors.commands.accept(with_key(asked, key))
    where = f"/v1/commands/{sent.id}"
    response.headers["Location"] = where
    return sent.answer() | {"location": where}


@router.get("/commands", response_model=Page[Listed], summary="List commands")
async def list_page(
    visit: Reading,
    status: Annotated[CommandStatus | None, Query(description="Of this status only.")] = None,
    command_type: Annotated[Key | None, Query(description="Of this type only.")] = None,
    session_id: Annotated[Key | None, Query(description="Of this session only.")] = None,
    before: Before = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List commands, newest first, a page at a time."""
    found = await visit.doors.commands.list(
        status=status, command_type=command_type, session_id=session_id, before=before, limit=limit
    )
    return page(found, limit=limit)


@router.get("/commands/{command_id}", response_model=Command, responses=also(202, Command), summary="Read a command")
async def get(visit: Reading, command_id: UUID, response: Response, wait: Wait = 0) -> dict[str, Any]:
    """Read a command; with `wait` wait for its end, so long at most. 202 while it goes on after such a wait."""
    door = visit.doors.commands
    if wait:
        try:
            return whole(await door.wait(command_id, timeout=wait))
        except TimeoutError:
            response.status_code = 202
    return whole(await door.get(command_id))


@router.get("/commands/{correlation_id}/story", response_model=Story, summary="Read the story of a command")
async def story(visit: Reading, correlation_id: UUID) -> dict[str, Any]:
    """Read all that came of a command, by its id, which is the correlation id of everything: events, tasks, results."""
    return (await visit.doors.commands.story(correlation_id)).as_json()


@router.post(
    "/commands/{command_id}/cancel",
    response_model=Cancelled,
    openapi_extra=takes(Reason, required=False),
    summary="Cancel a command",
)
async def cancel(
    visit: Writing, command_id: UUID, asked: Annotated[Reason, asks(Reason, required=False)]
) -> dict[str, Any]:
    """Cancel a command that has not ended, with all that it started."""
    return {"cancelled": await visit.doors.commands.cancel(command_id, reason=asked.reason)}


# Async tasks


@router.get("/async-tasks/statistics", response_model=list[Statistic], summary="Count async tasks")
async def statistics(visit: Reading) -> Any:
    """Read how many async tasks there are of each type and status, and how long they took (C9)."""
    return await visit.doors.commands.statistics()


@router.post("/async-tasks/complete", response_model=Ended, openapi_extra=takes(Matched), summary="Match a result")
async def match(visit: Writing, asked: Annotated[Matched, asks(Matched)]) -> dict[str, Any]:
    """Take a result that knows its command and its type: the newest live async task of that type is ended by it."""
    return _ended(await visit.doors.commands.complete(**asked.model_dump()))


@router.get("/async-tasks/{async_task_id}", response_model=AsyncTask, summary="Read an async task")
async def task(visit: Reading, async_task_id: UUID) -> dict[str, Any]:
    """Read an async task, with its input and its result."""
    return task_json(await visit.doors.commands.task(async_task_id))


@router.post(
    "/async-tasks/{async_task_id}/complete",
    response_model=Ended,
    openapi_extra=takes(Done, required=False),
    summary="Complete an async task",
)
async def complete(
    visit: Writing, async_task_id: UUID, asked: Annotated[Done, asks(Done, required=False)]
) -> dict[str, Any]:
    """Take the result of an async task, or its error, from whoever did the work."""
    return _ended(await visit.doors.commands.complete(async_task_id=async_task_id, **asked.model_dump()))


@router.post(
    "/async-tasks/{async_task_id}/progress", response_model=Told, openapi_extra=takes(Progress), summary="Tell progress"
)
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
    "/async-tasks/{async_task_id}/cancel",
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
