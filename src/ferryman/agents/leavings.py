"""What turns leave behind, when it has been kept for long enough (T20).

A turn is forgotten whole, in one transaction: its message, its calls, results, steps and edges; then its boxes and the cards
that it wrote itself, unless something live reads them or its agent wrote nothing since. Cards that an ended turn took over from
one that was forgotten are not shown any more: only what lives keeps the cards of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.agents.store import retention
from ferryman.kernel.db import Tx


class Bare(NamedTuple):
    """What was made for a turn that is not there: it never came, or was forgotten before."""

    tenant: str
    agent_id: str
    turn: UUID
    context_box: UUID
    output_box: UUID | None


async def forget(tx: Tx, ids: Sequence[UUID], *, kept: timedelta) -> int:
    """Delete messages that have ended, and all that belongs to their turns; answer with how many were."""
    gone = await retention.forget(tx, ids)
    turns = [row for row in gone if row["is_turn"]]
    if turns:
        boxes = {box for row in turns for box in (row["context_box_id"], row["output_box_id"]) if box is not None}
        await retention.forget_boxes(tx, boxes, turns=[row["id"] for row in turns], kept=kept)
    budgets = {(row["tenant"], row["budget_id"]) for row in turns if row["budget_id"] is not None}
    if budgets:
        await retention.forget_budgets(tx, budgets, kept=kept)
    return len(gone)


async def forget_bare(tx: Tx, bare: Sequence[Bare], *, edges: Sequence[tuple[str, str]], kept: timedelta) -> None:
    """Delete what was made for turns that are not there, and what was noted under these names (tenant, correlation)."""
    if bare:
        await retention.forget_unused(tx, [(each.tenant, each.agent_id) for each in bare])
        boxes = {box for each in bare for box in (each.context_box, each.output_box) if box is not None}
        await retention.forget_boxes(tx, boxes, turns=[each.turn for each in bare], kept=kept)
    if edges:
        await retention.forget_edges(tx, edges)
