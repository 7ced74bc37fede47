"""Budgets of whole trees of turns (A21)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.agents.model import Amount, NewBudget
from ferryman.kernel.db import Row, Tx, load, many, one

_CREATE = load("ferryman.agents", "budgets/create")
_LOCK = load("ferryman.agents", "budgets/lock")
_RESERVE = load("ferryman.agents", "budgets/reserve")
_SPEND = load("ferryman.agents", "budgets/spend")


async def create(
    tx: Tx, *, tenant: str, id: UUID, tokens: int | None, tool_calls: int | None, cost: float | None
) -> bool:
    """Make a budget; None is no limit. False if it was there."""
    return bool(await create_set(tx, [NewBudget(tenant, id, tokens, tool_calls, cost)]))


async def create_set(tx: Tx, budgets: Sequence[NewBudget]) -> set[UUID]:
    """Make budgets; answer with those that were not there."""
    names = ("tenants", "ids", "tokens", "tool_calls", "costs")
    columns = dict(zip(names, map(list, zip(*budgets, strict=True)), strict=True))
    return {row["id"] for row in await many(tx, _CREATE, **columns)}


async def lock(tx: Tx, *, tenant: str, id: UUID) -> Row | None:
    """Lock a budget, and read it; before a reservation, in the same transaction."""
    return await one(tx, _LOCK, tenant=tenant, id=id)


async def reserve(tx: Tx, amount: Amount, *, tenant: str, id: UUID, turn: UUID, name: str) -> bool:
    """Reserve so much for a call of a turn; false when there is not so much left."""
    row = await one(tx, _RESERVE, tenant=tenant, id=id, turn=turn, name=name, **amount._asdict())
    return row is not None


async def spend(tx: Tx, amount: Amount, *, tenant: str, id: UUID, turn: UUID, name: str) -> bool:
    """Replace a reservation by what was used; false when there is no such reservation any more."""
    row = await one(tx, _SPEND, tenant=tenant, id=id, turn=turn, name=name, **amount._asdict())
    return row is not None
