"""What a walk holds in its hands: a position to ask for, a page that came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import orjson

from ferryman.ingest.model import Claimed, Records
from ferryman.ingest.ports import Decision, Page, Written
from ferryman.ingest.registry import Declared
from ferryman.ingest.rules import keys
from ferryman.ingest.store.batches import Birth, Finished
from ferryman.ingest.work.journal import Fetches


@dataclass
class Place:
    """A position that is to be asked for: its batch, which may be there, and what the gate said of it."""

    id: UUID
    number: int
    position: str
    key: str
    fetches: Fetches = field(default_factory=Fetches)
    decision: Decision | None = None
    admitted: float = 0.0
    there: bool = False

    def birth(self) -> Birth:
        """Return the batch."""
        return Birth(self.id, self.number, self.position, self.key, orjson.dumps(self.fetches.stats()).decode())


class Step(NamedTuple):
    """Where a walk goes on; None: nowhere, it was the last page."""

    position: str | None
    place: Place | None = None


class Leaf(NamedTuple):
    """A page that came: its batch, what a sink elsewhere has made of it or one here will, and where it leads."""

    page: Page
    place: Place
    finished: Finished
    written: Written
    records: Records | None
    ahead: Place | None


def end_of(task: Claimed, declared: Declared, page: Page, fetches: Fetches) -> Finished:
    """Return what a page makes of its batch."""
    covered = None
    if declared.ordered and page.watermark is not None and task.cut.dimension == "time":
        covered = keys.number(page.watermark)
    stats = {**fetches.stats(), "itemsCount": len(page.items), "hasNext": page.has_next, "bytes": page.size}
    return Finished(
        after=page.next if page.has_next else None,
        has_next=page.has_next,
        records=len(page.items),
        requests=fetches.requests,
        watermark=page.watermark,
        covered=covered,
        stats=stats | {"source": dict(page.stats)} if page.stats else stats,
    )
