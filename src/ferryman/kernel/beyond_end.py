"""Sets back a named consumer of the log whose place the log has not reached (K10).

The place is stored in the database of the log, so this happens only where the two were restored from different times. The
consumer would read nothing until the log reaches its place, and then have skipped all events before it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ferryman.kernel import db, telemetry

log = telemetry.logger("events")

_SET_BACK = db.load("ferryman.kernel", "events/set_back")

# The clocks of the server that wrote the lost events and of the one that answers now may differ by so much.
SLACK: Final = timedelta(minutes=1)


async def set_back(tx: db.Tx, consumer: str) -> int | None:
    """Set a consumer beyond the end back to the last event before its place moved last; return that event's id, or None."""
    row = await db.one(tx, _SET_BACK, name=consumer, slack=SLACK)
    if row is None:
        return None
    resume_id: int = row["last_id"]
    log.warning(
        "the consumer %s is beyond the end of the log (%s) and resumes after event %s",
        consumer, row["was"], resume_id,
    )  # fmt: skip
    return resume_id
