"""Indexes that are made beside writers, and what is left when that is broken off.

CREATE INDEX CONCURRENTLY commits in between. If it is killed, or waits too long for the transactions of others, an index stays
behind that is not valid: every write pays for it, no read uses it, and `if not exists` takes it for made. So whoever makes
indexes mends first. An index that is wanted is rebuilt and not dropped: the file that made it may be remembered as done
already, and nobody would make it again. A rebuild that is broken off leaves the index and a leftover beside it, which the
next one drops.

No other migration makes an index meanwhile: they take turns (kernel/migrate.py). If somebody makes one by hand, they hold
their table until it is made; REINDEX and DROP wait for that, with a bound. Then REINDEX makes anew what is there, which costs
time and nothing else, and the name of a leftover is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ferryman.kernel import db, script
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Session

INVALID = db.load("ferryman.kernel", "indexes/invalid")

_BESIDE = re.compile(
    r"""
      (?: create \s+ (?:unique \s+)? index | drop \s+ index | reindex \s+ (?:\([^)]*\) \s*)? (?:index|table) )
      \s+ concurrently \b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def beside_writers(statement: str) -> bool:
    """Tell whether nobody who reads or writes waits behind a statement while it waits."""
    return _BESIDE.match(script.uncommented(statement)) is not None


async def invalid(tx: Tx) -> Sequence[Row]:
    """Return the indexes of our schema that are not valid, leftovers first."""
    return await db.many(tx, INVALID, schema=tx.schema)


async def mend(session: Session) -> None:
    """Make every index of our schema valid; outside of a transaction."""
    for each in await invalid(session):
        await session.execute(mending(each))


def mending(row: Row) -> str:
    """Return the statement that mends an index, also for whoever must do it by hand."""
    if row["leftover"]:
        return f"drop index concurrently if exists {row['name']}"
    return f"reindex index concurrently {row['name']}"
