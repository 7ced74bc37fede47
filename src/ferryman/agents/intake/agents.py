"""Agents are made, and looked up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ferryman.agents import rules
from ferryman.agents.model import NewAgent
from ferryman.agents.store import heads
from ferryman.kernel.db import Tx


async def create(tx: Tx, agents: Sequence[NewAgent]) -> list[bool]:
    """Let agents be born, idle; tell of each whether it is new. One that exists stays as it is."""
    for agent in agents:
        rules.check_agent(agent)
    born = await heads.create(tx, agents)
    return [(agent.tenant, agent.agent_id) in born for agent in agents]


async def hold(tx: Tx, agents: Collection[tuple[str, str]]) -> None:
    """Lock the heads of agents (tenant, id), in the one order, for whoever will ask or answer them in this transaction."""
    if agents:
        await heads.lock(tx, agents)


async def try_hold(tx: Tx, agents: Collection[tuple[str, str]]) -> bool:
    """Lock the heads of agents alike, unless somebody else holds one; tell whether all are had."""
    return not agents or not await heads.try_lock(tx, agents)
