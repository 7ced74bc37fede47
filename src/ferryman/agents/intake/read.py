"""Questions: what agents do, how turns ended, what they wrote."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from ferryman.agents.model import (
    AgentRecord,
    BudgetRecord,
    CallRecord,
    CardRecord,
    EdgeRecord,
    MessageRecord,
    StepRecord,
    TurnRecord,
    WaitRecord,
)
from ferryman.agents.store import cards as boxes
from ferryman.agents.store import heads, inbox, pages, waits
from ferryman.agents.store import steps as memory
from ferryman.kernel.db import Tx

EDGES_MAX = 1000


async def agents(tx: Tx, agent_ids: Collection[str], *, tenant: str) -> list[AgentRecord]:
    """Read agents and what they are doing."""
    return await heads.get(tx, agent_ids, tenant=tenant)


async def turns(tx: Tx, ids: Collection[UUID], *, tenant: str) -> list[TurnRecord]:
    """Read turns."""
    return await inbox.get(tx, ids, tenant=tenant)


async def listed(
    tx: Tx, *, tenant: str, profile: str | None, status: str | None, after: str, limit: int
) -> list[AgentRecord]:
    """Read a page of agents, by name."""
    return await pages.agents(tx, tenant=tenant, profile=profile, status=status, after=after, limit=limit)


async def turns_of(
    tx: Tx, agent_id: str, *, tenant: str, before: datetime | None, last: UUID | None = None, limit: int
) -> list[TurnRecord]:
    """Read a page of an agent's turns, newest first: those before a time, and of that time those before the last one."""
    return await pages.turns(tx, agent_id, tenant=tenant, before=before, last=last, limit=limit)


async def cards(tx: Tx, box: UUID, *, tenant: str) -> list[CardRecord]:
    """Read the cards of a box, in order."""
    return (await boxes.read(tx, [(tenant, box)]))[box]


async def page_of(tx: Tx, box: UUID, *, tenant: str, after: int, limit: int | None) -> list[CardRecord] | None:
    """Read a page of the cards of a box, in order; None if there is no such box."""
    return await pages.cards(tx, box, tenant=tenant, after=after, limit=limit)


async def steps(tx: Tx, turn: UUID, *, tenant: str) -> list[StepRecord]:
    """Read what a turn did, in order."""
    return await memory.load_steps(tx, [(tenant, turn)])


async def calls(tx: Tx, turn: UUID, *, tenant: str) -> list[CallRecord]:
    """Read the calls that a turn made, with their results."""
    return await waits.load_calls(tx, [(tenant, turn)])


async def messages(tx: Tx, agent_id: str, *, tenant: str, limit: int) -> list[MessageRecord]:
    """Read what is in an agent's inbox and not done with, oldest first."""
    return await pages.messages(tx, agent_id, tenant=tenant, limit=limit)


async def waits_of(tx: Tx, turn: UUID, *, tenant: str) -> list[WaitRecord]:
    """Read the calls of a turn with their times and deadlines, in order."""
    rows = await pages.calls(tx, turn, tenant=tenant)
    return [WaitRecord(*(row[name] for name in WaitRecord._fields)) for row in rows]


async def edges(tx: Tx, turn: UUID, *, tenant: str) -> list[EdgeRecord]:
    """Read who asked for a turn, and whom it asked, in order (A6)."""
    return await pages.edges(tx, turn, tenant=tenant, limit=EDGES_MAX)


async def budget(tx: Tx, turn: UUID, *, tenant: str) -> BudgetRecord | None:
    """Read what the budget of a turn allows and what is gone of it (A21)."""
    return await pages.budget(tx, turn, tenant=tenant)
