"""What comes in: agents to be made, messages, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import UUID


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
    Without an output box one is made. `turn` is the key under which a repeat is known. What the budget that is made for it
    allows, and which fields its result must have, are stored by whoever orders; here they are only compared. `unsaid` names
    what nobody asked for: it stands in a profile, which may have changed, and is not compared.
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
    allows: Mapping[str, Any] | None = None
    result_fields: Sequence[str] | None = None
    unsaid: frozenset[str] = frozenset()
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
    """It was not stored, and the same again will not be; a conflict names the fields in which it differs from what is there."""

    code: str
    reason: str
    fields: tuple[str, ...] = ()
    status: ClassVar[str] = "rejected"


@dataclass(frozen=True, slots=True)
class Failed:
    """It was not stored; the same again may be."""

    code: str
    reason: str
    status: ClassVar[str] = "error"


Answer = Accepted | Busy | Rejected | Failed


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
