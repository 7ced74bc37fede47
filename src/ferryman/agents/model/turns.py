"""A turn in a worker's hands, and what can become of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ferryman.agents.model.records import CallRecord
from ferryman.agents.states import TurnStatus
from ferryman.tasks.model import Draft


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
    results: Sequence[CallRecord] = ()  # of the calls for which it was suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that a turn waits for: its card, its clock, and the task that does it (none: somebody outside answers).

    `start` is what else the suspension sets going (ports.Starts); with a `budget` one call of it is spent.
    """

    tool_call_id: str
    tool_name: str
    content: Mapping[str, Any]
    card_id: UUID
    timeout: timedelta
    nth: int = 1
    step_id: UUID | None = None
    after_execution: Literal["suspend", "terminate"] = "suspend"
    task: Draft | None = None
    start: Any = None
    budget: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """The outcome of a claim that waits for calls."""

    id: UUID
    epoch: int
    tenant: str
    agent_id: str
    owner: UUID
    calls: tuple[Call, ...]
    callback: str | None = None
    callback_ref: str | None = None


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


class NewBudget(NamedTuple):
    """A budget to be made; None is no limit."""

    tenant: str
    id: UUID
    tokens: int | None
    tool_calls: int | None
    cost: float | None


class Amount(NamedTuple):
    """So much of a budget: tokens, tool calls, money."""

    tokens: int = 0
    tool_calls: int = 0
    cost: float = 0.0
