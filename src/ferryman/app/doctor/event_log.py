"""Checks what keeps events of the log from its readers: sequences that are behind, and transactions that stay open (K10)."""

from __future__ import annotations

from datetime import timedelta

from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading
from ferryman.kernel import open_transactions, sequences
from ferryman.kernel.db import Tx
from ferryman.relays import intake


async def ids(tx: Tx) -> list[Reading]:
    """Find sequences that would give out ids which are in use, or which readers of the log have passed, or did so before."""
    rows = await sequences.behind(tx)
    if not rows:
        repeated = await sequences.repeated(tx)
        if repeated is not None:
            return [Reading("sequences", BAD, repeated, sequences.REPEATED_ADVICE)]
        return [Reading("sequences", GOOD, "No sequence is behind its table.")]
    tables = ", ".join(f"{row['table_name']} ({row['last_id']}, in use {row['needed_id']})" for row in rows)
    says = (
        f"Sequences are behind their tables: {tables}. That is so after logical replication or a partial restore. Readers of "
        "the log are past the ids of new events and don't deliver them."
    )
    advice = f"A worker whose role owns the tables repairs this when it starts. Otherwise: {sequences.REPAIR_BY_HAND}"
    details = [{name: row[name] for name in ("table_name", "last_id", "needed_id")} for row in rows]
    return [Reading("sequences", BAD, says, advice, details)]


async def transactions(tx: Tx) -> list[Reading]:
    """Name the transactions that hold up the readers of the log, or will at the next gap."""
    found = await open_transactions.long_open(tx)
    if not found:
        limit = open_transactions.LONG.total_seconds()
        says = f"No transaction that has written anything on this server has been open for over {limit:g} s."
        return [Reading("open transactions", GOOD, says)]
    unread = max((each.behind_seconds for each in await intake.standings(tx)), default=0.0)
    readings = []
    for each in found:
        if each.wrote:
            verdict, effect = BAD, "It wrote to the log: no reader (relays, webhooks, streams) passes the gap it makes."
        elif timedelta(seconds=unread) > open_transactions.LONG and each.seconds >= unread:
            verdict, effect = BAD, "Readers of the log are at a gap and wait until it ends."
        else:
            verdict, effect = NOTE, "Readers of the log wait for it at the next gap, which any rollback makes."
        readings.append(Reading("open transactions", verdict, f"{each.says}. {effect}", each.advice, [each._asdict()]))
    return readings
