"""Cards and boxes over HTTP: what turns were given to read, and what they wrote."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from ferryman.agents.model import CardRecord
from ferryman.http.answers import LIMIT, Limit, Page, Shape
from ferryman.http.callers import Reading
from ferryman.kernel import payload

router = APIRouter(tags=["cards"])

PLACES_MAX = 2**31 - 1


class Card(Shape):
    """A fact that was written down; it never changes."""

    id: UUID
    type: str
    role: str
    author_id: str
    agent_turn_id: UUID | None
    step_id: UUID | None
    tool_call_id: str | None
    content: Any
    metadata: Any
    created_at: datetime


def told(card: CardRecord) -> dict[str, Any]:
    """Return a card with its content as a value."""
    metadata = None if card.metadata is None else payload.decode(card.metadata)
    return card._asdict() | {"content": payload.decode(card.content), "metadata": metadata}


@router.get("/cards/{card_id}", response_model=Card, summary="Read a card")
async def get(visit: Reading, card_id: UUID) -> dict[str, Any]:
    """Read a card."""
    return told(await visit.doors.agents.card(card_id))


@router.get("/boxes/{box_id}/cards", response_model=Page[Card], summary="Read the cards of a box")
async def of_box(
    visit: Reading,
    box_id: UUID,
    after: Annotated[
        int, Query(ge=0, le=PLACES_MAX, description="Go on after this place: `next` of the page before.")
    ] = 0,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """Read the cards of a box, in order, a page at a time."""
    found = await visit.doors.agents.cards(box_id, after=after, limit=limit)
    more = str(after + limit) if len(found) == limit else None
    return {"items": [told(each) for each in found], "next": more}
