"""Questions about plans, runs and what was put aside."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_HERE = "ferryman.ingest"
_STATUS = load(_HERE, "ingest_plan/status")
_BLACKBOX = load(_HERE, "ingest_run/blackbox")
_QUARANTINE = load(_HERE, "ingest_quarantine/list")


async def status(
    tx: Tx, *, tenant: str, id: UUID | None, source: str | None, before: UUID | None, limit: int
) -> Sequence[Row]:
    """Read how far plans are."""
    return await many(tx, _STATUS, tenant=tenant, id=id, source=source, before=before, limit=limit)


async def blackbox(tx: Tx, id: UUID, *, tenant: str, limit: int) -> Sequence[Row]:
    """Read what happened to a run, or to the runs of a task or a plan."""
    return await many(tx, _BLACKBOX, id=id, tenant=tenant, limit=limit)


async def quarantine(tx: Tx, *, tenant: str, source: str, before: tuple[UUID, int] | None, limit: int) -> Sequence[Row]:
    """Read what could not be taken."""
    batch, no = before or (None, None)
    return await many(tx, _QUARANTINE, tenant=tenant, source=source, batch=batch, no=no, limit=limit)
