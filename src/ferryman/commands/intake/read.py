"""Questions about commands, and their whole stories (C10)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.commands.model import AsyncTaskRecord, CommandRecord, plain
from ferryman.commands.rules import request
from ferryman.commands.states import CommandStatus
from ferryman.commands.store import inbox, reads
from ferryman.kernel import errors, payload
from ferryman.kernel.db import Tx
from ferryman.kernel.events import Event

EVENTS_MAX = 10_000
PAGE_MAX = 1000


class Story(NamedTuple):
    """All that came of a command: what was logged, in order, and its async tasks with their results."""

    command: CommandRecord
    events: Sequence[Event]
    tasks: Sequence[AsyncTaskRecord]

    def facts(self) -> list[str]:
        """Name the facts, results among them, in order."""
        return [each.subject_name or "" for each in self.events if each.kind == "fact"]

    def as_json(self) -> dict[str, Any]:
        """Return the story for programs."""
        return {
            "command": {**self.command.as_json(), "payload": payload.decode(self.command.payload)},
            "tasks": [task_json(each) for each in self.tasks],
            "events": [
                {
                    "id": each.id, "at": plain(each.at), "kind": each.kind, "subject": str(each.subject),
                    "name": each.subject_name, "from": each.from_state, "to": each.to_state,
                    "code": each.reason_code, "reason": each.reason_message,
                    "data": None if each.data is None else payload.decode(each.data),
                }
                for each in self.events
            ],
        }  # fmt: skip


def task_json(task: AsyncTaskRecord) -> dict[str, Any]:
    """Return an async task for programs, with its data read."""
    data = {name: getattr(task, name) for name in ("input_data", "result_data", "error_data")}
    return {**task.as_json(), **{name: text and payload.decode(text) for name, text in data.items()}}


async def get(tx: Tx, id: object, *, tenant: str) -> CommandRecord:
    """Read one command, or say that there is none."""
    known = request.check_id(id, "command_id")
    found = await inbox.get(tx, known, tenant=tenant)
    if found is None:
        raise _not_found(known, tenant)
    return found


def _not_found(id: UUID, tenant: str) -> errors.CommandNotFound:
    return errors.CommandNotFound(f"There is no command {id} for tenant {tenant}.", command_id=str(id))


async def ended(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, CommandRecord | Exception]:
    """Read those of these commands that have ended; of one that is not there, say so."""
    found = await inbox.ended(tx, ids, tenant=tenant)
    return {id: each or _not_found(id, tenant) for id, each in found.items()}


async def task(tx: Tx, id: object, *, tenant: str) -> AsyncTaskRecord:
    """Read one async task, or say that there is none."""
    known = request.check_id(id, "async_task_id")
    found = await reads.get(tx, known, tenant=tenant)
    if found is None:
        raise errors.AsyncTaskNotFound(f"There is no async task {known} for tenant {tenant}.", async_task_id=str(known))
    return found


async def story(tx: Tx, correlation_id: object, *, tenant: str) -> Story:
    """Read all that came of a command."""
    known = request.check_id(correlation_id, "correlation_id")
    command = await get(tx, known, tenant=tenant)
    events = await reads.story(tx, known, tenant=tenant, limit=EVENTS_MAX)
    return Story(command, events, await reads.of(tx, known, tenant=tenant))


async def list_page(
    tx: Tx,
    *,
    tenant: str,
    status: object = None,
    command_type: str | None = None,
    session_id: str | None = None,
    before: UUID | None = None,
    limit: Any = 50,
) -> list[CommandRecord]:
    """Read a page of commands, newest first."""
    if status is not None and status not in list(CommandStatus):
        known = ", ".join(CommandStatus)
        raise request.refusal(f"expected one of {known}, got {request.shown(status)}", "status")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PAGE_MAX:
        raise request.refusal(f"expected 1 to {PAGE_MAX}, got {request.shown(limit)}", "limit")
    said = None if status is None else str(status)
    return await inbox.list_page(
        tx, tenant=tenant, status=said, type=command_type, session=session_id, before=before, limit=limit
    )


async def statistics(tx: Tx, *, tenant: str) -> list[dict[str, Any]]:
    """Read how many async tasks there are of each type and status, and how long they took (C9)."""
    fields = (
        "task_type", "status", "count", "mean_seconds", "p50_seconds", "p95_seconds", "max_seconds",
        "latest_created_at", "latest_completed_at",
    )  # fmt: skip
    return [{field: row[field] for field in fields} for row in await reads.statistics(tx, tenant=tenant)]
