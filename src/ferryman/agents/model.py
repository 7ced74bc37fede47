"""What agents, turns, messages, calls and cards are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import UUID

from ferryman.agents.states import TurnStatus
from ferryman.tasks.model import Draft


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How long things may take here, and how often they are tried (settings `pmo` and `worker`)."""

    dispatched_retry: timedelta = timedelta(seconds=10)
    dispatched_timeout: timedelta = timedelta(seconds=30)
    active_reap: timedelta = timedelta(seconds=300)
    pending_wakeup: timedelta = timedelta(seconds=5)
    pending_wakeup_skip: timedelta = timedelta(seconds=300)
    inbox_processing_timeout: timedelta = timedelta(seconds=300)
    suspend_timeout: timedelta = timedelta(seconds=30)
    wall_time: timedelta = timedelta(hours=1)
    queued_for: timedelta = timedelta(days=1)
    interval: timedelta = timedelta(seconds=5)
    lease: timedelta = timedelta(seconds=30)
    ends_after: timedelta = timedelta(days=30)
    max_depth: int = 20
    card_limit: int = 1024 * 1024
    requeue_cap: int = 5

    @property
    def ledger_lease(self) -> timedelta:
        """How long a result may be in hand without a living holder (W3)."""
        return max(timedelta(seconds=5), 2 * self.interval)


class NewAgent(NamedTuple):
    """One agent to be born."""

    tenant: str
    agent_id: str
    profile: str
    worker_target: str = "default"
    when_busy: str = "enqueue"
    derived_from: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class AgentRecord(NamedTuple):
    """An agent as callers see it; in the order of the columns read."""

    tenant: str
    agent_id: str
    profile: str
    worker_target: str
    when_busy: str
    derived_from: str | None
    tags: list[str]
    metadata: str
    created_at: datetime
    status: str
    turn_epoch: int
    active_agent_turn_id: UUID | None
    output_box_id: UUID | None
    last_output_box_id: UUID | None
    since_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who asks: an agent's turn and step, or nobody (then the depth is 0)."""

    agent_id: str | None = None
    turn: UUID | None = None
    step: UUID | None = None
    depth: int = -1


