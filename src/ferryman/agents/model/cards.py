"""Facts, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


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


class Box(NamedTuple):
    """A box to be made, with the cards that it begins with."""

    tenant: str
    id: UUID
    cards: Sequence[UUID]


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
