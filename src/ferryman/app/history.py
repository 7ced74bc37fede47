"""The door to the log as people read it: the newest first, a page at a time.

For reading, not for following: an event of a transaction that commits late appears between others, and a page that was read
before does not have it (K10). Who must miss nothing follows the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.agents import rules as agents
from ferryman.batches import rules as batches
from ferryman.commands.rules import names
from ferryman.kernel import db, errors
from ferryman.kernel.events import Event
from ferryman.kernel.pool import Database, spoken
from ferryman.tasks import joins

_PAGE = db.load("ferryman.app", "history/page")
_OWNER = db.load("ferryman.app", "history/owner")

REACH = 20_000
END = 2**63 - 1
LIMIT_MAX = 1000
_KIND = re.compile(r"[a-z_.]{1,40}")


class Part(NamedTuple):
    """A page of the log, and the event before which the next one begins; None where the log begins."""

    events: Sequence[Event]
    next: int | None


class Owner(NamedTuple):
    """To whom the end of a task or a turn is owed: a task, a turn, a command or a batch."""

    kind: str
    id: UUID


class History:
    """Read back in the log of one tenant."""

    def __init__(self, db: Database, tenant: str) -> None:
        """Serve one tenant."""
        self._db = db
        self._tenant = tenant

    async def page(
        self, *, before: int | None = None, kind: str | None = None, codes: Sequence[str] | None = None, limit: int = 50
    ) -> Part:
        """Read a page, the newest first; of one kind of object, or with certain reasons, if asked.

        A kind stands for its family too: `agent` for `agent.state`, `ingest` for `ingest_task`.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise errors.RequestInvalid(f"limit: expected 1 to {LIMIT_MAX}, got {limit}.", field="limit")
        if kind is not None and _KIND.fullmatch(kind) is None:
            raise errors.RequestInvalid("kind: expected the kind of an object, such as task.", field="kind")
        with spoken():
            async with self._db.session() as tx:
                rows = await db.many(
                    tx, _PAGE, before=END if before is None else before, tenant=self._tenant, kind=kind,
                    codes=None if codes is None else list(codes), limit=limit, reach=REACH,
                )  # fmt: skip
        found = [Event(*(row[name] for name in Event.__slots__)) for row in rows if row["id"] is not None]
        if len(found) == limit:
            return Part(found, found[-1].id)
        return Part(found, rows[0]["reached"] if rows[0]["looked"] == REACH else None)

    async def owner(self, id: UUID) -> Owner | None:
        """Return what waits for the end of a task or a turn; None when nobody does, or it is not kept any more."""
        with spoken():
            async with self._db.session() as tx:
                row = await db.one(tx, _OWNER, id=id, tenant=self._tenant)
        if row is None:
            return None
        kind, found = _owing(row["callback"], row["callback_ref"] or "", row["turn"])
        return None if found is None else Owner(kind, found)


def _owing(callback: str | None, ref: str, turn: UUID | None) -> tuple[str, UUID | None]:
    match callback:
        case joins.CHILD:
            return "task", UUID(ref)
        case names.CALLBACK:
            return "command", names.owed(ref).command
        case batches.BATCH:
            batch = batches.referred(ref)
            return "batch", batch and batch[0]
        case agents.TOOL | agents.DELEGATE:
            return "turn", turn
    return "", None
