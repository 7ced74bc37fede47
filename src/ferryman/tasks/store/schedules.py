"""Schedules: their births, moves and firings, and questions about them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import Firing, NewSchedule, NewTask, ScheduleRecord
from ferryman.tasks.states import ScheduleState, TaskState

_CLOCK = load("ferryman.tasks", "schedules/clock")
_CREATE = load("ferryman.tasks", "schedules/create")
_DECLARE = load("ferryman.tasks", "schedules/declare")
_EXISTING = load("ferryman.tasks", "schedules/existing")
_GET = load("ferryman.tasks", "schedules/get")
_TAKE = load("ferryman.tasks", "schedules/take")
_LIST = load("ferryman.tasks", "schedules/list")
_FIRINGS = load("ferryman.tasks", "schedules/firings")
_DUE = load("ferryman.tasks", "schedules/due")
_LIVE = load("ferryman.tasks", "schedules/live")
_PREVIOUS = load("ferryman.tasks", "schedules/previous")
_FIRE = load("ferryman.tasks", "schedules/fire")
_PAUSE = load("ferryman.tasks", "schedules/pause")
_RESUME = load("ferryman.tasks", "schedules/resume")
_END = load("ferryman.tasks", "schedules/end")


class Advance(NamedTuple):
    """What one schedule does: from which time, to which (None: it ends), and what it does not fire, with reasons."""

    id: UUID
    was: datetime | None
    next: datetime | None
    missed: int = 0
    skipped: int = 0
    reasons: tuple[dict[str, Any], ...] = ()


class NewFiring(NamedTuple):
    """One task to be born of a schedule."""

    id: UUID
    schedule: UUID
    fire_time: datetime


class Taken(NamedTuple):
    """A schedule that is held, what time it is, and the row itself."""

    schedule: ScheduleRecord
    now: datetime
    row: Row


def fired(row: Row, firing: NewFiring) -> NewTask:
    """Return the task that a firing of a schedule is to make, for a look at what it would meet."""
    return NewTask(
        firing.id, row["tenant"], row["queue"], row["name"], row["payload"] or "null", row["priority"], row["timeout_ms"],
        row["max_retries"], row["schedule_type"], firing.fire_time, None, None, None, None, None, None, None, None,
        row["limit_key"], row["singleton"], row["debounce"], row["quiet"],
    )  # fmt: skip


def record(row: Row) -> ScheduleRecord:
    """Read a whole schedule from its row."""
    values = {name: row[name] for name in ScheduleRecord._fields}
    values["state"] = ScheduleState(values["state"])
    return ScheduleRecord(**values)


async def clock(tx: Tx) -> datetime:
    """Ask what time it is."""
    row = await one(tx, _CLOCK)
    assert row is not None
    now: datetime = row["now"]
    return now


async def create(tx: Tx, schedule: NewSchedule, *, next_run_at: datetime) -> bool:
    """Give birth to a schedule; False if it met an existing one."""
    return await one(tx, _CREATE, schedule=json.dumps(_word(schedule, next_run_at))) is not None


async def declare(tx: Tx, schedules: Sequence[tuple[NewSchedule, datetime]]) -> Sequence[Row]:
    """Bring schedules up to what stands in the code; answer with those that were born or changed."""
    return await many(tx, _DECLARE, schedules=json.dumps([_word(*each) for each in schedules]))


def _word(schedule: NewSchedule, next_run_at: datetime) -> dict[str, Any]:
    told = {**schedule._asdict(), "id": str(schedule.id), "next_run_at": next_run_at.isoformat()}
    quiet = None if schedule.quiet is None else f"{schedule.quiet.total_seconds()} s"
    return told | {"ends_at": None if schedule.ends_at is None else schedule.ends_at.isoformat(), "quiet": quiet}


async def existing(tx: Tx, schedule: NewSchedule) -> dict[str, ScheduleRecord]:
    """Read what a schedule met, by what it was met."""
    rows = await many(
        tx,
        _EXISTING,
        tenant=schedule.tenant,
        id=schedule.id,
        schedule_id=schedule.schedule_id,
        key=schedule.idempotency_key,
        scope=schedule.idempotency_scope,
    )
    return {row["hit"]: record(row) for row in rows}


async def get(
    tx: Tx, *, tenant: str, id: UUID | None, schedule_id: str | None
) -> tuple[ScheduleRecord, datetime] | None:
    """Read one schedule of a tenant, and what time it is."""
    row = await one(tx, _GET, tenant=tenant, id=id, schedule_id=schedule_id)
    return None if row is None else (record(row), row["now"])


async def take(tx: Tx, *, tenant: str, id: UUID) -> Taken | None:
    """Read one schedule of a tenant and hold it, and what time it is."""
    row = await one(tx, _TAKE, tenant=tenant, id=id)
    return None if row is None else Taken(record(row), row["now"], row)


async def list_page(
    tx: Tx, *, tenant: str, state: str | None, name: str | None, before: UUID | None, limit: int
) -> list[ScheduleRecord]:
    """Read a page of a tenant's schedules, newest first."""
    rows = await many(tx, _LIST, tenant=tenant, state=state, name=name, before=before, limit=limit)
    return [record(row) for row in rows]


