"""Async tasks are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.commands.model import AsyncTaskRecord
from ferryman.commands.states import AsyncTaskStatus
from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.kernel.events import Event

_HERE = "ferryman.commands"
_GET = load(_HERE, "async_tasks/get")
_OF = load(_HERE, "async_tasks/of")
_STORY = load(_HERE, "async_tasks/story")
_STATISTICS = load(_HERE, "async_tasks/statistics")
_LATE = load(_HERE, "async_tasks/late")
_LOST = load(_HERE, "async_tasks/lost")


async def get(tx: Tx, id: UUID, *, tenant: str) -> AsyncTaskRecord | None:
    """Read one async task."""
    row = await one(tx, _GET, id=id, tenant=tenant)
    return None if row is None else _record(row)


async def of(tx: Tx, command: UUID, *, tenant: str) -> list[AsyncTaskRecord]:
    """Read the async tasks of a command, in the order of their birth."""
    return [_record(row) for row in await many(tx, _OF, command=command, tenant=tenant)]


async def story(tx: Tx, command: UUID, *, tenant: str, limit: int) -> list[Event]:
    """Read what was logged of a command and its async tasks, in order."""
    rows = await many(tx, _STORY, command=command, tenant=tenant, limit=limit)
    return [Event(*list(row)) for row in rows]  # type: ignore[call-overload]  # a row is a sequence in the order of the columns


async def statistics(tx: Tx, *, tenant: str) -> Sequence[Row]:
    """Read how many async tasks there are of each type and status, and how long they took."""
    return await many(tx, _STATISTICS, tenant=tenant)


async def late(tx: Tx, limit: int) -> Sequence[Row]:
    """Find async tasks past their deadlines."""
    return await many(tx, _LATE, limit=limit)


async def lost(tx: Tx, limit: int, *, patience: timedelta) -> Sequence[Row]:
    """Find async tasks whose capability's task has ended or is gone."""
    return await many(tx, _LOST, limit=limit, patience=patience)


def _record(row: Row) -> AsyncTaskRecord:
    record = AsyncTaskRecord(*list(row))  # type: ignore[call-overload]  # a row is a sequence in the order of the columns
    return record._replace(status=AsyncTaskStatus(record.status))
