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
