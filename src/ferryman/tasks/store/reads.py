"""Questions about tasks, and about all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import Claimed, TaskRecord
from ferryman.tasks.states import TASK, TaskState

_GET = load("ferryman.tasks", "tasks/get")
_NAMED = load("ferryman.tasks", "tasks/named")
_LIST = load("ferryman.tasks", "tasks/list")
_LIST_LIVE = load("ferryman.tasks", "tasks/list_live")
_LIST_LOST = load("ferryman.tasks", "tasks/list_lost")
_FINISHED = load("ferryman.tasks", "tasks/finished")
_CANCELLED = load("ferryman.tasks", "tasks/cancelled")
_REASONS = load("ferryman.tasks", "tasks/reasons")
_DEPTH = load("ferryman.tasks", "tasks/depth")
_QUEUES = load("ferryman.tasks", "tasks/queues")
_ORPHANS = load("ferryman.tasks", "tasks/orphans")
_EXPLAIN = load("ferryman.tasks", "tasks/explain")
_CLAIM = load("ferryman.tasks", "tasks/claim")

LIVE = frozenset(state.value for state in TaskState if state not in TASK.terminal)
LOST = frozenset({TaskState.FAILED.value, TaskState.CANCELLED.value})
LOOKED_MAX = 10_000


def record(row: Row) -> TaskRecord:
    """Read a whole task from its row."""
    values = {name: row[name] for name in TaskRecord._fields}
    values["state"] = TaskState(values["state"])
    return TaskRecord(**values)


async def get(tx: Tx, *, tenant: str, id: UUID | None, task_id: str | None) -> TaskRecord | None:
    """Read one task of a tenant."""
    row = await one(tx, _GET, tenant=tenant, id=id, task_id=task_id)
    return None if row is None else record(row)


async def claim(
    tx: Tx, id: UUID, *, tenant: str, owner: UUID, epoch: int
) -> tuple[Claimed, TaskState, bool, bool] | None:
    """Read a task of a tenant as its holder knows it: its state, whether this is its latest claim, and whether it is held."""
    row = await one(tx, _CLAIM, id=id, tenant=tenant, owner=owner, epoch=epoch)
    if row is None:
        return None
    return Claimed(*(row[name] for name in Claimed._fields)), TaskState(row["state"]), row["latest"], row["held"]


async def named(tx: Tx, task_ids: Collection[str], *, tenant: str) -> dict[str, UUID]:
    """Read which tasks of a tenant these names stand for."""
    return {row["task_id"]: row["id"] for row in await many(tx, _NAMED, task_ids=list(task_ids), tenant=tenant)}


async def explain(tx: Tx, *, tenant: str, id: UUID | None, task_id: str | None) -> str | None:
    """Ask what an object of a tenant is doing, why it is not running and what ends it; the answer is JSON."""
    row = await one(tx, _EXPLAIN, tenant=tenant, id=id, task_id=task_id)
    return None if row is None else str(row["told"])


async def list_page(
    tx: Tx, *, tenant: str, state: str | None, queue: str | None, name: str | None, before: UUID | None, limit: int
) -> list[TaskRecord]:
    """Read a page of a tenant's tasks, newest first."""
    asked = {"tenant": tenant, "state": state, "queue": queue, "name": name, "before": before, "limit": limit}
    if state in LIVE:
        rows = await many(tx, _LIST_LIVE, most=LOOKED_MAX, **asked)
        if rows[0]["looked"] < LOOKED_MAX:
            return [record(row) for row in rows if row["id"] is not None]
    listed = _LIST_LOST if state in LOST else _LIST
    return [record(row) for row in await many(tx, listed, **asked)]


async def finished(tx: Tx, ids: Collection[UUID], *, tenant: str) -> Sequence[Row]:
    """Read the ends of those tasks of a tenant that have ended."""
    return await many(tx, _FINISHED, ids=list(ids), tenant=tenant)


async def cancelled(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, timedelta]:
    """Read which tasks of a tenant were cancelled, and how long ago."""
    return {row["id"]: row["age"] for row in await many(tx, _CANCELLED, ids=list(ids), tenant=tenant)}


async def reasons(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, str | None]:
    """Read why tasks of a tenant were cancelled."""
    return {row["id"]: row["reason"] for row in await many(tx, _REASONS, ids=list(ids), tenant=tenant)}


async def depth(tx: Tx, *, most: int = 1_000_000) -> Sequence[Row]:
    """Count live tasks by queue and state, up to a bound."""
    return await many(tx, _DEPTH, most=most)


async def queues(tx: Tx) -> Sequence[Row]:
    """Count all live tasks of all tenants by queue and state."""
    return await many(tx, _QUEUES)


async def orphans(tx: Tx) -> Sequence[Row]:
    """Find waiting tasks, of all tenants, that no living worker would take."""
    return await many(tx, _ORPHANS)
