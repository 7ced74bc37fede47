"""Tasks come in under flow control: they meet others by their keys, and a queue may be full."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import NewTask, TaskRecord
from ferryman.tasks.store.reads import record

_STANDING = load("ferryman.tasks", "tasks/standing")
_POSTPONE = load("ferryman.tasks", "tasks/postpone")
_RETRY = load("ferryman.tasks", "tasks/retry")
_DEEP = load("ferryman.tasks", "queues/deep")
_LINE = load("ferryman.tasks", "queues/line")
_OLDEST = load("ferryman.tasks", "queues/oldest")
_NEWEST = load("ferryman.tasks", "queues/newest")


async def standing(tx: Tx, tasks: Sequence[NewTask]) -> list[tuple[int, str, TaskRecord]]:
    """Read what these tasks would meet by singleton or debounce: their place, by what, and the task that is there."""
    rows = await many(
        tx,
        _STANDING,
        tenants=[task.tenant for task in tasks],
        singletons=[task.singleton for task in tasks],
        debounces=[task.debounce for task in tasks],
    )
    return [(row["nth"] - 1, row["hit"], record(row)) for row in rows]


async def postpone(tx: Tx, calls: Sequence[tuple[UUID, str, timedelta]]) -> dict[UUID, Row]:
    """Let pending tasks wait anew with the newest payload; what is not in the answer waits no more."""
    task_ids, payloads, quiets = (list(column) for column in zip(*calls, strict=True))
    rows = await many(tx, _POSTPONE, ids=task_ids, payloads=payloads, quiets=quiets)
    return {row["id"]: row for row in rows}


async def retry(
    tx: Tx, ids: Sequence[UUID], new_ids: Sequence[UUID], *, tenant: str, untried: bool, ends_after: timedelta
) -> Sequence[Row]:
    """Make new tasks of ended ones; with `untried` only of those that nobody has tried anew yet."""
    return await many(
        tx, _RETRY, ids=list(ids), new_ids=list(new_ids), tenant=tenant, untried=untried, ends_after=ends_after
    )


async def deep(tx: Tx, queues: Sequence[str]) -> Sequence[Row]:
    """Lock the queues that bound their depth, and read by how much."""
    return await many(tx, _DEEP, queues=list(queues))


async def line(tx: Tx, bounds: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """Count what waits in line or runs, by queue and tenant, up to a bound."""
    queues, tenants, most = (list(column) for column in zip(*bounds, strict=True))
    rows = await many(tx, _LINE, queues=queues, tenants=tenants, bounds=most)
    return {(row["queue"], row["tenant"]): row["count"] for row in rows}


async def oldest(tx: Tx, queue: str, *, tenant: str, limit: int) -> list[UUID]:
    """Find the tasks that are to make room."""
    return [row["id"] for row in await many(tx, _OLDEST, queue=queue, tenant=tenant, limit=limit)]


async def newest(tx: Tx, queue: str, *, tenant: str) -> UUID | None:
    """Find the youngest task that waits."""
    row = await one(tx, _NEWEST, queue=queue, tenant=tenant)
    return None if row is None else row["id"]
