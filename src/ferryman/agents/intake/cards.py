"""Cards that come from outside of turns, and cards by their ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.agents.model import Box, Card, CardRecord
from ferryman.agents.store import cards
from ferryman.kernel.db import Tx


async def get(tx: Tx, card_ids: Collection[UUID], *, tenant: str) -> list[CardRecord]:
    """Read cards."""
    return await cards.get(tx, card_ids, tenant=tenant)


async def require(tx: Tx, card: UUID, fields: Sequence[str], *, tenant: str, turn: UUID) -> None:
    """Write down which fields a turn's result must have (A14)."""
    content = [{"name": name} for name in fields]
    asked = Card(
        tenant=tenant, id=card, type="task.result_fields", role="system", author="user", content=content, turn=turn
    )  # fmt: skip
    await cards.create(tx, [asked])


async def pack(tx: Tx, facts: Sequence[Card], boxes: Sequence[Box]) -> None:
    """Write facts down, and make boxes of them and of others."""
    await cards.create(tx, facts)
    await cards.box(tx, boxes)
