"""How long a lock is waited for by whoever has others behind him (K25).

Somebody may hold a row for as long as he likes: a caller who cancels a task in a transaction of his own, and thinks. Who holds
one for longer than SHORT has left something open, and what must be written there is sent again later. A set that met such a
row is tried again in parts, and each of them waits for PART: a set of 500 is halved nine times around one that is locked.
"""

from __future__ import annotations

from datetime import timedelta

from ferryman.kernel.db import Tx

SHORT = timedelta(milliseconds=500)
PART = timedelta(milliseconds=100)


async def hurry(tx: Tx, at_most: timedelta = SHORT) -> None:
    """Wait for no lock for longer from here on, in this transaction."""
    await tx.fetch("select set_config('lock_timeout', $1, true)", written(at_most))


def written(time: timedelta) -> str:
    """Write a time as a setting of PostgreSQL's."""
    return f"{time.total_seconds() * 1000:.0f}ms"
