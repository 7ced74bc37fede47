"""Move the time that all SQL asks for (K14)."""

from __future__ import annotations

from datetime import timedelta

from ferryman.kernel.db import Statement, Tx, many

_TRAVEL = Statement("travel", "update ferryman.clock_shift set shift = shift + :by")


async def travel(tx: Tx, by: timedelta) -> None:
    """Move the clock of the whole database, for every process that uses it, once the transaction commits."""
    await many(tx, _TRAVEL, by=by)
