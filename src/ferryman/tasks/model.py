"""What a task is made of, seen by its creator, its worker and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.tasks.states import TASK, ScheduleState, TaskState


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
    limit_key: str | None = None
    singleton: str | None = None
    debounce: str | None = None
    quiet: timedelta | None = None

    @property
    def keyed(self) -> bool:
        """Whether it meets others by a key of its own, so that it must look before it is stored (T17)."""
        return self.limit_key is not None or self.singleton is not None or self.debounce is not None


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
    schedule: UUID | None = None
    fire_time: datetime | None = None
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
    if isinstance(value, TaskState | ScheduleState):
        return value.value
    return str(value) if isinstance(value, UUID) else value


class Flow(NamedTuple):
    """How a task that is to be born meets others: under which keys, and how long it waits for another of its kind (T17).

    The fields are the last ones of a new task.
    """

    limit_key: str | None = None
    singleton: str | None = None
    debounce: str | None = None
    quiet: timedelta | None = None


class SentTwice(Exception):
    """What was to be born is there: its ids were made by its creator, so this very create came before."""


class Draft(NamedTuple):
    """A checked request: the row to be born, and which of the compared fields the request named (T12)."""

    task: NewTask
    given: frozenset[str]


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


class Park(NamedTuple):
    """What a parked task waits for: a time, and before it an event of one of these names, or so many of these children."""

    wake_at: datetime | None = None
    names: tuple[str, ...] = ()
    children: tuple[UUID, ...] = ()
    open: int | None = None


class Outcome(NamedTuple):
    """What became of one claim: the state it goes to, and why.

    `used` is 1 when the attempt counts; `delay` is the backoff in seconds before it may be claimed again. `bore` says that
    there may be children, which do not outlive their parent.
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
    park: Park | None = None
    bore: bool = False


class Call(NamedTuple):
    """One durable call of a handler: which claim makes it, and how it is known again.

    `nth` counts the calls of this kind and name; `position` is its place among the calls made in sequence, None in a branch.
    """

    task: UUID
    epoch: int
    kind: str
    name: str
    nth: int
    position: int | None

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from the other calls of its task."""
        return self.kind, self.name, self.nth

    def __str__(self) -> str:
        """Name it as a person would."""
        return f"{self.kind} {self.name!r}" + (f" (call {self.nth} of that name)" if self.nth > 1 else "")


class Answer(NamedTuple):
    """What a durable call came to, as it is remembered: open, done or failed."""

    state: str
    result: str | None = None
    position: int | None = None
    until: datetime | None = None


class Kept(NamedTuple):
    """A step, or a child that was refused, to be remembered."""

    call: Call
    state: str
    result: str | None


class Asked(NamedTuple):
    """A sleep or a wait, for so many seconds or until a time; neither: for as long as the task may live."""

    call: Call
    seconds: float | None = None
    until: datetime | None = None


class Birth(NamedTuple):
    """A child to be born."""

    call: Call
    task: NewTask


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
    owner: UUID | None = None  # who ran it to this end; nobody, when it was cancelled


class NewSchedule(NamedTuple):
    """One schedule to be born; its rhythm is a cron expression in a time zone, or an interval."""

    id: UUID
    tenant: str
    queue: str
    name: str
    payload: str
    priority: int
    timeout_ms: int
    max_retries: int
    schedule_type: str
    cron_expr: str | None
    timezone: str | None
    interval_ms: int | None
    catch_up: str
    overlap: str
    ends_at: datetime | None
    schedule_id: str | None
    idempotency_key: str | None
    idempotency_scope: str | None
    backoff: str | None
    declared: bool = False
    limit_key: str | None = None
    singleton: str | None = None
    debounce: str | None = None
    quiet: timedelta | None = None


class ScheduleDraft(NamedTuple):
    """A checked request: the schedule to be born, and which of the compared fields the request named (T12)."""

    schedule: NewSchedule
    given: frozenset[str]


class ScheduleRecord(NamedTuple):
    """A schedule as callers see it, in the order of the columns read."""

    id: UUID
    schedule_id: str
    tenant: str
    name: str
    queue: str
    priority: int
    schedule_type: str
    cron_expr: str | None
    timezone: str | None
    interval_ms: int | None
    catch_up: str
    overlap: str
    state: ScheduleState
    next_run_at: datetime | None
    last_run_at: datetime | None
    ends_at: datetime | None
    fired: int
    missed: int
    skipped: int
    timeout_ms: int
    max_retries: int
    idempotency_key: str | None
    idempotency_scope: str | None
    declared: bool
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    payload: str

    @property
    def interval(self) -> timedelta:
        """How far its firings are apart, if that is its rhythm."""
        return timedelta(milliseconds=self.interval_ms or 0)

    def as_json(self) -> dict[str, Any]:
        """Return the record with its times as text; the payload stays JSON text and is left to the caller."""
        return {name: _plain(getattr(self, name)) for name in self._fields if name != "payload"}

    def as_task_json(self) -> dict[str, Any]:
        """Return the record with the fields that every create of the source answers with; what only a try has is null."""
        return {
            "task_id": self.schedule_id,
            **dict.fromkeys(("attempt", "last_error_code", "last_error_reason", "started_at", "finished_at")),
            **self.as_json(),
        }


class ScheduleCreated(NamedTuple):
    """The answer to every create of a schedule: what exists now, and whether it was there before."""

    schedule: ScheduleRecord
    idempotent_hit: bool


class Firing(NamedTuple):
    """One task of a schedule, in short; in the order of the columns read."""

    id: UUID
    task_id: str
    fire_time: datetime
    state: TaskState
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    last_error_code: str | None
    last_error_reason: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it with its times as text."""
        return {name: _plain(getattr(self, name)) for name in self._fields}
