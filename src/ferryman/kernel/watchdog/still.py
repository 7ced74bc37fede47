"""Connections of ours whose process stands still in the middle of a statement (K24, W23).

The driver sends a statement that is new to a connection in two parts, and waits for an answer between them. A process that is
frozen just there (SIGSTOP, a machine that is paused) leaves a backend that is active and reads; one that is frozen while rows
come leaves one that writes. Neither is idle in its transaction, and PostgreSQL ends no statement while it reads or writes, so
none of its timeouts helps (from 17 on `transaction_timeout` would, also against whoever works for long). Somebody else has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferryman.kernel import db, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.watchdog.rule import Rule

log = telemetry.logger("watchdog")

# As long as a transaction of either may be idle, and as a statement is waited for (kernel/pool/terms.py). One of a run of
# ingestion may be for as long as its lease.
MACHINERY = timedelta(seconds=2)
OTHERS = timedelta(seconds=60)

_STILL = db.load("ferryman.kernel", "watchdog/still")


def standing_still(
    *, every: timedelta, runs: timedelta, machinery: timedelta = MACHINERY, others: timedelta = OTHERS
) -> Rule:
    """Return the rule by which a process that stands still in the middle of a statement loses its connection."""

    async def find(tx: Tx, limit: int) -> Sequence[Any]:
        found = await db.many(tx, _STILL, machinery=machinery, runs=runs, others=others, limit=limit)
        if found:
            told = {"rule": "K24", "count": len(found)}
            log.warning("connections were ended whose process stood still in the middle of a statement", extra=told)
        return found

    return Rule(
        name="K24",
        finds="a connection of ours whose process stands still in the middle of a statement: no timeout ends it",
        does="ends it after 2 s; in a run of ingestion after a lease; after 60 s in the pool, where it stands alone, or where "
        "its rows are on the way",
        setting="worker.lease_sweep_seconds",
        every=every,
        find=find,
        only_bound=True,
    )
