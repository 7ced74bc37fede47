"""Repairs sequences that are behind their tables (K10).

Logical replication copies rows and no sequences; a partial restore may do the same. Then ids start again at 1: readers of
the log are past them and deliver nothing, and inserts collide with rows that exist.

The repair moves the sequence past every id in use, under a lock on the table. Rows that were written meanwhile get new ids
above. It goes table by table, each in a transaction of its own: a writer of one table may wait for another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from ferryman.kernel import db, errors, outage, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Line
from ferryman.kernel.watchdog.rule import Rule

log = telemetry.logger("watchdog")

REPAIR_BY_HAND: Final = (
    "As the owner of the tables, run: select table_name, ferryman.repair_sequence(table_name) from ferryman.sequences "
    "where last_id < needed_id;"
)
ALL: Final = 100

_BEHIND = db.load("ferryman.kernel", "sequences/behind")
_REPAIR = db.load("ferryman.kernel", "sequences/repair")
_REPEATED = db.load("ferryman.kernel", "sequences/repeated")

REPEATED_ADVICE: Final = (
    "No worker can repair this. Find the newer events of each pair by logged_at (they are complete in ferryman.events), and "
    "deliver by hand those that receivers need. After the next switch-over, start a worker before any producer."
)


async def behind(tx: Tx, limit: int = ALL) -> Sequence[Row]:
    """Return the tables whose sequences are behind, with the last id given out and the last id in use."""
    return await db.many(tx, _BEHIND, limit=limit)


async def repeated(tx: Tx) -> str | None:
    """Describe ids that occur twice in the log because its sequence started again; None if none are found."""
    row = await db.one(tx, _REPEATED)
    if row is None or row["last_id"] is None:
        return None
    return (
        f"Ids occur twice in the log (from {row['first_id']} to {row['last_id']}, among those checked): its sequence started "
        "again below ids in use and passed them before a worker could repair it. Relays, webhooks and consumers skipped newer "
        "events with ids that they had passed."
    )


async def repair(tx: Tx, table: str) -> bool:
    """Repair the sequence of a table; False if another session does. The transaction should be committed immediately."""
    try:
        done = await db.one(tx, _REPAIR, table_name=table)
    except errors.DatabaseRefused as error:
        message = f"The sequence of {table} is behind its table, and this role may not repair it: {error.message}"
        refused = errors.DatabaseRefused(message)
        refused.advice = REPAIR_BY_HAND
        raise refused from error
    if done is None or done["current_id"] is None:
        return False
    if done["previous_id"] < done["current_id"]:
        fields = {"table": table, **{name: done[name] for name in ("previous_id", "current_id", "moved")}}
        log.warning(
            "repaired the sequence of %s: it was at %s and is at %s; %s rows got new ids",
            *fields.values(),
            extra=fields,
        )
    return True


async def repair_all(line: Line) -> None:
    """Repair what can be repaired now, and log what can't be; the watchdog tries the rest again."""
    for row in await behind(line):
        try:
            async with line.transaction() as tx:
                await repair(tx, row["table_name"])
        except errors.FerrymanError as error:
            if isinstance(error, errors.DatabaseUnavailable) and not outage.locked(error):
                raise
            log.error("%s", error, extra={"table": row["table_name"]})  # noqa: TRY400 - the message says it all
    message = await repeated(line)
    if message is not None:
        log.error("%s %s", message, REPEATED_ADVICE)


def rule(*, every: timedelta) -> Rule:
    """Return the rule that repairs sequences while a worker runs."""

    async def act(tx: Tx, findings: Sequence[Any]) -> int:
        return sum([await repair(tx, each["table_name"]) for each in findings])

    return Rule(
        name="K10-sequences",
        finds="a sequence that is behind the ids of its table",
        does="moves it past them, and gives new ids to the rows that were written meanwhile",
        setting="worker.watchdog_interval_seconds",
        every=every,
        find=behind,
        act=act,
        limit=1,  # one table in a transaction
        only_bound=True,  # an interval of 0 does not switch it off
        key=lambda finding: finding["table_name"],
    )
