"""Cursors: where they stand, the proof that their events lead there, and the audited way back (I11)."""

from __future__ import annotations

from datetime import datetime

from ferryman.ingest import coverage
from ferryman.ingest.model import Moved, Replayed
from ferryman.ingest.rules import keys
from ferryman.ingest.rules.replay import replay as replayed
from ferryman.ingest.store import cursors
from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx

CURSORS_MAX = 1000
LONGEST_REASON = 500


async def replay(tx: Tx, *, tenant: str, source: str | None = None) -> list[Replayed]:
    """Replay the events of every cursor, of one source or all."""
    return [
        await _replay(tx, row) for row in await cursors.list_all(tx, tenant=tenant, source=source, limit=CURSORS_MAX)
    ]


async def _replay(tx: Tx, row: Row) -> Replayed:
    events = [
        Moved(
            each["seq"], each["at"], each["kind"], each["prev_position"], each["new_position"], each["run_id"],
            each["batch_id"], each["reason"],
        )
        for each in await cursors.events(tx, row["id"])
    ]  # fmt: skip
    led = replayed((each.kind, each.prev, each.next) for each in events)
    return Replayed(row["id"], _named(row), row["kind"], row["position"], led, events)


def _named(row: Row) -> str:
    scope = row["scope"] if row["scope"] == "GLOBAL" else f"{row['scope']}:{row['scope_key'][:12]}"
    return f"{row['source']}/{row['endpoint']} {row['operation']} {scope}"


async def rewind(
    tx: Tx, *, tenant: str, source: str, endpoint: str, to: datetime | int, reason: str, operation: str = "HARVEST"
) -> Replayed:
    """Take a cursor back, with the reason in its events; the next plan begins there. Coverage from before counts no more."""
    told = reason.strip()
    if not told or len(told) > LONGEST_REASON:
        raise errors.IngestInvalidRequest(f"reason: expected 1 to {LONGEST_REASON} characters.", field="reason")
    kind = "TIME" if isinstance(to, datetime) else "ID"
    if isinstance(to, datetime) and to.tzinfo is None:
        raise errors.IngestInvalidRequest(f"to: expected an instant with its offset, got {to}.", field="to")
    position = keys.number(to) if isinstance(to, datetime) else to
    rows = [
        row
        for row in await cursors.list_all(tx, tenant=tenant, source=source, limit=CURSORS_MAX)
        if row["endpoint"] == endpoint and row["operation"] == operation and row["kind"] == kind
    ]
    if len(rows) != 1:
        got, verb = (f"There are {len(rows)} cursors", "count") if rows else ("There is no cursor", "counts")
        raise errors.IngestNotFound(f"{got} of {source}/{endpoint} {operation} that {verb} by {kind.lower()}.")
    if not await coverage.rewind(tx, rows[0]["id"], tenant=tenant, position=position, reason=told):
        raise errors.IngestInvalidRequest(
            "to: expected a place behind the cursor: it only goes back by a rewind.", field="to"
        )
    [row] = [
        each
        for each in await cursors.list_all(tx, tenant=tenant, source=source, limit=CURSORS_MAX)
        if each["id"] == rows[0]["id"]
    ]
    return await _replay(tx, row)
