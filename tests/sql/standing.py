"""Schedules planted in any state, and what is read of them."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ferryman.kernel.pool import Session
from ferryman.tasks.states import ACTIVE, ENDED, ScheduleState
from ferryman.tasks.store import schedules
from ferryman.tasks.store.schedules import Advance, NewFiring

STATES = list(ScheduleState)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
PLANT = """
insert into ferryman.schedules
select * from jsonb_populate_record(null::ferryman.schedules, $1::jsonb)
"""


async def now_of(tx: Session) -> datetime:
    return await schedules.clock(tx)


async def plant(tx: Session, state: ScheduleState = ACTIVE, **columns: Any) -> UUID:
    """Put one sound schedule of this state into the table, past the guard of births; nothing is logged."""
    now = await now_of(tx)
    row: dict[str, Any] = {
        "id": uuid4(), "created_at": now, "updated_at": now, "interval_ms": 60_000, "timeout_ms": 1000, "max_retries": 1,
        "priority": 0, "declared": False, "state": state.value, "tenant": "default", "queue": "default", "name": "mail",
        "schedule_type": "every", "catch_up": "latest", "overlap": "allow", "payload": {"n": 1}, "fired": 0, "missed": 0,
        "skipped": 0, "schedule_id": None, "next_run_at": now - SECOND if state is ACTIVE else None,
        "ended_at": now if state is ENDED else None,
    } | columns  # fmt: skip
    await tx.execute("set local session_replication_role = replica")
    await tx.fetch(
        PLANT, json.dumps(row, default=lambda each: each.isoformat() if isinstance(each, datetime) else str(each))
    )
    await tx.execute("set local session_replication_role = origin")
    id: UUID = row["id"]
    return id


async def row_of(tx: Session, id: UUID) -> dict[str, Any]:
    [row] = await tx.fetch(
        "select to_jsonb(schedule)::text as row from ferryman.schedules as schedule where id = $1", id
    )
    found: dict[str, Any] = json.loads(row["row"])
    return found


async def moves_of(tx: Session, id: UUID) -> list[tuple[Any, ...]]:
    rows = await tx.fetch(
        "select from_state, to_state, reason_message, kind, tenant from ferryman.events where subject = $1 and to_state is"
        " not null order by id",
        id,
    )
    return [tuple(row) for row in rows]  # type: ignore[arg-type]  # a record is a sequence


async def due_of(tx: Session, id: UUID) -> Any:
    [row] = await tx.fetch("select next_run_at from ferryman.schedules where id = $1", id)
    return row["next_run_at"]


async def fire(
    tx: Session, id: UUID, *, next: datetime | None = None, by_hand: bool = False, **more: Any
) -> list[UUID]:
    """Fire one schedule for now; return the tasks that were born."""
    now = await now_of(tx)
    was = more.pop("was", await due_of(tx, id))
    rows = await schedules.fire(
        tx, [Advance(id, was, next, **more)], [NewFiring(uuid4(), id, now)], ends_after=DAY, by_hand=by_hand
    )
    return [task for row in rows for task in row["tasks"]]
