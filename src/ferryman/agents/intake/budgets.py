"""Budgets are made (A21), in the transaction that takes in the turn which is the root of their tree."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.agents.model import NewBudget
from ferryman.agents.store import budgets
from ferryman.kernel.db import Row, Tx


async def create(
    tx: Tx, id: UUID, *, tenant: str, tokens: int | None, tool_calls: int | None, cost: float | None
) -> bool:
    """Make a budget; None is no limit. False if it was there."""
    return await budgets.create(tx, tenant=tenant, id=id, tokens=tokens, tool_calls=tool_calls, cost=cost)


async def create_set(tx: Tx, made: Sequence[NewBudget]) -> None:
    """Make budgets; those that were there stay as they are."""
    await budgets.create_set(tx, made)


async def read(tx: Tx, id: UUID, *, tenant: str) -> Row | None:
    """Read what a budget allows and what was spent of it."""
    return await budgets.lock(tx, tenant=tenant, id=id)
