"""What a task is made of, seen by its creator, its worker and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.tasks.states import TASK, TaskState


class NewTask(NamedTuple):
    """One row to be born; the fields stand in the order of the parameters of `create.sql`."""

    id: UUID
    tenant: str
    queue: str
    name: str
    payload: str
    priority: int
    timeout_ms: int
    max_retries: int
    schedule_type: str | None
    scheduled_at: datetime | None
    ends_at: datetime | None
    task_id: str | None
    idempotency_key: str | None
    idempotency_scope: str | None
    callback: str | None
    callback_ref: str | None
    traceparent: str | None
    backoff: str | None


class TaskRecord(NamedTuple):
    """A task as callers see it: the fields of the source's example, and more; in the order of the columns read."""

    id: UUID
    task_id: str
    tenant: str
    name: str
    queue: str
    priority: int
    schedule_type: str | None
    scheduled_at: datetime | None
    state: TaskState
    attempt: int
    max_retries: int
    timeout_ms: int
    idempotency_key: str | None
    idempotency_scope: str | None
    last_error_code: str | None
    last_error_reason: str | None
    due_at: datetime
    ends_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_owner: UUID | None
    leased_until: datetime | None
    payload: str
    result: str | None
    progress: int | None = None
    progress_message: str | None = None
    limit_key: str | None = None
    retry_of: UUID | None = None

    @property
    def terminal(self) -> bool:
        """Tell whether the task has ended."""
        return self.state in TASK.terminal

    def as_json(self) -> dict[str, Any]:
        """Return the record with its times as text; payload and result stay JSON text and are left to the caller."""
        return {name: _plain(getattr(self, name)) for name in SHOWN}


SHOWN = tuple(name for name in TaskRecord._fields if name not in {"payload", "result", "lease_owner"})


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, TaskState):
        return value.value
    return str(value) if isinstance(value, UUID) else value


class Flow(NamedTuple):
    """How a task that is to be born meets others: under which keys, and how long it waits for another of its kind (T17)."""

    limit_key: str | None = None
    singleton: str | None = None
    debounce: str | None = None
    quiet: timedelta | None = None


class Draft(NamedTuple):
    """A checked request: the row to be born, and which of the compared fields the request named (T12).

    With a flow it comes in by a way of its own (intake/flow.py), which looks at what is there before.
    """

    task: NewTask
    given: frozenset[str]
    flow: Flow | None = None


class Created(NamedTuple):
    """The answer to every create: what exists now, and whether it was there before."""

    task: TaskRecord
    idempotent_hit: bool


class Claimed(NamedTuple):
    """One task in a worker's hands; the fields stand in the order of the columns of `turn.sql`."""

    id: UUID
    epoch: int
    tenant: str
    task_id: str | None
    queue: str
    name: str
    attempt: int
    max_retries: int
    timeout_ms: int
    callback: str | None
    callback_ref: str | None
    traceparent: str | None
    backoff: str | None
    payload: str


class Outcome(NamedTuple):
    """What became of one claim: the state it goes to, and why.

    `used` is 1 when the attempt counts; `delay` is the backoff in seconds before it may be claimed again.
    """

    id: UUID
    epoch: int
    owner: UUID
    state: TaskState
    result: str | None = None
    code: str | None = None
    reason: str | None = None
    used: int = 0
    delay: float = 0.0
    callback: str | None = None
    callback_ref: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """One task that has reached its end, told to the owner of its callback in the same transaction."""

    id: UUID
    tenant: str
    task_id: str | None
    name: str
    state: TaskState
    attempt: int
    code: str | None
    reason: str | None
    result: str | None
    callback: str
    callback_ref: str | None
