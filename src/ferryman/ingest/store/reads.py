"""Questions about plans, runs and what was put aside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.ingest"
_STATUS = load(_HERE, "ingest_plan/status")
_BLACKBOX = load(_HERE, "ingest_run/blackbox")
_QUARANTINE = load(_HERE, "ingest_quarantine/list")
_SOURCES = load(_HERE, "ingest_source/list")
_EXTENT = load(_HERE, "ingest_plan/extent")
_SLICES = load(_HERE, "ingest_slice/of")
_PACE = load(_HERE, "ingest_batch/pace")


async def status(
    tx: Tx, *, tenant: str, ids: Collection[UUID] | None, source: str | None, before: UUID | None, limit: int
) -> Sequence[Row]:
    """Read how far plans are."""
    given = None if ids is None else list(ids)
    return await many(tx, _STATUS, tenant=tenant, ids=given, source=source, before=before, limit=limit)


async def blackbox(tx: Tx, id: UUID, *, tenant: str, limit: int) -> Sequence[Row]:
    """Read what happened to a run, or to the runs of a task or a plan."""
    return await many(tx, _BLACKBOX, id=id, tenant=tenant, limit=limit)


async def quarantine(tx: Tx, *, tenant: str, source: str, before: tuple[UUID, int] | None, limit: int) -> Sequence[Row]:
    """Read what could not be taken."""
    batch, no = before or (None, None)
    return await many(tx, _QUARANTINE, tenant=tenant, source=source, batch=batch, no=no, limit=limit)


async def sources(tx: Tx, *, tenant: str, limit: int) -> Sequence[Row]:
    """Read the sources of a tenant, and how they stand."""
    return await many(tx, _SOURCES, tenant=tenant, limit=limit)


async def extent(tx: Tx, plan_id: UUID, *, tenant: str) -> Row | None:
    """Read what a plan is to cover."""
    return await one(tx, _EXTENT, plan_id=plan_id, tenant=tenant)


async def slices(tx: Tx, plan_id: UUID, *, tenant: str, after: int, limit: int) -> Sequence[Row]:
    """Read the slices of a plan, with what became of their tasks."""
    return await many(tx, _SLICES, plan_id=plan_id, tenant=tenant, after=after, limit=limit)


async def pace(tx: Tx, plan_id: UUID, *, tenant: str, parts: int) -> Sequence[Row]:
    """Read how fast a plan's source was asked."""
    return await many(tx, _PACE, plan_id=plan_id, tenant=tenant, parts=parts)
