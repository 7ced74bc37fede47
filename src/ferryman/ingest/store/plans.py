"""Triggers, plans and slices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Cut
from ferryman.kernel.db import Row, Statement, Tx, load, many, one

_HERE = "ferryman.ingest"
_CLOCK = Statement("clock", "select ferryman.clock() as now")
_QUEUE = load(_HERE, "ingest_plan/queue")
_TRIGGER = load(_HERE, "ingest_schedule_instance/create")
_ENSURE = load(_HERE, "ingest_source/ensure")
_FIND = load(_HERE, "ingest_plan/find")
_MADE = load(_HERE, "ingest_plan/made")
_FIRED = load(_HERE, "ingest_plan/fired")
_CREATE = load(_HERE, "ingest_plan/create")
_SLICE = load(_HERE, "ingest_plan/slice")
_FINISH = load(_HERE, "ingest_plan/finish")
_CUT = load(_HERE, "ingest_slice/create")
_FAIL = load(_HERE, "ingest_slice/fail")
_DERIVE = load(_HERE, "ingest_slice/derive")
_EXPIRED = load(_HERE, "ingest_slice/expired")
_WAITING = load(_HERE, "ingest_slice/waiting")
_REPLACE = load(_HERE, "ingest_slice/replace")


async def clock(tx: Tx) -> datetime:
    """Ask what time it is."""
    row = await one(tx, _CLOCK)
    assert row is not None
    now: datetime = row["now"]
    return now


async def queue(tx: Tx, *, tenant: str, source: str, endpoint: str, operation: str) -> None:
    """Stand in line behind whoever plans the same kind of work, up to the end of its transaction."""
    await many(tx, _QUEUE, tenant=tenant, source=source, endpoint=endpoint, operation=operation)


async def trigger(
    tx: Tx,
    *,
    id: UUID,
    tenant: str,
    job: str,
    fire_time: datetime,
    trigger_type: str,
    source: str,
    endpoint: str,
    operation: str,
    params: str,
) -> UUID:
    """Take a firing; answer with the instance, new or not."""
    row = await one(
        tx, _TRIGGER,
        id=id, tenant=tenant, job=job, fire_time=fire_time, trigger_type=trigger_type, source=source, endpoint=endpoint,
        operation=operation, params=params,
    )  # fmt: skip
    if row is None:  # another one's insert, committed since this statement began
        return await trigger(
            tx, id=id, tenant=tenant, job=job, fire_time=fire_time, trigger_type=trigger_type, source=source,
            endpoint=endpoint, operation=operation, params=params,
        )  # fmt: skip
    found: UUID = row["id"]
    return found


async def ensure(tx: Tx, *, tenant: str, source: str) -> None:
    """Know a source."""
    await many(tx, _ENSURE, tenant=tenant, source=source)


async def find(tx: Tx, *, tenant: str, plan_key: str) -> Row | None:
    """Read what a key has made."""
    return await one(tx, _FIND, tenant=tenant, plan_key=plan_key)


async def made(tx: Tx, id: UUID) -> str | None:
    """Return the key of a plan by its id, if it is there."""
    row = await one(tx, _MADE, id=id)
    return None if row is None else str(row["plan_key"])


async def fired(
    tx: Tx, *, tenant: str, job: str, fire_time: datetime, source: str, endpoint: str, operation: str
) -> str | None:
    """Return the key of the plan that a firing has made, if any."""
    row = await one(
        tx, _FIRED, tenant=tenant, job=job, fire_time=fire_time, source=source, endpoint=endpoint, operation=operation
    )
    return None if row is None else str(row["plan_key"])


async def create(tx: Tx, plan: Mapping[str, Any]) -> bool:
    """Give birth to a plan; False if its key has made one."""
    return await one(tx, _CREATE, **plan) is not None


async def begin(tx: Tx, id: UUID) -> None:
    """Let a plan be sliced."""
    await many(tx, _SLICE, id=id)


async def finish(tx: Tx, id: UUID) -> Row:
    """End the slicing of a plan."""
    row = await one(tx, _FINISH, id=id)
    assert row is not None
    return row


async def cut(
    tx: Tx,
    plan_id: UUID,
    cuts: Sequence[tuple[UUID, Cut, str, Mapping[str, Any]]],
    *,
    depth: int,
    priority: int,
    ends_after: timedelta,
) -> set[UUID]:
    """Give birth to slices, each with its signature and parameters; answer with those that are new."""
    told = [
        {
            "id": str(id), "no": number, "lower": cut.lower, "upper": cut.upper, "estimate": cut.estimate,
            "window_from": cut.first if cut.dimension == "time" else None,
            "window_to": cut.last if cut.dimension == "time" else None,
            "signature": signature, "spec": cut.spec(), "params": dict(params),
        }
        for number, (id, cut, signature, params) in enumerate(cuts, 1)
    ]  # fmt: skip
    slices = json.dumps(told)
    rows = await many(tx, _CUT, plan_id=plan_id, slices=slices, depth=depth, priority=priority, ends_after=ends_after)
    return {row["id"] for row in rows}


async def fail(tx: Tx, reasons: Mapping[UUID, str]) -> int:
    """End slices that cannot be derived."""
    return len(await many(tx, _FAIL, ids=list(reasons), reasons=list(reasons.values())))


async def derive(tx: Tx, *, tenant: str, source: str, most: int) -> Sequence[UUID]:
    """Make tasks of pending slices, as far as there is room in the source's line."""
    return [row["id"] for row in await many(tx, _DERIVE, tenant=tenant, source=source, most=most)]


async def expired(tx: Tx, limit: int) -> Sequence[Row]:
    """Find slices that were not derived in their time."""
    return await many(tx, _EXPIRED, limit=limit)


async def waiting(tx: Tx, limit: int, *, most: int) -> Sequence[Row]:
    """Find sources with slices to derive and room."""
    return await many(tx, _WAITING, limit=limit, most=most)


async def replace(tx: Tx, id: UUID, successors: Sequence[UUID]) -> None:
    """Name the slices that stand in a slice's place."""
    await many(tx, _REPLACE, id=id, successors=list(successors))
