"""Agents and turns as callers see them; fields stand in the order of the columns read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


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


class MessageRecord(NamedTuple):
    """A message that an agent has not done with; in the order of the columns read."""

    id: UUID
    message_type: str
    status: str
    agent_turn_id: UUID | None
    tool_call_id: str | None
    source_agent_id: str | None
    source_turn_id: UUID | None
    merged_into: UUID | None
    requeue_count: int
    created_at: datetime
    ends_at: datetime


class WaitRecord(NamedTuple):
    """A call of a turn with its times; in the order of the columns read. `status` is what its result says of itself."""

    tool_call_id: str
    tool_name: str
    nth: int
    wait_status: str
    created_at: datetime
    deadline_at: datetime
    received_at: datetime | None
    applied_at: datetime | None
    step_id: UUID | None
    task_id: UUID | None
    status: str | None


class EdgeRecord(NamedTuple):
    """Who asked whom, by which primitive; in the order of the columns read. `status` is that of the other turn."""

    primitive: str
    edge_phase: str
    correlation_id: str
    created_at: datetime
    recursion_depth: int
    source_agent_id: str | None
    source_turn_id: UUID | None
    target_agent_id: str | None
    target_turn_id: UUID | None
    status: str | None


class BudgetRecord(NamedTuple):
    """What the budget of a tree of turns allows (None: all), what was spent, what is reserved; in the order of the columns."""

    id: UUID
    tokens_limit: int | None
    tokens_spent: int
    tool_calls_limit: int | None
    tool_calls_spent: int
    cost_limit: Any
    cost_spent: Any
    tokens_held: int
    tool_calls_held: int
    cost_held: Any


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
