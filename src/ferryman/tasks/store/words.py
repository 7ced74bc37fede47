"""What handlers say while they run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

Line = tuple[UUID, int, int, str, str]  # task, epoch, attempt, level, message
Report = tuple[UUID, int, int, str | None]  # task, epoch, percent, message

_REPORT = load("ferryman.tasks", "task_progress/report")
_PROGRESS = load("ferryman.tasks", "task_progress/read")
_APPEND_LOG = load("ferryman.tasks", "task_logs/append")
_READ_LOG = load("ferryman.tasks", "task_logs/read")
_HELD = load("ferryman.tasks", "tasks/held")


async def report(tx: Tx, words: Sequence[Report]) -> set[UUID]:
    """Write the latest progress of tasks, one word per claim; what is not in the answer was stale."""
    ids, epochs, percents, messages = (list(column) for column in zip(*words, strict=True))
    rows = await many(tx, _REPORT, ids=ids, epochs=epochs, percents=percents, messages=messages)
    return {row["id"] for row in rows}


async def progress(tx: Tx, ids: Collection[UUID], *, tenant: str) -> Sequence[Row]:
    """Read how far tasks of a tenant are."""
    return await many(tx, _PROGRESS, ids=list(ids), tenant=tenant)


async def append_log(tx: Tx, lines: Sequence[Line]) -> int:
    """Keep what handlers said; answer with how many lines were not stale."""
    ids, epochs, attempts, levels, messages = (list(column) for column in zip(*lines, strict=True))
    rows = await many(tx, _APPEND_LOG, ids=ids, epochs=epochs, attempts=attempts, levels=levels, messages=messages)
    return len(rows)


async def held(tx: Tx, ids: Collection[UUID]) -> set[UUID]:
    """Find the tasks that somebody else holds."""
    return {row["id"] for row in await many(tx, _HELD, ids=list(ids))}


async def read_log(tx: Tx, task: UUID, *, tenant: str, after: int, limit: int) -> Sequence[Row]:
    """Read the log of one task."""
    return await many(tx, _READ_LOG, task=task, tenant=tenant, after=after, limit=limit)
