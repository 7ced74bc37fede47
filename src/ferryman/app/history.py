"""The door to the log as people read it: the newest first, a page at a time.

For reading, not for following: an event of a transaction that commits late appears between others, and a page that was read
before does not have it (K10). Who must miss nothing follows the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ferryman.kernel import db, errors
from ferryman.kernel.events import Event
from ferryman.kernel.pool import Database, spoken

_PAGE = db.load("ferryman.app", "history/page")

REACH = 20_000
END = 2**63 - 1
LIMIT_MAX = 1000
_KIND = re.compile(r"[a-z_.]{1,40}")


class Part(NamedTuple):
    """A page of the log, and the event before which the next one begins; None where the log begins."""

    events: Sequence[Event]
    next: int | None


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
