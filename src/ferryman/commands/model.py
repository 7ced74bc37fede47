"""What commands, messages and results are made of, seen by their senders, by users' functions and by the orchestrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.commands.states import ASYNC_TASK, COMMAND, AsyncTaskStatus, CommandStatus


@dataclass(frozen=True, slots=True)
class Command:
    """A command, as the function that maps it sees it."""

    id: UUID
    type: str
    session_id: str | None
    payload: Any
    tenant: str

    @property
    def correlation_id(self) -> UUID:
        """What everything that comes of it is known by: the command's own id."""
        return self.id


@dataclass(frozen=True, slots=True)
class Message:
    """What a mapping asks a capability for; each becomes one async task.

    `outside` says that the work is done by another program, whose result comes by `app.commands.complete`. `delay` puts the
    start off, `deadline` bounds the whole; the other options are those of a task.
    """

    type: str
    input: Mapping[str, Any] = field(default_factory=dict)
    outside: bool = False
    delay: timedelta | float | None = None
    deadline: timedelta | float | None = None
    timeout: timedelta | float | None = None
    max_retries: int | None = None
    queue: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact for the log, such as `Character.Confirmed`; commits with the step that states it."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an async task: what a capability may return, and what `on_result` is given."""

    type: str
    result: Any = None
    async_task_id: UUID | None = None
    correlation_id: UUID | None = None
    session_id: str | None = None
    task_type: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    tenant: str = ""


class NewCommand(NamedTuple):
    """One command to be received, in the order of the parameters of `receive.sql`."""

    id: UUID
    tenant: str
    scope: str
    command_type: str
    session_id: str | None
    idempotency_key: str | None
    payload: str
    deadline_seconds: float
    task: UUID
    traceparent: str | None


class CommandRecord(NamedTuple):
    """A command as callers see it, in the order of the columns read."""

    id: UUID
    tenant: str
    scope: str
    command_type: str
    session_id: str | None
    idempotency_key: str | None
    status: CommandStatus
    tasks: int
    open: int
    failed: int
    retry_count: int
    error_code: str | None
    error_message: str | None
    deadline_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    task: UUID
    payload: str

    @property
    def terminal(self) -> bool:
        """Tell whether the command has ended."""
        return self.status in COMMAND.terminal

    def as_json(self) -> dict[str, Any]:
        """Return the record with its times as text; the payload stays JSON text and is left to the caller."""
        return {name: plain(value) for name, value in self._asdict().items() if name != "payload"}


class AsyncTaskRecord(NamedTuple):
    """An async task as callers see it, in the order of the columns read; the source's columns, and more."""

    id: UUID
    tenant: str
    task_type: str
    message_type: str
    triggered_by_command_id: UUID | None
    status: AsyncTaskStatus
    progress: float
    retry_count: int
    max_retries: int
    execution_node: str | None
    task: UUID | None
    deadline_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    input_data: str | None
    result_data: str | None
    error_data: str | None

    @property
    def terminal(self) -> bool:
        """Tell whether it has ended."""
        return self.status in ASYNC_TASK.terminal

    def as_json(self) -> dict[str, Any]:
        """Return the record with its times as text; what is JSON text is left to the caller."""
        left = {"input_data", "result_data", "error_data"}
        return {name: plain(value) for name, value in self._asdict().items() if name not in left}


class Sent(NamedTuple):
    """The answer to every send: the command that exists now, and whether it was there before."""

    command: CommandRecord
    idempotent_hit: bool

    @property
    def id(self) -> UUID:
        """The command's id, which is also the correlation id of all that comes of it."""
        return self.command.id

    @property
    def location(self) -> str:
        """Where to look."""
        return f"/commands/{self.command.id}"

    def answer(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        return {
            "accepted": True, "command_id": str(self.id), "correlation_id": str(self.id), "location": self.location,
            "status": self.command.status.value, "idempotent_hit": self.idempotent_hit,
        }  # fmt: skip


class Completion(NamedTuple):
    """What became of a result from outside: the async task it met, if any, and whether it changed anything.

    `code` says why it did not: ASYNC_TASK_NOT_FOUND or ASYNC_TASK_ENDED.
    """

    async_task_id: UUID | None
    changed: bool
    code: str | None = None


class Asked(NamedTuple):
    """One message of a step, checked, with every option that its async task and its task need."""

    type: str
    task_type: str
    input: Mapping[str, Any]
    outside: bool
    delay_seconds: float
    deadline_seconds: float | None
    timeout_ms: int
    max_retries: int
    queue: str
    priority: int
    backoff: str | None


class Plan(NamedTuple):
    """What a step comes to: facts for the log and messages for capabilities, or why the command fails."""

    facts: Sequence[Fact] = ()
    messages: Sequence[Asked] = ()
    code: str | None = None
    reason: str | None = None
    session_id: str | None = None
    traceparent: str | None = None


class End(NamedTuple):
    """How one async task ends: by a result message, or by an error; both are JSON text."""

    id: UUID
    status: AsyncTaskStatus
    message: str | None = None
    error: str | None = None
    reason_code: str | None = None
    reason: str | None = None
    attempt: int | None = None
    node: str | None = None


def plain(value: object) -> object:
    """Return a value of a record as JSON can carry it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, CommandStatus | AsyncTaskStatus):
        return value.value
    return str(value) if isinstance(value, UUID) else value
