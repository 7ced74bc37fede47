"""Questions: what agents do, how turns ended, what they wrote."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ferryman.agents.model import AgentRecord, CallRecord, CardRecord, StepRecord, TurnRecord
from ferryman.agents.store import cards as boxes
from ferryman.agents.store import heads, inbox, waits
from ferryman.agents.store import steps as memory
from ferryman.kernel.db import Tx


async def agents(tx: Tx, agent_ids: Collection[str], *, tenant: str) -> list[AgentRecord]:
    """Read agents and what they are doing."""
    return await heads.get(tx, agent_ids, tenant=tenant)


async def turns(tx: Tx, ids: Collection[UUID], *, tenant: str) -> list[TurnRecord]:
    """Read turns."""
    return await inbox.get(tx, ids, tenant=tenant)


async def cards(tx: Tx, box: UUID, *, tenant: str) -> list[CardRecord]:
    """Read the cards of a box, in order."""
    return (await boxes.read(tx, [(tenant, box)]))[box]


async def steps(tx: Tx, turn: UUID, *, tenant: str) -> list[StepRecord]:
    """Read what a turn did, in order."""
    return await memory.load_steps(tx, [(tenant, turn)])


async def calls(tx: Tx, turn: UUID, *, tenant: str) -> list[CallRecord]:
    """Read the calls that a turn made, with their results."""
    return await waits.load_calls(tx, [(tenant, turn)])
