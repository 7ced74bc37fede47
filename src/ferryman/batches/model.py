"""What batches are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ferryman.agents.model import NewAgent, Source
from ferryman.batches.states import BatchStatus, TaskStatus

# How much all that a batch leads to may use, by what is counted; None is no limit (A21).
Allowed = Mapping[str, Any]
Strategy = Literal["new", "reuse", "clone"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How much a batch may be, how long it may take, how often a dispatch is tried (settings `pmo`)."""

    max_tasks: int = 256
    deadline: timedelta = timedelta(seconds=900)
    dispatch_concurrency: int = 128
    scan_limit: int = 200
    retries: int = 5
    look_after: timedelta = timedelta(seconds=2)
    warn_after: timedelta = timedelta(seconds=60)
    interval: timedelta = timedelta(seconds=5)
    max_depth: int = 20
    card_limit: int = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One task as it was asked for."""

    strategy: Strategy
    ref: str
    instruction: str
    context_box: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A batch as it was asked for."""

    tasks: tuple[Asked, ...]
    fail_fast: bool = False
    deadline: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who forks: an agent's turn that waits for the join, or somebody outside, who sees every box of the tenant."""

    tenant: str
    agent_id: str | None = None
    turn: UUID | None = None
    epoch: int | None = None
    step: UUID | None = None
    tool_call_id: str | None = None
    channel: str | None = "default"
    depth: int = -1
    context_box: UUID | None = None
    output_box: UUID | None = None
    budget: UUID | None = None
    traceparent: str | None = None

    @property
    def source(self) -> Source:
        """Who asks, as agents know it."""
        return Source(agent_id=self.agent_id, turn=self.turn, step=self.step, depth=self.depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who does a task: an agent that is made for it, or one that exists; and of a clone the outputs that it may begin with."""

    agent_id: str
    profile: str
    agent: NewAgent | None = None
    outputs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatchTask:
    """One task to be born."""

    id: UUID
    turn: UUID
    index: int
    agent_id: str
    profile: str
    context_box: UUID
    output_box: UUID
    payload_hash: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """One batch to be born, with its tasks."""

    id: UUID
    caller: Caller
    fail_fast: bool
    deadline: timedelta
    tasks: tuple[NewBatchTask, ...]
    allows: Allowed | None = None
    structured_output: Literal["digest", "tool_result"] = "digest"


@dataclass(frozen=True, slots=True)
class Forked:
    """The batch is stored, or was before."""

    id: UUID
    created: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was stored; the field says what to correct, where one is at fault."""

    code: str
    reason: str
    field: str | None = None


class Held(NamedTuple):
    """A batch whose row is locked; in the order of the columns read."""

    id: UUID
    tenant: str
    status: str
    fail_fast: bool
    parent_agent_id: str | None


class Claimed(NamedTuple):
    """A task that is about to be dispatched; in the order of the columns read."""

    id: UUID
    batch_id: UUID
    tenant: str
    agent_id: str
    agent_turn_id: UUID
    attempt_count: int
    context_box_id: UUID
    output_box_id: UUID
    parent_agent_id: str | None
    parent_agent_turn_id: UUID | None
    parent_step_id: UUID | None
    parent_channel_id: str | None
    recursion_depth: int
    budget_id: UUID | None
    traceparent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    """How a task ends; `turn` is compared, if given, so that only its own child's end counts."""

    id: UUID
    status: TaskStatus
    turn: UUID | None = None
    expects: tuple[str, ...] = ("dispatched",)
    output_box: UUID | None = None
    error: str | None = None
    view: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a batch is to end, and why if not by its tasks."""

    id: UUID
    status: BatchStatus
    reason: str | None = None


class Closed(NamedTuple):
    """A batch that has ended, and whom that is owed to; in the order of the columns read."""

    id: UUID
    tenant: str
    status: str
    task_count: int
    recursion_depth: int
    parent_agent_id: str | None
    parent_agent_turn_id: UUID | None
    parent_tool_call_id: str | None


class Live(NamedTuple):
    """A task that was not over when its batch ended; in the order of the columns read."""

    id: UUID
    batch_id: UUID
    tenant: str
    agent_id: str
    turn: UUID | None
    epoch: int | None


class BatchRecord(NamedTuple):
    """A batch as callers see it; in the order of the columns read."""

    id: UUID
    tenant: str
    status: str
    task_count: int
    fail_fast: bool
    deadline_at: datetime
    created_at: datetime
    finished_at: datetime | None
    reason: str | None
    parent_agent_id: str | None
    parent_agent_turn_id: UUID | None
    parent_tool_call_id: str | None
    recursion_depth: int
    metadata: str

    @property
    def terminal(self) -> bool:
        """Tell whether the batch has ended."""
        return self.status != BatchStatus.RUNNING


class Beside(NamedTuple):
    """What a batch was asked for beside its tasks; in the order of the columns read."""

    id: UUID
    channel: str | None
    tokens: int | None
    tool_calls: int | None
    cost: float | None

    @property
    def allows(self) -> Allowed | None:
        """What it may use, or None without a bound."""
        bounds: Allowed = {"tokens": self.tokens, "tool_calls": self.tool_calls, "cost": self.cost}
        return bounds if any(each is not None for each in bounds.values()) else None


class TaskRecord(NamedTuple):
    """A task of a batch as callers see it; in the order of the columns read."""

    id: UUID
    batch_id: UUID
    task_index: int
    status: str
    agent_id: str
    profile: str
    attempt_count: int
    retryable: bool
    next_retry_at: datetime
    current_agent_turn_id: UUID | None
    current_turn_epoch: int | None
    context_box_id: UUID
    output_box_id: UUID | None
    error_detail: str | None
    created_at: datetime
    dispatched_at: datetime | None
    finished_at: datetime | None
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is kept of a child's deliverable."""

    summary: str | None = None
    fields: tuple[Mapping[str, Any], ...] = ()
    code: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
