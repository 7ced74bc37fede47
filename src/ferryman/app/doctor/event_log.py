"""Checks what keeps events of the log from its readers: sequences that are behind (K10)."""

from __future__ import annotations

from ferryman.app.doctor.report import BAD, GOOD, Reading
from ferryman.kernel import sequences
from ferryman.kernel.db import Tx


async def ids(tx: Tx) -> list[Reading]:
    """Find sequences that would give out ids which are in use, or which readers of the log have passed."""
    rows = await sequences.behind(tx)
    if not rows:
        return [Reading("sequences", GOOD, "No sequence is behind its table.")]
    tables = ", ".join(f"{row['table_name']} ({row['last_id']}, in use {row['needed_id']})" for row in rows)
    says = (
        f"Sequences are behind their tables: {tables}. That is so after logical replication or a partial restore. Readers of "
        "the log are past the ids of new events and don't deliver them."
    )
    advice = f"A worker whose role owns the tables repairs this when it starts. Otherwise: {sequences.REPAIR_BY_HAND}"
    details = [{name: row[name] for name in ("table_name", "last_id", "needed_id")} for row in rows]
    return [Reading("sequences", BAD, says, advice, details)]
