"""Ended turns leave, with what belongs to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.agents"
_WALK = load(_HERE, "retention/walk")
_FORGET = load(_HERE, "retention/forget")
_BOXES = load(_HERE, "retention/forget_boxes")
_BUDGETS = load(_HERE, "retention/forget_budgets")
_UNUSED = load(_HERE, "retention/forget_unused")
_EDGES = load(_HERE, "retention/forget_edges")


async def walk(tx: Tx, limit: int, *, kept: timedelta, span: int, pace: timedelta, rest: timedelta) -> Sequence[Row]:
    """Find messages past their keeping, of turns and others, in the next `span` rows of the walk; at its end it rests."""
    return await many(tx, _WALK, limit=limit, kept=kept, span=span, pace=pace, rest=rest)


async def forget(tx: Tx, ids: Collection[UUID]) -> Sequence[Row]:
    """Delete messages that have ended, with what belongs to their turns; answer with those that were."""
    return await many(tx, _FORGET, ids=list(ids))


async def forget_boxes(tx: Tx, boxes: Collection[UUID], *, turns: Collection[UUID], kept: timedelta) -> int:
    """Delete boxes of forgotten turns, and the cards these wrote, as far as nothing needs them; answer with how many."""
    row = await one(tx, _BOXES, boxes=list(boxes), turns=list(turns), kept=kept)
    return row["gone"] if row is not None else 0


async def forget_budgets(tx: Tx, budgets: Collection[tuple[str, UUID]], *, kept: timedelta) -> int:
    """Delete budgets (tenant, id) that nothing will use; answer with how many were."""
    tenants, ids = [tenant for tenant, _ in budgets], [id for _, id in budgets]
    return len(await many(tx, _BUDGETS, tenants=tenants, ids=ids, kept=kept))


async def forget_unused(tx: Tx, agents: Collection[tuple[str, str]]) -> int:
    """Delete derived agents (tenant, id) that never had a turn; answer with how many were."""
    tenants, agent_ids = [tenant for tenant, _ in agents], [agent for _, agent in agents]
    return len(await many(tx, _UNUSED, tenants=tenants, agent_ids=agent_ids))


async def forget_edges(tx: Tx, named: Collection[tuple[str, str]]) -> int:
    """Delete the edges under these names (tenant, correlation); answer with how many were."""
    tenants, correlations = [tenant for tenant, _ in named], [correlation for _, correlation in named]
    return len(await many(tx, _EDGES, tenants=tenants, correlations=correlations))
