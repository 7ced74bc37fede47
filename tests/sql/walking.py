"""How every walk of retention goes: page by page, from where it stopped, one walker at a time (T20)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ferryman.app.doctor import keeping
from ferryman.kernel.db import Tx, many
from ferryman.kernel.pool import Database, Line

DAY = timedelta(days=1)
KEPT = timedelta(days=7)
TERMS = {"kept": KEPT, "pace": DAY, "rest": 2 * DAY}
NOWHERE = UUID(int=0)

Walk = Callable[..., Awaitable[Sequence[Any]]]


def old(now: datetime, ago: timedelta) -> UUID:
    """Make an id as it was made that long ago."""
    return UUID(int=(int((now - ago).timestamp() * 1000) << 80) | (uuid4().int & ((1 << 80) - 1)))


async def past(tx: Tx, domain: str, *, kept: timedelta) -> int:
    """Count what `doctor` says is past its keeping in one domain."""
    terms = ("tasks", "failed_tasks", "turns", "batches", "commands", "plans", "deliveries", "dead_deliveries")
    rows = await many(tx, keeping.RETENTION, **dict.fromkeys(terms, kept))
    return sum(row["count"] for row in rows if row["domain"] == domain)


async def assert_walks(db: Database, line: Line, walk: Walk, domain: str, ids: Sequence[UUID]) -> None:
    """Find three rows that are past their keeping, the only ones there are, in the order of their ids."""
    own = "select after_id, next_at - ferryman.clock() as left from ferryman.retention where domain = $1"
    theirs = "select domain, after_id, next_at from ferryman.retention where domain <> $1 order by 1"

    async with db.session() as tx:

        async def look(limit: int, span: int) -> tuple[list[UUID], UUID, int]:
            found = [row["id"] for row in await walk(tx, limit, span=span, **TERMS)]
            [place] = await tx.fetch(own, domain)
            return found, place["after_id"], round(place["left"] / DAY)

        others = await tx.fetch(theirs, domain)
        looks = [await look(1, 9), await look(9, 1), await look(9, 9)]
        await tx.fetch("update ferryman.retention set next_at = '-infinity' where domain = $1", domain)
        looks += [await look(9, 9), await look(9, 9)]
        assert await tx.fetch(theirs, domain) == others
        await tx.fetch("update ferryman.retention set next_at = '-infinity' where domain = $1", domain)
    one, two, three = ids
    assert looks == [
        ([one], one, 0), ([two], two, 1), ([], two, 1), ([three], NOWHERE, 2), ([], NOWHERE, 2),
    ]  # fmt: skip
    async with db.transaction() as holding:
        first = await walk(holding, 9, span=9, **TERMS)
        assert (len(first), len(await walk(line, 9, span=9, **TERMS))) == (3, 0)