async def firings(tx: Tx, id: UUID, *, tenant: str, limit: int) -> list[Firing]:
    """Read the latest tasks of a schedule, the newest firing first."""
    rows = await many(tx, _FIRINGS, id=id, tenant=tenant, limit=limit)
    return [Firing(**{name: row[name] for name in Firing._fields} | {"state": TaskState(row["state"])}) for row in rows]


async def due(tx: Tx, *, aside: Collection[UUID], limit: int) -> Sequence[Row]:
    """Find schedules that are due, but for those put aside, and hold them."""
    return await many(tx, _DUE, aside=list(aside), limit=limit)


async def live(tx: Tx, ids: Collection[UUID]) -> set[UUID]:
    """Find which of these schedules have a task that has not ended."""
    return {row["schedule"] for row in await many(tx, _LIVE, ids=list(ids))}


async def previous(tx: Tx, ids: Collection[UUID]) -> set[UUID]:
    """Hold the live tasks of these schedules; answer with the schedules of which somebody else holds one."""
    return {row["schedule"] for row in await many(tx, _PREVIOUS, ids=list(ids))}


async def fire(
    tx: Tx,
    advances: Sequence[Advance],
    firings: Sequence[NewFiring],
    *,
    ends_after: timedelta,
    by_hand: bool = False,
) -> Sequence[Row]:
    """Let tasks be born of schedules, and the schedules go on; who was fired or moved by another is not in the answer."""
    return await many(
        tx,
        _FIRE,
        ids=[each.id for each in advances],
        was=[each.was for each in advances],
        nexts=[each.next for each in advances],
        missed=[each.missed for each in advances],
        skipped=[each.skipped for each in advances],
        reasons=[json.dumps(each.reasons) if each.reasons else None for each in advances],
        tasks=[each.id for each in firings],
        schedules=[each.schedule for each in firings],
        times=[each.fire_time for each in firings],
        ends_after=ends_after,
        by_hand=by_hand,
    )


async def pause(tx: Tx, id: UUID, *, tenant: str, reason: str | None) -> bool:
    """Let a schedule rest; False if it did not fire."""
    return await one(tx, _PAUSE, id=id, tenant=tenant, reason=reason) is not None


async def resume(tx: Tx, id: UUID, *, tenant: str, next_run_at: datetime) -> bool:
    """Let a schedule fire again; False if it was not paused."""
    return await one(tx, _RESUME, id=id, tenant=tenant, next_run_at=next_run_at) is not None


async def end(tx: Tx, id: UUID, *, tenant: str, reason: str | None) -> bool:
    """End a schedule; False if it had ended."""
    return await one(tx, _END, id=id, tenant=tenant, reason=reason) is not None
