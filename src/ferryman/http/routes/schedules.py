"""Schedules over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, page
from ferryman.http.bodies import Body, RepeatKey, takes, with_key
from ferryman.http.callers import Reading, Writing
from ferryman.http.routes.tasks import Created, Listed, Reason
from ferryman.kernel import payload
from ferryman.kernel.codec import Seal
from ferryman.tasks.model import ScheduleRecord
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.states import ScheduleState, TaskState

router = APIRouter(prefix="/schedules", tags=["schedules"])


class NewSchedule(Asked):
    """A schedule to be made, in the form of the source: schedule_type is cron, daily or every."""

    name: str
    schedule_type: str
    payload: Any = None
    task_id: str | None = None
    cron_expr: str | None = None
    timezone: str | None = None
    time_of_day: str | None = None
    interval: str | float | None = None
    catch_up: str | None = None
    overlap: str | None = None
    queue: str | None = None
    priority: int | None = None
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


class ListedSchedule(Shape):
    """A schedule, as lists show it."""

    id: UUID
    schedule_id: str
    tenant: str
    name: str
    queue: str
    priority: int
    schedule_type: str
    cron_expr: str | None
    timezone: str | None
    interval_ms: int | None
    catch_up: str
    overlap: str
    state: ScheduleState
    next_run_at: datetime | None
    last_run_at: datetime | None
    ends_at: datetime | None
    fired: int
    missed: int
    skipped: int
    timeout_ms: int
    max_retries: int
    idempotency_key: str | None
    idempotency_scope: str | None
    declared: bool
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


class Schedule(ListedSchedule):
    """A schedule, whole."""

    payload: Any


class CreatedSchedule(Shape):
    """The answer to a create: the schedule, and whether it was there before."""

    idempotent_hit: bool
    schedule: ListedSchedule


class Firing(Shape):
    """One task of a schedule."""

    id: UUID
    task_id: str
    fire_time: datetime
    state: TaskState
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    last_error_code: str | None
    last_error_reason: str | None


class Firings(Shape):
    """The latest tasks of a schedule, the newest firing first."""

    items: Sequence[Firing]


class Next(Shape):
    """The next firings, in UTC."""

    items: Sequence[datetime]


class Moved(Shape):
    """Whether it was moved now."""

    moved: bool


def whole(record: ScheduleRecord, seal: Seal) -> dict[str, Any]:
    """Return a schedule with its payload as a value."""
    return record._asdict() | {"payload": payload.decode(seal.shown(record.payload))}


@router.post("", status_code=201, response_model=CreatedSchedule, openapi_extra=takes(NewSchedule))
async def create(visit: Writing, asked: Body, key: RepeatKey, response: Response) -> dict[str, Any]:
    """Create a schedule. With an Idempotency-Key, or a task_id, a repeat answers with the one that is there (200)."""
    made = await visit.doors.schedules.accept(with_key(asked, key))
    if made.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/schedules/{made.id}"
    return {"idempotent_hit": made.idempotent_hit, "schedule": made.schedule}


@router.get("", response_model=Page[ListedSchedule])
async def list_page(
    visit: Reading,
    state: Annotated[ScheduleState | None, Query(description="Of this state only.")] = None,
    name: Annotated[str | None, Query(description="Of this handler only.")] = None,
    before: Annotated[UUID | None, Query(description="Go on before this id: `next` of the page before.")] = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List schedules, newest first, a page at a time."""
    found = await visit.doors.schedules.list(state=state, name=name, before=before, limit=limit)
    return page(found, limit=limit)


@router.get("/{schedule_id}", response_model=Schedule)
async def get(visit: Reading, schedule_id: str) -> dict[str, Any]:
    """Read a schedule, by its id or by the name that its creator gave it."""
    return whole(await visit.doors.schedules.record(schedule_id), visit.doors.tasks.seal)


@router.get("/{schedule_id}/next", response_model=Next)
async def upcoming(
    visit: Reading, schedule_id: str, count: Annotated[int, Query(ge=1, le=100, description="How many.")] = 5
) -> dict[str, Any]:
    """Say when a schedule fires next; of a paused one, when it would after a resume."""
    return {"items": await visit.doors.schedules.next(schedule_id, count)}


@router.get("/{schedule_id}/firings", response_model=Firings)
async def firings(
    visit: Reading, schedule_id: str, limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 20
) -> dict[str, Any]:
    """Read the latest tasks of a schedule."""
    return {"items": await visit.doors.schedules.firings(schedule_id, limit=limit)}


@router.get("/{schedule_id}/events")
async def events(visit: Reading, schedule_id: str) -> list[dict[str, Any]]:
    """Read everything that happened to a schedule, in order."""
    return [envelope(event) for event in await visit.doors.schedules.events(schedule_id)]


@router.post("/{schedule_id}/pause", response_model=Moved)
async def pause(visit: Writing, schedule_id: str, asked: Reason | None = None) -> dict[str, Any]:
    """Let a schedule rest."""
    reason = None if asked is None else asked.reason
    return {"moved": await visit.doors.schedules.pause(schedule_id, reason=reason)}


@router.post("/{schedule_id}/resume", response_model=Moved)
async def resume(visit: Writing, schedule_id: str) -> dict[str, Any]:
    """Let a paused schedule fire again, from now on."""
    return {"moved": await visit.doors.schedules.resume(schedule_id)}


@router.post("/{schedule_id}/trigger", status_code=201, response_model=Created)
async def trigger(visit: Writing, schedule_id: str, response: Response) -> dict[str, Any]:
    """Fire a schedule now; when it fires next stays as it is."""
    made = await visit.doors.schedules.trigger(schedule_id)
    if made.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/tasks/{made.id}"
    return {"idempotent_hit": made.idempotent_hit, "task": Listed.model_validate(made.task)}


@router.delete("/{schedule_id}", response_model=Moved)
async def delete(visit: Writing, schedule_id: str) -> dict[str, Any]:
    """End a schedule for good. Tasks that it has fired go on; its name is free again."""
    return {"moved": await visit.doors.schedules.delete(schedule_id)}
