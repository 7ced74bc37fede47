"""Queues over HTTP, as one tenant sees them; what holds for all tenants is the operator's (routes/operations.py)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter

from ferryman.http.answers import Asked, Shape
from ferryman.http.bodies import Body, takes
from ferryman.http.callers import Reading, Ruling, Visit
from ferryman.kernel import errors
from ferryman.tasks.intake import queues
from ferryman.tasks.intake.queues import EVERYBODY
from ferryman.tasks.rules.queue import FIELDS

router = APIRouter(prefix="/queues", tags=["queues"])


class Queue(Shape):
    """A queue: what is agreed for all tenants together (`*`), or for one. What waits and runs is counted for all together."""

    name: str
    tenant: str
    weight: int
    concurrency: int | None
    key_concurrency: int | None
    rate: str | None
    burst: int | None
    max_depth: int | None
    at_limit: str
    paused_at: datetime | None
    held: int
    open_seconds: float | None
    pending: int | None
    ready: int | None
    running: int | None
    oldest_seconds: float | None
    declared: bool


class Queues(Shape):
    """What is agreed for all tenants, and for this one."""

    items: Sequence[Queue]


class QueueTerms(Asked):
    """What to agree on; null takes a term away, what is not named stays."""

    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None
    max_depth: int | None = None
    at_limit: str | None = None
    weight: int | None = None


class Holder(Shape):
    """A task of this tenant that holds a slot, and until when at the latest if its worker is gone."""

    id: UUID
    task_id: str
    name: str
    limit_key: str | None
    lease_owner: UUID
    started_at: datetime
    leased_until: datetime


class Holders(Shape):
    """Who holds slots, those whose lease ends first."""

    items: Sequence[Holder]


@router.get("", response_model=Queues)
async def list_all(visit: Reading) -> dict[str, Any]:
    """List the queues that were declared or have something live."""
    return {"items": mine(visit, await visit.doors.queues.list())}


@router.get("/{name}", response_model=Queues)
async def get(visit: Reading, name: str) -> dict[str, Any]:
    """Read what is agreed for a queue, for all tenants and for this one."""
    return {"items": mine(visit, await visit.doors.queues.rows(name))}


def mine(visit: Visit, rows: Sequence[queues.Queue]) -> list[queues.Queue]:
    """Leave out what is agreed for other tenants."""
    return [each for each in rows if each.tenant in {EVERYBODY, visit.tenant}]


def terms(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what a request wants to agree on, if it names nothing else."""
    unknown = sorted(set(asked) - set(FIELDS))
    if unknown:
        field = unknown[0][:60]
        raise errors.QueueInvalid(f"{field}: expected one of {', '.join(FIELDS)}; this term is unknown.", field=field)
    return asked


@router.get("/{name}/holders", response_model=Holders)
async def holders(visit: Reading, name: str) -> dict[str, Any]:
    """Read which tasks of this tenant hold slots of a queue."""
    return {"items": await visit.doors.queues.holders(name)}


@router.patch("/{name}", response_model=Queues, openapi_extra=takes(QueueTerms))
async def set_terms(visit: Ruling, name: str, asked: Body) -> dict[str, Any]:
    """Change what is agreed for this tenant alone, within what holds for all."""
    await visit.doors.queues.set(name, tenant=visit.tenant, **terms(asked))
    return await get(visit, name)


@router.post("/{name}/pause", response_model=Queues)
async def pause(visit: Ruling, name: str) -> dict[str, Any]:
    """Let nothing of this tenant start in a queue from now on; what runs goes on."""
    await visit.doors.queues.pause(name, tenant=visit.tenant)
    return await get(visit, name)


@router.post("/{name}/resume", response_model=Queues)
async def resume(visit: Ruling, name: str) -> dict[str, Any]:
    """Let this tenant's tasks start again."""
    await visit.doors.queues.resume(name, tenant=visit.tenant)
    return await get(visit, name)