NOBODY = Source()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A message that asks an agent for a turn.

    Either an instruction, from which the context box is made, after the inherited cards; or a context box that exists.
    Without an output box one is made. `turn` is the key under which a repeat is known.
    """

    tenant: str
    agent_id: str
    turn: UUID
    instruction: Any = None
    inherited: tuple[UUID, ...] = ()
    context_box: UUID | None = None
    output_box: UUID | None = None
    channel: str | None = "default"
    message_type: Literal["turn", "ui_action"] = "turn"
    source: Source = NOBODY
    author: str = "user"
    callback: str | None = None
    callback_ref: str | None = None
    budget: UUID | None = None
    traceparent: str | None = None
    wall_time: timedelta | None = None
    payload: Mapping[str, Any] | None = None
    always_enqueue: bool = False  # a batch's dispatch, whatever the agent does with others' messages (A20)

    @property
    def depth(self) -> int:
        """How deep the turn is: one more than who asks."""
        return self.source.depth + 1


@dataclass(frozen=True, slots=True)
class Accepted:
    """It is stored, or was before; with an epoch if the turn was dispatched. `effect` is false for what came too late."""

    id: UUID
    epoch: int | None = None
    created: bool = True
    effect: bool = True
    status: ClassVar[str] = "accepted"
    code: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Busy:
    """The agent is doing something else, and its policy is to say so."""

    code: str = "agent_busy"
    reason: str = "The agent is busy and takes no further messages."
    status: ClassVar[str] = "busy"


@dataclass(frozen=True, slots=True)
class Rejected:
    """It was not stored, and the same again will not be."""

    code: str
    reason: str
    status: ClassVar[str] = "rejected"


@dataclass(frozen=True, slots=True)
class Failed:
    """It was not stored; the same again may be."""

    code: str
    reason: str
    status: ClassVar[str] = "error"


Answer = Accepted | Busy | Rejected | Failed


class Taken(NamedTuple):
    """One turn in a worker's hands; the fields stand in the order of the columns of `claim.sql`."""

    id: UUID
    epoch: int
    tenant: str
    agent_id: str
    profile: str
    was: str  # dispatched: begins; suspended: goes on with its results; running: taken over, is replayed
    channel: str | None
    depth: int
    context_box_id: UUID
    output_box_id: UUID
    budget_id: UUID | None
    parent_step_id: UUID | None
    callback: str | None
    callback_ref: str | None
    traceparent: str | None
    started_at: datetime
    turn_deadline: datetime
    seconds_left: float
    payload: str
    source_agent_id: str | None
    source_turn_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that a turn waits for: its card, its clock, and the task that does it (none: somebody outside answers)."""

    tool_call_id: str
    tool_name: str
    content: Mapping[str, Any]
    card_id: UUID
    timeout: timedelta
    nth: int = 1
    step_id: UUID | None = None
    after_execution: Literal["suspend", "terminate"] = "suspend"
    task: Draft | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """The outcome of a claim that waits for calls."""

    id: UUID
    epoch: int
    tenant: str
    agent_id: str
    owner: UUID
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The outcome of a claim that was not carried through here: another worker takes it over at once."""

    id: UUID
    epoch: int
    tenant: str
    agent_id: str
    owner: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A turn's end, said by its holder (with owner), or by a stop or the watchdog (without one).

    `expects` are the statuses in which it is ended; `bump` is how much the epoch grows. `content` is the deliverable, or a
    fallback if `fallback`: then one that the turn has left already is kept. `forced` is recorded as a step of its own.
    """

    id: UUID
    epoch: int
    tenant: str
    agent_id: str
    card_id: UUID
    status: TurnStatus
    content: Any
    fallback: bool = False
    owner: UUID | None = None
    expects: tuple[str, ...] = ("running",)
    overdue: bool = False
    bump: int = 0
    code: str | None = None
    error: str | None = None
    result_card: UUID | None = None
    forced: UUID | None = None
    message_status: Literal["consumed", "error", "skipped"] = "consumed"
    callback: str | None = None
    callback_ref: str | None = None


Outcome = End | Suspension | Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """The end of a message that no head holds."""

    id: UUID
    tenant: str
    card_id: UUID
    status: TurnStatus
    code: str
    error: str
    content: Any
    expects: tuple[str, ...] = ("queued",)
    to_status: Literal["skipped", "error"] = "skipped"
    merged_into: UUID | None = None
    callback: str | None = None
    callback_ref: str | None = None


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """One turn that has reached its end, told to the owner of its callback in the same transaction."""

    id: UUID
    tenant: str
    agent_id: str
    status: TurnStatus
    code: str | None
    error: str | None
    output_box_id: UUID | None
    deliverable_card_id: UUID | None
    tool_result_card_id: UUID | None
    callback: str
    callback_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A result for a call that a turn waits for: what becomes its tool.result card, or a card that exists.

    `turn_epoch` None does not compare. `inline` is what must not be there: a result outside of a card.
    """

    tenant: str
    tool_call_id: str
    id: UUID
    card_id: UUID
    content: Mapping[str, Any] | None = None
    message_type: Literal["tool_result", "timeout"] = "tool_result"
    author: str = "tool"
    turn_epoch: int | None = None
    source: Source = NOBODY
    traceparent: str | None = None
    inline: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Somebody asks that a turn be ended; with an epoch only if the turn is still at it."""

    tenant: str
    agent_id: str
    turn: UUID
    id: UUID
    epoch: int | None = None
    reason: str = "stopped"
    source: Source = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Who asked whom, by which primitive."""

    tenant: str
    correlation: str
    primitive: Literal["enqueue", "report", "join", "cancel", "wakeup"]
    phase: Literal["request", "response"]
    id: UUID
    depth: int
    source: Source = NOBODY
    target_agent: str | None = None
    target_turn: UUID | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A fact to be written down."""

    tenant: str
    id: UUID
    type: str
    role: str
    author: str
    content: Any
    turn: UUID | None = None
    step: UUID | None = None
    tool_call_id: str | None = None
    metadata: Mapping[str, Any] | None = None


class CardRecord(NamedTuple):
    """A card as it is read; content and metadata are JSON text."""

    id: UUID
    type: str
    role: str
    author_id: str
    agent_turn_id: UUID | None
    step_id: UUID | None
    tool_call_id: str | None
    content: str
    metadata: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step of a turn came to, to be remembered (A17)."""

    turn: UUID
    epoch: int
    owner: UUID
    id: UUID
    kind: str
    name: str
    nth: int = 1
    status: Literal["completed", "failed", "suspended"] = "completed"
    seconds: float = 0.0
    result: Any = None
    error: str | None = None
    tool_call_ids: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    metadata: Mapping[str, Any] | None = None


class StepRecord(NamedTuple):
    """A step as it is read; result and metadata are JSON text."""

    agent_turn_id: UUID
    kind: str
    name: str
    nth: int
    id: UUID
    status: str
    error: str | None
    result: str | None
    tool_call_ids: list[str]
    input_tokens: int | None
    output_tokens: int | None
    cost: Any
    started_at: datetime
    ended_at: datetime | None
    metadata: str | None


class CallRecord(NamedTuple):
    """A call of a turn and what came back; the result is the JSON text of its card."""

    agent_turn_id: UUID
    tool_call_id: str
    tool_name: str
    nth: int
    wait_status: str
    turn_epoch: int
    after_execution: str
    tool_result_card_id: UUID | None
    result: str | None


class TurnRecord(NamedTuple):
    """A turn as callers see it; in the order of the columns read."""

    id: UUID
    tenant: str
    agent_id: str
    message_type: str
    message_status: str
    channel: str | None
    turn_epoch: int | None
    depth: int
    context_box_id: UUID | None
    output_box_id: UUID | None
    turn_status: str | None
    deliverable_card_id: UUID | None
    tool_result_card_id: UUID | None
    error_code: str | None
    error: str | None
    merged_into: UUID | None
    created_at: datetime
    ended_at: datetime | None
    head_status: str | None
    head_epoch: int | None
    waiting_tool_count: int | None
    started_at: datetime | None

    @property
    def terminal(self) -> bool:
        """Tell whether the turn has ended."""
        return self.turn_status is not None


class Amount(NamedTuple):
    """So much of a budget: tokens, tool calls, money."""

    tokens: int = 0
    tool_calls: int = 0
    cost: float = 0.0
