"""Gates of sources, for whoever asks why nothing comes faster (I9, I16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ferryman.ingest.store import gates
from ferryman.kernel.db import Row, Tx


@dataclass(frozen=True, slots=True)
class GateRow:
    """A gate: the rate in force and the best one, both in requests a second; what the source said; how it went.

    `closed_until` and `quota_until` are None when they have passed. `good` and `slow` count answers since the gate was made.
    """

    source: str
    endpoint: str
    credential: str
    rate: float
    top: float
    floor: float
    burst: int
    next_at: datetime
    closed_until: datetime | None
    quota_left: int | None
    quota_until: datetime | None
    good: int
    slow: int
    halvings: int
    halved_at: datetime | None
    last_status: int | None
    says: str


async def read(tx: Tx) -> Sequence[GateRow]:
    """Read every gate."""
    return [_row(row) for row in await gates.list_all(tx)]


def _row(row: Row) -> GateRow:
    now, step = row["now"], timedelta(seconds=1 / row["rate"])
    closed = row["closed_until"] if row["closed_until"] > now else None
    running = row["quota_until"] is not None and row["quota_until"] > now
    credit = now - (row["burst"] - 1) * step
    spent = row["quota_until"] if running and row["quota_left"] == 0 else None
    return GateRow(
        source=row["source"],
        endpoint=row["endpoint"],
        credential=row["credential"],
        rate=row["rate"],
        top=row["top"],
        floor=row["floor"],
        burst=row["burst"],
        next_at=max(filter(None, (now, credit, row["spent_until"], closed, spent))),
        closed_until=closed,
        quota_left=row["quota_left"] if running else None,
        quota_until=row["quota_until"] if running else None,
        good=row["good"],
        slow=row["slow"],
        halvings=row["halvings"],
        halved_at=row["halved_at"],
        last_status=row["last_status"],
        says=_says(row, closed=closed, spent=spent),
    )


def _says(row: Row, *, closed: datetime | None, spent: datetime | None) -> str:
    """Say in a sentence why the rate is what it is."""
    if closed is not None:
        return f"Closed until {closed:%Y-%m-%d %H:%M:%S}Z: the source asked for it (HTTP {row['last_status']})."
    if spent is not None:
        return f"Closed until {spent:%Y-%m-%d %H:%M:%S}Z: the source's quota is spent."
    if row["rate"] < row["top"]:
        since = "" if row["halved_at"] is None else f", slowed down last at {row['halved_at']:%Y-%m-%d %H:%M:%S}Z"
        return f"{row['rate']:.3g} of {row['top']:.3g} requests a second{since}. It climbs back as requests go well."
    return f"Open at its best: {row['top']:.3g} requests a second."
