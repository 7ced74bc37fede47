"""Rows put directly into a state, for tests that begin in the middle of a life."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ferryman.kernel import ids
from ferryman.kernel.db import Statement, many, one
from ferryman.kernel.machine import Machine
from ferryman.kernel.pool import Session
from ferryman.tasks.states import FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState

_NOW = Statement("now", "select ferryman.clock() as now")
# The insert guard asks for an initial state. Replication writes past it, and so does a superuser who says the same.
_GUARD = Statement("guard", "select set_config('session_replication_role', :role, true)")
_PLANT = Statement(
    "plant",
    "insert into ferryman.tasks select * from jsonb_populate_record(null::ferryman.tasks, :row::jsonb) returning id",
)
_STATE = Statement("state", "select state from ferryman.tasks where id = :id")


async def plant(tx: Session, machine: Machine[TaskState], state: TaskState, **columns: Any) -> UUID:
    """Put one sound row of this state into the machine's table, and return its id; nothing is logged.

    Columns given are taken as they are, a timedelta as a time that far from now. Needs a superuser, which the embedded
    server's is.
    """
    if machine is not TASK:
        raise NotImplementedError(f"plant() does not know the columns of {machine.table}.")
    now = await one(tx, _NOW)
    assert now is not None
    row = _sound(state) | columns
    text = json.dumps({name: _told(value, now["now"]) for name, value in row.items()})
    async with tx.transaction():
        await many(tx, _GUARD, role="replica")
        await many(tx, _PLANT, row=text)
        await many(tx, _GUARD, role="origin")
    id: UUID = row["id"]
    return id


async def state_of(tx: Session, id: UUID) -> TaskState:
    """Return the state of a planted or any other task."""
    row = await one(tx, _STATE, id=id)
    if row is None:
        raise LookupError(f"There is no task {id}.")
    return TaskState(row["state"])


def _sound(state: TaskState) -> dict[str, Any]:
    """Return what a row of this state has when nothing is wrong with it."""
    now = timedelta(0)
    row: dict[str, Any] = {
        "id": ids.new_id(), "tenant": "default", "queue": "default", "name": "mail", "payload": {}, "state": state.value,
        "due_at": now, "ends_at": timedelta(days=30), "created_at": now, "updated_at": now, "timeout_ms": 300_000,
        "max_retries": 3, "attempt": 1, "epoch": 0, "lease_count": 0, "priority": 0,
    }  # fmt: skip
    if state is PENDING:
        row |= {"wake_at": timedelta(hours=1), "due_at": timedelta(hours=1)}
    if state is READY:
        row |= {"rank": now}
    if state in {RUNNING, SUCCEEDED, FAILED}:
        row |= {"epoch": 1, "lease_count": 1, "started_at": now}
    if state is RUNNING:
        row |= {"lease_owner": ids.boot_id(), "leased_until": timedelta(seconds=30)}
    if state in TASK.terminal:
        row |= {"finished_at": now}
    return row


def _told(value: Any, now: datetime) -> Any:
    if isinstance(value, timedelta):
        value = now + value
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value
