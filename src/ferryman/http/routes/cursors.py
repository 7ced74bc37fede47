"""Cursors and gates over HTTP: where ingestion stands, and how fast it may go (I9, I11)."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from ferryman.app.sources import ENDPOINT
from ferryman.http.answers import Asked, Shape
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Operating, Reading, Ruling
from ferryman.http.fields import Name
from ferryman.ingest.intake.gates import GateRow
from ferryman.ingest.model import Replayed

router = APIRouter(prefix="/ingest", tags=["ingest"])

EVENTS_SHOWN = 100


class Gate(Shape):
    """How fast a source may be asked now, and why. The credential is told apart by a digest of it."""

    source: str
    endpoint: str
    credential: str
    rate: float
    top: float
    floor: float
    burst: int
    next_at: datetime
    closed_until: datetime | None
    quota_left: int | None
    quota_until: datetime | None
    good: int
    slow: int
    halvings: int
    halved_at: datetime | None
    last_status: int | None
    says: str


class Moved(Shape):
    """One event of a cursor."""

    seq: int
    at: datetime
    kind: str
    prev: int | None
    next: int
    run_id: UUID | None
    batch_id: UUID | None
    reason: str | None


class Cursor(Shape):
    """A cursor, where its events lead, and whether it stands there; the latest of the events."""

    id: UUID
    name: str
    kind: str
    position: int
    replayed: int | None
    agrees: bool
    count: int
    events: list[Moved]


class Rewind(Asked):
    """A cursor to be taken back to an instant, or to an id, and why."""

    source: str
    endpoint: str = ENDPOINT
    to: datetime | int
    reason: str
    operation: str = "HARVEST"


@router.get("/gates", response_model=list[Gate], summary="List gates")
async def gates(visit: Operating) -> list[dict[str, Any]]:
    """Tell how fast each source may be asked now, and why; for all tenants together, as a source sees them."""
    return [_gate(each) for each in await visit.doors.ingest.gates()]


def _gate(gate: GateRow) -> dict[str, Any]:
    digest = hashlib.sha256(gate.credential.encode()).hexdigest()[:12] if gate.credential else ""
    return asdict(gate) | {"credential": digest}


@router.get("/cursors", response_model=list[Cursor], summary="Replay cursors")
async def cursors(
    visit: Reading, source: Annotated[Name | None, Query(description="Of this source only.")] = None
) -> list[dict[str, Any]]:
    """Replay the events of cursors: where they lead, and whether the cursors stand there (I11)."""
    return [_cursor(each) for each in await visit.doors.ingest.replay(source)]


def _cursor(cursor: Replayed) -> dict[str, Any]:
    shown = {name: getattr(cursor, name) for name in ("id", "name", "kind", "position", "replayed", "agrees")}
    return shown | {"count": len(cursor.events), "events": cursor.events[-EVENTS_SHOWN:]}


@router.post("/cursors/rewind", response_model=Cursor, openapi_extra=takes(Rewind), summary="Take a cursor back")
async def rewind(visit: Ruling, asked: Annotated[Rewind, asks(Rewind)]) -> dict[str, Any]:
    """Take a cursor back, with the reason in its events; the next plan begins there."""
    return _cursor(await visit.doors.ingest.rewind(**asked.model_dump()))
