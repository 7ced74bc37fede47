"""Sources and plans laid out for people: where cursors stand, which slices cover what, how fast it went (I11, I16)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.rules import keys
from ferryman.ingest.store import cursors, plans, reads
from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx

SOURCES_MAX = 1000
CURSORS_MAX = 1000
PARTS_MAX = 500
TIME = "TIME"


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source that was planned for: its circuit breaker, what is in its line and in hand, its newest plan."""

    source: str
    failures: int
    opened: int
    shut_until: datetime | None
    queued: int
    running: int
    plan_id: UUID | None
    planned_at: datetime | None


@dataclass(frozen=True, slots=True)
class CursorRow:
    """A cursor: where it stands, and how far behind the present that is if it counts by time."""

    id: UUID
    source: str
    endpoint: str
    operation: str
    scope: str
    scope_key: str
    kind: str
    position: int
    rewinds: int
    updated_at: datetime
    lag: timedelta | None

    @property
    def at(self) -> datetime | int:
        """The instant, or the id, before which everything has been fetched."""
        return keys.moment(self.position) if self.kind == TIME else self.position


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A slice of a plan, and what became of its task; no bounds: it has no place in an order."""

    id: UUID
    slice_no: int
    status: str
    lower: int | None
    upper: int | None
    covered: int | None
    spec: Mapping[str, Any]
    depth: int
    reason: str | None
    resliced: int
    task_status: str | None
    attempt: int | None
    max_attempts: int | None
    error_code: str | None
    error_reason: str | None
    decision: str | None
    scheduled_at: datetime | None
    leased_until: datetime | None
    finished_at: datetime | None
    requests: int
    items: int
    errors: int
    quarantined: int

    @property
    def state(self) -> str:
        """What people call it: the state of its task, or its own while it has none."""
        return self.task_status or self.status


@dataclass(frozen=True, slots=True)
class Extent:
    """What a plan is to cover, as numbers, and where the cursor that follows it stands."""

    lower: int | None
    upper: int | None
    kind: str
    position: int | None
    slices: int
    now: datetime


@dataclass(frozen=True, slots=True)
class PaceRow:
    """A part of a plan's time: what was asked for and came, and the rate that the gate allowed then."""

    at: datetime
    seconds: float
    requests: int
    throttled: int
    items: int
    rate: float | None


async def sources(tx: Tx, *, tenant: str) -> list[SourceRow]:
    """Read the sources of a tenant, by name."""
    return [_of(SourceRow, row) for row in await reads.sources(tx, tenant=tenant, limit=SOURCES_MAX)]


async def cursors_of(tx: Tx, *, tenant: str, source: str | None = None) -> list[CursorRow]:
    """Read where cursors stand, of one source or all."""
    now = await plans.clock(tx)
    rows = await cursors.list_all(tx, tenant=tenant, source=source, limit=CURSORS_MAX)
    return [
        CursorRow(
            **{name: row[name] for name in CursorRow.__slots__ if name != "lag"},
            lag=max(timedelta(0), now - keys.moment(row["position"])) if row["kind"] == TIME else None,
        )
        for row in rows
    ]


async def extent(tx: Tx, plan_id: UUID, *, tenant: str) -> Extent:
    """Read what a plan is to cover."""
    row = await reads.extent(tx, plan_id, tenant=tenant)
    if row is None:
        raise errors.IngestNotFound(f"There is no plan {plan_id} for this tenant.", plan=str(plan_id))
    found: Extent = _of(Extent, row)
    return found


async def slices(tx: Tx, plan_id: UUID, *, tenant: str, after: int, limit: int) -> list[SliceRow]:
    """Read the slices of a plan in their order, after one of them."""
    rows = await reads.slices(tx, plan_id, tenant=tenant, after=after, limit=limit)
    return [
        SliceRow(
            **{name: row[name] for name in SliceRow.__slots__ if name != "spec"},
            spec=json.loads(row["spec"]),
        )
        for row in rows
    ]


async def pace(tx: Tx, plan_id: UUID, *, tenant: str, parts: int) -> list[PaceRow]:
    """Read how fast a plan's source was asked, in so many equal parts of its time at most; the empty ones are left out."""
    if not 1 <= parts <= PARTS_MAX:
        raise errors.IngestInvalidRequest(f"parts: expected 1 to {PARTS_MAX}, got {parts}.", field="parts")
    return [_of(PaceRow, row) for row in await reads.pace(tx, plan_id, tenant=tenant, parts=parts)]


def _of(kind: Any, row: Row) -> Any:
    return kind(**{name: row[name] for name in kind.__slots__})
