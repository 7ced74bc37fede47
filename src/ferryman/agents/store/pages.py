"""What people read: agents, turns and cards by the page, and the calls of a turn with their times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ferryman.agents.model import AgentRecord, CardRecord, TurnRecord
from ferryman.kernel.db import Row, Tx, load, many

_AGENTS = load("ferryman.agents", "agents/list")
_TURNS = load("ferryman.agents", "agent_inbox/turns")
_CARDS = load("ferryman.agents", "boxes/page")
_TIMELINE = load("ferryman.agents", "turn_waiting_tools/timeline")


async def agents(
    tx: Tx, *, tenant: str, profile: str | None, status: str | None, after: str, limit: int
) -> list[AgentRecord]:
    """Read a page of agents, by name."""
    rows = await many(tx, _AGENTS, tenant=tenant, profile=profile, status=status, after=after, limit=limit)
    return [AgentRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


async def turns(
    tx: Tx, agent_id: str, *, tenant: str, before: datetime | None, last: UUID | None, limit: int
) -> list[TurnRecord]:
    """Read a page of an agent's turns, newest first."""
    rows = await many(tx, _TURNS, agent_id=agent_id, tenant=tenant, before=before, last=last, limit=limit)
    return [TurnRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


async def cards(tx: Tx, box: UUID, *, tenant: str, after: int, limit: int | None) -> list[CardRecord] | None:
    """Read a page of the cards of a box, in order; None if there is no such box."""
    rows = await many(tx, _CARDS, box=box, tenant=tenant, after=after, limit=limit)
    if not rows:
        return None
    return [CardRecord(*row) for row in rows if row["id"] is not None]  # type: ignore[misc]  # a row is a sequence


async def calls(tx: Tx, turn: UUID, *, tenant: str) -> Sequence[Row]:
    """Read the calls of a turn with their times."""
    return await many(tx, _TIMELINE, turn=turn, tenant=tenant)
