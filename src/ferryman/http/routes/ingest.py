"""Ingestion over HTTP: plans, how far they are, and what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import Before, Name, Wait
from ferryman.ingest.model import Planned
from ferryman.ingest.model import Progress as Standing
from ferryman.kernel import errors

router = APIRouter(prefix="/ingest", tags=["ingest"])


class Window(Asked):
    """What a plan covers, and how: the fields of the source's request."""

    source: str
    endpoint: str | None = None
    until: datetime | None = None
    strategy: str | None = None
    params: dict[str, Any] | None = None
    expression: Any = None
    budget: dict[str, Any] | None = None
    campaign: str | None = None


class NewPlan(Window):
    """A plan to be made; a harvest needs no window, it goes on from its cursor."""

    operation: str = "HARVEST"
    since: datetime | None = None
    job: str | None = None
    fire_time: datetime | None = None


class NewBackfill(Window):
    """History to be fetched, up to `until` or to the forward watermark."""

    since: datetime


class Plan(Shape):
    """The answer to a request for a plan. No id: the window is empty, and no plan was made."""

    plan: UUID | None
    made: bool
    status: str | None
    since: datetime | None
    until: datetime | None
    slices: int
    tasks: int
    waiting: int
    failed: int


class Progress(Shape):
    """How far a plan is: the share of its window that is covered, rates, requests, records, errors, estimated end."""

    id: UUID
    source: str
    endpoint: str
    operation: str
    strategy: str
    status: str
    since: datetime | None
    until: datetime | None
    share: float
    slices: int
    slices_done: int
    tasks: dict[str, int]
    undecided: int
    requests: int
    items: int
    errors: int
    quarantined: int
    rate: float | None
    ends_in: float | None
    gate: float | None
    shut_until: datetime | None
    created_at: datetime
    over: bool


class Quarantined(Shape):
    """A record that could not be taken, and why."""

    batch: UUID
    no: int
    at: datetime
    endpoint: str
    reason: str
    item: Any


class NewSchedule(Asked):
    """A standing order: each firing makes one plan. One of `every` and `cron` says when."""

    source: str
    endpoint: str | None = None
    every: str | None = None
    cron: str | None = None
    timezone: str | None = None
    operation: str = "HARVEST"
    expression: Any = None
    schedule_id: str | None = None


class Scheduled(Shape):
    """The schedule that plans, as `/v1/schedules` knows it."""

    id: UUID
    schedule_id: str
    idempotent_hit: bool


@router.post(
    "/plans",
    status_code=201,
    response_model=Plan,
    responses=also(200, Plan),
    openapi_extra=takes(NewPlan),
    summary="Make a plan",
)
async def plan(visit: Writing, asked: Annotated[NewPlan, asks(NewPlan)], response: Response) -> dict[str, Any]:
    """Make a plan, its slices and their tasks; or answer with the plan that is there, or that the window is empty (200)."""
    made = await visit.doors.ingest.plan(**asked.model_dump(), trigger="API")
    return _planned(made, response)


@router.post(
    "/backfills",
    status_code=201,
    response_model=Plan,
    responses=also(200, Plan),
    openapi_extra=takes(NewBackfill),
    summary="Plan history",
)
async def backfill(
    visit: Writing, asked: Annotated[NewBackfill, asks(NewBackfill)], response: Response
) -> dict[str, Any]:
    """Plan the history of a source; the cursor of its harvest stays as it is."""
    made = await visit.doors.ingest.backfill(**asked.model_dump(), trigger="API")
    return _planned(made, response)


def _planned(made: Planned, response: Response) -> dict[str, Any]:
    if not made.made:
        response.status_code = 200
    if made.id is not None:
        response.headers["Location"] = f"/v1/ingest/plans/{made.id}"
    return made.as_json()


@router.get("/plans", response_model=Page[Progress], summary="List plans")
async def list_page(
    visit: Reading,
    source: Annotated[Name | None, Query(description="Of this source only.")] = None,
    before: Before = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List plans, newest first, a page at a time, and how far each of them is."""
    found = await visit.doors.ingest.status(source=source, before=before, limit=limit)
    return page(found, limit=limit)


@router.get("/plans/{plan_id}", response_model=Progress, responses=also(202, Progress), summary="Read a plan")
async def get(visit: Reading, plan_id: UUID, response: Response, wait: Wait = 0) -> Standing:
    """Read how far a plan is; with `wait` wait until nothing of it is live, so long at most. 202 if that was not enough."""
    if wait:
        try:
            return await visit.doors.ingest.wait(plan_id, timeout=wait)
        except TimeoutError:
            response.status_code = 202
    [progress] = await visit.doors.ingest.status(plan_id)
    return progress


@router.get("/blackbox/{id}", response_model=list[dict[str, Any]], summary="Rebuild what happened")
async def blackbox(visit: Reading, id: UUID) -> Any:
    """Rebuild what happened to a run, or to all runs of a task or a plan: batches, requests, the cursor's moves (I12)."""
    return await visit.doors.ingest.blackbox(id)


@router.get("/quarantine", response_model=Page[Quarantined], summary="List quarantined records")
async def quarantine(
    visit: Reading,
    source: Annotated[Name, Query(description="Name of the source.")],
    before: Annotated[str | None, Query(description="Go on before this one: `next` of the page before.")] = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List the records that could not be taken, newest first, a page at a time, each with its reason."""
    found = await visit.doors.ingest.quarantine(source, before=_place(before), limit=limit)
    last = found[-1] if len(found) == limit else None
    return {"items": found, "next": None if last is None else f"{last['batch']}:{last['no']}"}


def _place(text: str | None) -> tuple[UUID, int] | None:
    if text is None:
        return None
    try:
        batch, _, number = text.partition(":")
        place = (UUID(batch), int(number))
    except ValueError:
        place = (UUID(int=0), -1)
    if not 0 <= place[1] < 2**31:
        raise errors.RequestInvalid("before: expected `next` of a page.", field="before")
    return place


@router.post(
    "/schedules",
    status_code=201,
    response_model=Scheduled,
    responses=also(200, Scheduled),
    openapi_extra=takes(NewSchedule),
    summary="Plan regularly",
)
async def schedule(
    visit: Writing, asked: Annotated[NewSchedule, asks(NewSchedule)], response: Response
) -> dict[str, Any]:
    """Let a schedule plan. It is a schedule like others: `/v1/schedules` pauses, resumes and deletes it."""
    given = {name: value for name, value in asked.model_dump().items() if value is not None}
    made = await visit.doors.ingest.schedule(**given)
    if made.idempotent_hit:
        response.status_code = 200
    return {"id": made.id, "schedule_id": made.schedule.schedule_id, "idempotent_hit": made.idempotent_hit}
