"""Tasks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from ferryman.http.answers import LIMIT, Answer, Asked, Limit, Page, Shape, page
from ferryman.http.bodies import Body, RepeatKey, takes, with_key
from ferryman.http.callers import Reading, Visit, Writing
from ferryman.http.streams import MEDIA_TYPE, frame, staying, told
from ferryman.kernel import errors, payload
from ferryman.tasks.intake.result import End
from ferryman.tasks.model import SHOWN, TaskRecord
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.rules.request import recurring
from ferryman.tasks.states import TaskState

router = APIRouter(prefix="/tasks", tags=["tasks"])

BULK_MAX = 1000
WAIT_SECONDS_MAX = 60.0


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


class NewTasks(Asked):
    """Tasks to be made, all or none."""

    tasks: Annotated[Sequence[NewTask], Field(min_length=1, max_length=BULK_MAX)]


class CreatedMany(Shape):
    """The answers, in the order of the requests."""

    items: Sequence[Created]


class NewEvent(Asked):
    """An event for a task."""

    name: str
    payload: Any = None


class Sent(Shape):
    """The number of the event that was kept."""

    number: int


class Result(Shape):
    """How a task ended: what its handler returned, or the code and the reason; or that it has not ended."""

    ended: bool
    state: TaskState
    attempt: int
    result: Any = None
    code: str | None = None
    reason: str | None = None


class Far(Shape):
    """How far a task is, 0 to 100, and what it says."""

    percent: int | None
    message: str | None
    state: TaskState


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


def shown(record: TaskRecord) -> dict[str, Any]:
    """Return a task as lists show it, without asking each field whether it fits: it came from our own table."""
    return dict(zip(SHOWN, _shown(record), strict=True))


_shown = itemgetter(*(TaskRecord._fields.index(name) for name in SHOWN))


@router.post("", status_code=201, response_model=Created, openapi_extra=takes(NewTask))
async def create(visit: Writing, asked: Body, key: RepeatKey) -> Response:
    """Create a task. With an Idempotency-Key, or a task_id, a repeat answers with the task that is there (200).

    With schedule_type cron, daily or every it makes a schedule, as POST /v1/schedules does, and `task` tells of that.
    """
    made = await born(visit, with_key(asked, key))
    return Answer(made.told, status_code=made.status, headers={"Location": made.where})


class Born(NamedTuple):
    """What a create came to: whether it was there before, where it is, and what is told of it."""

    hit: bool
    where: str
    task: dict[str, Any]

    @property
    def status(self) -> int:
        """The status of the answer."""
        return 200 if self.hit else 201

    @property
    def told(self) -> dict[str, Any]:
        """The answer."""
        return {"idempotent_hit": self.hit, "task": self.task}


async def born(visit: Visit, asked: dict[str, Any]) -> Born:
    """Do what a request in the form of the source asks for."""
    if recurring(asked):
        made = await visit.doors.schedules.accept(asked)
        return Born(made.idempotent_hit, f"/v1/schedules/{made.id}", made.schedule.as_task_json())
    task = await visit.doors.tasks.accept(asked)
    return Born(task.idempotent_hit, f"/v1/tasks/{task.id}", shown(task.task))


@router.post("/bulk", status_code=201, response_model=CreatedMany, openapi_extra=takes(NewTasks))
async def create_many(visit: Writing, asked: Body) -> Response:
    """Create many tasks, all or none; a task that is there already is answered with. A refusal names its place in the list."""
    unknown = sorted(set(asked) - {"tasks"})
    given = asked.get("tasks")
    if unknown:
        raise errors.RequestInvalid(f"{unknown[0][:60]}: expected tasks alone.", field=unknown[0][:60])
    if not isinstance(given, list) or not 1 <= len(given) <= BULK_MAX:
        raise errors.RequestInvalid(f"tasks: expected a list of 1 to {BULK_MAX} requests.", field="tasks")
    made = await visit.doors.tasks.accept_many(given)
    items = [{"idempotent_hit": each.idempotent_hit, "task": shown(each.task)} for each in made]
    return Answer({"items": items}, status_code=201)


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


@router.post("/{task_id}/events", status_code=201, response_model=Sent)
async def send_event(visit: Writing, task_id: str, asked: NewEvent) -> dict[str, Any]:
    """Send an event to a task that has not ended, such as a person's approval; `ctx.wait_event(name)` there takes it."""
    return {"number": await visit.doors.tasks.send_event(task_id, asked.name, asked.payload)}


@router.get("/{task_id}/result", response_model=Result, responses={202: {"model": Result, "description": "Not ended."}})
async def result(
    visit: Reading,
    task_id: str,
    request: Request,
    response: Response,
    wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for the end.")] = 0,
) -> dict[str, Any]:
    """Read how a task ended, waiting for it if asked to; 202 while it has not."""
    found = await visit.doors.tasks.record(task_id)
    end = None
    if found.terminal or wait > 0:
        async with staying(request) as gone:
            end = await ended(visit, found, wait or WAIT_SECONDS_MAX, gone)
    if end is None:
        response.status_code = 202
        return {"ended": False, "state": found.state, "attempt": found.attempt}
    text = None if end.result is None else payload.decode(end.result)
    return {"ended": True, **end._asdict(), "result": text}


async def ended(visit: Visit, found: TaskRecord, seconds: float, unless: asyncio.Event) -> End | None:
    """Wait for the end of a task, for so long at most, or until somebody does not want to know any more."""
    waiting = asyncio.ensure_future(visit.doors.tasks.end(found.id))
    leaving = asyncio.ensure_future(unless.wait())
    try:
        await asyncio.wait([waiting, leaving], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        leaving.cancel()
        waiting.cancel()


@router.get("/{task_id}/progress", response_model=Far)
async def progress(visit: Reading, task_id: str) -> dict[str, Any]:
    """Read how far a task is."""
    found = await visit.doors.tasks.record(task_id)
    return {"percent": found.progress, "message": found.progress_message, "state": found.state}


@router.get("/{task_id}/progress/stream", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def progress_stream(visit: Reading, task_id: str, request: Request) -> Response:
    """Follow how far a task is, as server-sent events, until it has ended."""
    found = await visit.doors.tasks.record(task_id)

    async def parts() -> AsyncGenerator[bytes, None]:
        async for word in visit.doors.tasks.watch(found.id):
            yield frame(orjson.dumps(word._asdict()), event="progress")

    return told(parts(), closing=request.app.state.closing)


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
