"""What people read: agents, messages, turns and cards by the page; the calls of a turn, whom it asked, and its budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ferryman.agents.model import AgentRecord, BudgetRecord, CardRecord, EdgeRecord, MessageRecord, TurnRecord
from ferryman.kernel.db import Row, Tx, load, many, one

_AGENTS = load("ferryman.agents", "agents/list")
_TURNS = load("ferryman.agents", "agent_inbox/turns")
_CARDS = load("ferryman.agents", "boxes/page")
_TIMELINE = load("ferryman.agents", "turn_waiting_tools/timeline")
_OPEN = load("ferryman.agents", "agent_inbox/open")
_EDGES = load("ferryman.agents", "execution_edges/of")
_BUDGET = load("ferryman.agents", "budgets/of")


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


async def messages(tx: Tx, agent_id: str, *, tenant: str, limit: int) -> list[MessageRecord]:
    """Read what is in an agent's inbox and not done with, oldest first."""
    rows = await many(tx, _OPEN, agent_id=agent_id, tenant=tenant, limit=limit)
    return [MessageRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


async def edges(tx: Tx, turn: UUID, *, tenant: str, limit: int) -> list[EdgeRecord]:
    """Read who asked for a turn, and whom it asked."""
    return [EdgeRecord(*row) for row in await many(tx, _EDGES, turn=turn, tenant=tenant, limit=limit)]  # type: ignore[misc]


async def budget(tx: Tx, turn: UUID, *, tenant: str) -> BudgetRecord | None:
    """Read the budget of a turn; None if nobody gave it one."""
    row = await one(tx, _BUDGET, turn=turn, tenant=tenant)
    return None if row is None else BudgetRecord(*row)  # type: ignore[misc]
