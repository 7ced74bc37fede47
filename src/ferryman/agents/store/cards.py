"""Cards and boxes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.agents.model import Box, Card, CardRecord
from ferryman.agents.store.words import words
from ferryman.kernel.db import Tx, load, many

_HERE = "ferryman.agents"
_CREATE = load(_HERE, "cards/create")
_GET = load(_HERE, "cards/get")
_BOX = load(_HERE, "boxes/create")
_APPEND = load(_HERE, "boxes/append")
_READ = load(_HERE, "boxes/read")
_KNOWN = load(_HERE, "boxes/known")


def _card(card: Card) -> dict[str, object]:
    return {
        "tenant": card.tenant,
        "id": card.id,
        "turn": card.turn,
        "step": card.step,
        "type": card.type,
        "role": card.role,
        "author": card.author,
        "tool_call_id": card.tool_call_id,
        "content": card.content,
        "metadata": card.metadata,
    }


async def create(tx: Tx, cards: Sequence[Card]) -> set[UUID]:
    """Write facts down; answer with those that were not there."""
    return {row["id"] for row in await many(tx, _CREATE, cards=words(map(_card, cards)))}


async def get(tx: Tx, card_ids: Collection[UUID], *, tenant: str) -> list[CardRecord]:
    """Read cards."""
    rows = await many(tx, _GET, ids=list(card_ids), tenant=tenant)
    return [CardRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


async def box(tx: Tx, boxes: Sequence[Box]) -> None:
    """Make boxes with these cards in them."""
    rows = [{"tenant": each.tenant, "id": each.id, "card_ids": [str(card) for card in each.cards]} for each in boxes]
    await many(tx, _BOX, boxes=words(rows))


async def append(tx: Tx, written: Sequence[tuple[Card, int]]) -> set[UUID]:
    """Let live turns write into their output boxes: each card with its turn's epoch; answer with the turns that still could."""
    rows = await many(
        tx,
        _APPEND,
        cards=words({**_card(card), "epoch": epoch, "nth": nth} for nth, (card, epoch) in enumerate(written)),
    )
    return {row["id"] for row in rows}


async def known(tx: Tx, boxes: Collection[tuple[str, UUID]]) -> dict[UUID, bool]:
    """Tell of those boxes (tenant, id) that exist whether a live turn writes into them, or will."""
    rows = await many(tx, _KNOWN, tenants=[tenant for tenant, _ in boxes], ids=[id for _, id in boxes])
    return {row["id"]: row["taken"] for row in rows}


async def read(tx: Tx, boxes: Collection[tuple[str, UUID]]) -> dict[UUID, list[CardRecord]]:
    """Read the cards of boxes (tenant, id), in order."""
    rows = await many(tx, _READ, tenants=[tenant for tenant, _ in boxes], ids=[id for _, id in boxes])
    found: dict[UUID, list[CardRecord]] = {id: [] for _, id in boxes}
    for row in rows:
        found[row["box_id"]].append(CardRecord(*(row[name] for name in CardRecord._fields)))
    return found
