"""Rows of commands put directly into a state, for tests that begin in the middle of a life."""

import json
from typing import Any
from uuid import UUID

from ferryman.kernel import ids
from ferryman.kernel.pool import Session


async def plant_command(tx: Session, status: str, *, guarded: bool = False, **columns: Any) -> UUID:
    """Put one sound command of this status into its table; past the guard of births, unless it is to be tried."""
    ended = status in ("COMPLETED", "FAILED")
    row = {
        "id": ids.new_id(), "tenant": "default", "scope": "Theme", "command_type": "Theme.Request", "status": str(status),
        "task": ids.new_id(), "payload": {}, "tasks": 0, "failed": 0, "retry_count": 0,
        "open": 0 if ended else 1, "deadline_at": "2099-01-01T00:00:00Z", "created_at": "2030-01-01T00:00:00Z",
        "updated_at": "2030-01-01T00:00:00Z", "finished_at": "2030-01-01T00:00:01Z" if ended else None,
        "error_message": "no" if status == "FAILED" else None,
    }  # fmt: skip
    return await _plant(tx, "command_inbox", row | columns, guarded=guarded)


async def plant_async(tx: Session, status: str, *, guarded: bool = False, **columns: Any) -> UUID:
    """Put one sound async task of this status into its table."""
    ended = status in ("COMPLETED", "FAILED", "CANCELLED")
    row = {
        "id": ids.new_id(), "tenant": "default", "task_type": "Theme.Generation", "message_type": "Theme.Generation",
        "status": str(status), "progress": 0, "retry_count": 0, "max_retries": 3, "input_data": {},
        "deadline_at": "2099-01-01T00:00:00Z", "created_at": "2030-01-01T00:00:00Z", "updated_at": "2030-01-01T00:00:00Z",
        "started_at": None if status == "PENDING" else "2030-01-01T00:00:00Z",
        "completed_at": "2030-01-01T00:00:01Z" if ended else None,
        "result_data": {} if status == "COMPLETED" else None, "error_data": {} if status == "FAILED" else None,
    }  # fmt: skip
    return await _plant(tx, "async_tasks", row | columns, guarded=guarded)


async def _plant(tx: Session, table: str, row: dict[str, Any], *, guarded: bool) -> UUID:
    role = "origin" if guarded else "replica"
    async with tx.transaction():
        await tx.fetch("select set_config('session_replication_role', $1, true)", role)
        await tx.fetch(
            f"insert into ferryman.{table} select * from jsonb_populate_record(null::ferryman.{table}, $1::jsonb)",
            json.dumps(row, default=str),
        )
        await tx.fetch("select set_config('session_replication_role', 'origin', true)")
    id: UUID = row["id"]
    return id
