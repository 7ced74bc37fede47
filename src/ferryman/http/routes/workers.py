"""Who works, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from ferryman.http.answers import Shape
from ferryman.http.callers import Reading

router = APIRouter(prefix="/workers", tags=["workers"])


class Worker(Shape):
    """A worker, as it last said of itself. Where it runs is shown to operators alone."""

    boot_id: UUID
    tenant: str | None
    version: str
    queues: Sequence[str]
    handlers: Sequence[str]
    remote: bool
    started_at: datetime
    seen_until: datetime
    alive: bool
    host: str | None = None
    pid: int | None = None
    settings: Mapping[str, Any] | None = None


class Workers(Shape):
    """The workers that serve this tenant."""

    items: Sequence[Worker]


@router.get("", response_model=Workers)
async def read(
    visit: Reading,
    all: Annotated[bool, Query(description="Those too that went without a word in the last day.")] = False,
) -> dict[str, Any]:
    """List the workers that live and serve this tenant, those of our own and those that speak HTTP."""
    found = await visit.app.workers()
    shown = []
    for each in found:
        if each.tenant not in {None, visit.tenant} or not (each.alive or all):
            continue
        worker = {**each._asdict(), "remote": bool(each.settings.get("remote"))}
        if not visit.caller.operator:
            worker |= {"host": None, "pid": None, "settings": None}
        shown.append(worker)
    return {"items": shown}
