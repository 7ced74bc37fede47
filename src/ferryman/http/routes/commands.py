"""Commands over HTTP (C1, C10)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from ferryman.commands.model import CommandRecord
from ferryman.commands.states import CommandStatus
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import Body, RepeatKey, asks, takes, with_key
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import Before, Key, Wait
from ferryman.http.routes.async_tasks import AsyncTask
from ferryman.http.routes.tasks import Reason
from ferryman.kernel import payload

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


def whole(command: CommandRecord) -> dict[str, Any]:
    """Return a command with its payload as a value."""
    return command._asdict() | {"payload": payload.decode(command.payload)}


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
    command_type: Annotated[Key | None, Query(description="Of this type only: found by walking, newest first.")] = None,
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
