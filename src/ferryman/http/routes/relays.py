"""Readers of the log over HTTP: how far each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from fastapi import APIRouter

from ferryman.http.answers import Shape
from ferryman.http.callers import Operating
from ferryman.http.fields import Named
from ferryman.relays.model import Standing as Record

router = APIRouter(prefix="/relays", tags=["relays"])


class Standing(Shape):
    """How far a reader of the log is from its end, and who reads."""

    name: str
    last_id: int
    behind: int
    behind_seconds: float
    updated_at: datetime
    lease_owner: UUID | None
    leased_until: datetime | None


class Forgotten(Shape):
    """Whether there was such a reader."""

    forgotten: bool


@router.get("", response_model=list[Standing], summary="List readers of the log")
async def status(visit: Operating) -> Sequence[Record]:
    """Read how far each reader of the log is, for all tenants together."""
    return await visit.app.relays.status()


@router.delete("/{consumer}", response_model=Forgotten, summary="Forget a reader of the log")
async def forget(visit: Operating, consumer: Named) -> dict[str, bool]:
    """Remove a reader of the log that is gone for good: it no longer keeps old days from being dropped."""
    return {"forgotten": await visit.app.relays.forget(consumer)}
