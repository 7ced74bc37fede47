"""Questions: how far plans are, and what happened (I12, I16)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Progress
from ferryman.ingest.store import reads
from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx

RUNS_MAX = 1000


async def status(
    tx: Tx,
    *,
    tenant: str,
    id: UUID | None = None,
    source: str | None = None,
    before: UUID | None = None,
    limit: int = 20,
) -> list[Progress]:
    """Return how far plans are, newest first; one that is named must be there."""
    wanted = None if id is None else [id]
    rows = await reads.status(tx, tenant=tenant, ids=wanted, source=source, before=before, limit=limit)
    found = [_progress(row) for row in rows]
    if id is not None and not found:
        raise _not_found(id)
    return found


async def ended(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, Progress | Exception]:
    """Return how far those of these plans came of which nothing is live any more; of one that is not there, say so."""
    rows = await reads.status(tx, tenant=tenant, ids=ids, source=None, before=None, limit=len(ids))
    found = {each.id: each for each in map(_progress, rows)}
    met: dict[UUID, Progress | Exception] = {id: each for id, each in found.items() if each.over}
    return met | {id: _not_found(id) for id in ids if id not in found}


def _not_found(id: UUID) -> errors.IngestNotFound:
    return errors.IngestNotFound(f"There is no plan {id} for this tenant.", plan=str(id))


def _progress(row: Row) -> Progress:
    tasks: dict[str, int] = json.loads(row["tasks"])
    if row["waiting"]:
        tasks["PENDING"] = row["waiting"]
    share = min(1.0, max(0.0, row["share"]))
    made = Progress(
        id=row["id"], source=row["source"], endpoint=row["endpoint"], operation=row["operation"], strategy=row["strategy"],
        status=row["status"], since=row["window_from"], until=row["window_to"], share=share, slices=row["slices"],
        slices_done=row["slices_done"], tasks=tasks, undecided=row["undecided"], requests=row["requests"],
        items=row["items"], errors=row["errors"], quarantined=row["quarantined"], rate=row["rate"], ends_in=None,
        gate=None, shut_until=row["shut_until"], created_at=row["created_at"],
    )  # fmt: skip
    if made.over or not share or row["elapsed"] is None:
        return made
    return _with(made, ends_in=max(0.0, row["elapsed"] * (1 - share) / share))


def _with(progress: Progress, **more: Any) -> Progress:
    return Progress(**{name: getattr(progress, name) for name in Progress.__slots__} | more)


async def blackbox(tx: Tx, id: UUID, *, tenant: str) -> list[dict[str, Any]]:
    """Return what happened to a run, or to all runs of a task or a plan."""
    rows: Sequence[Row] = await reads.blackbox(tx, id, tenant=tenant, limit=RUNS_MAX)
    if not rows:
        raise errors.IngestNotFound(f"There is no run, task or plan {id} with a run for this tenant.", id=str(id))
    return [_box(row) for row in rows]


_PLAIN = (
    "attempt", "status", "epoch", "error_code", "error_reason", "task_status", "source", "endpoint", "operation", "expr_hash",
    "slice_signature_hash", "idempotent_key", "lease_count", "decision", "slice_no", "plan_key", "job", "trigger_type",
)  # fmt: skip
_IDS = ("run_id", "task_id", "slice_id", "plan_id", "schedule_instance_id", "lease_owner")
_TIMES = ("planned_at", "started_at", "finished_at", "fire_time")
_JSON = ("stats", "spec", "expression", "config", "batches", "cursor_events")


def _box(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {name: row[name] for name in _PLAIN}
    told |= {name: str(row[name]) for name in _IDS}
    told |= {name: None if row[name] is None else row[name].isoformat() for name in _TIMES}
    told |= {name: json.loads(row[name]) for name in _JSON}
    return told | {"resliced_by": [str(id) for id in row["resliced_by"] or ()]}


async def quarantine(
    tx: Tx, *, tenant: str, source: str, before: tuple[UUID, int] | None = None, limit: int
) -> list[dict[str, Any]]:
    """Return what could not be taken, newest first."""
    return [
        {
            "batch": str(row["batch_id"]),
            "no": row["item_no"],
            "at": row["created_at"].isoformat(),
            "endpoint": row["endpoint"],
            "reason": row["reason"],
            "item": json.loads(row["item"]),
        }
        for row in await reads.quarantine(tx, tenant=tenant, source=source, before=before, limit=limit)
    ]
