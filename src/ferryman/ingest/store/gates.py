"""Gates of sources: what is agreed, what is leased, what was told (I9)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ferryman.ingest.rules import limits
from ferryman.ingest.rules.pace import Pace
from ferryman.kernel.db import Row, Tx, load, many, one

_PASS = load("ferryman.ingest", "ingest_gate/pass")
_DECLARE = load("ferryman.ingest", "ingest_gate/declare")
_GIVE_BACK = load("ferryman.ingest", "ingest_gate/give_back")
_RATE = load("ferryman.ingest", "ingest_gate/rate")
_LIST = load("ferryman.ingest", "ingest_gate/list")

# How far ahead slots are leased, and how much time one lot spans: for so long at most a fall of the rate goes unheard.
HORIZON = timedelta(seconds=1)
LOT = timedelta(seconds=1)


# Source, endpoint, credential.
Name = tuple[str, str, str]


class News(NamedTuple):
    """What became of requests since a gate was last told."""

    good: int = 0
    bad: int = 0
    gain: float = 0.0
    slow: bool = False
    closed_for: timedelta | None = None
    quota: limits.Quota | None = None
    status: int | None = None

    def less(self, held: int) -> News:
        """Return it with so many requests fewer in the quota: who tells it holds slots of which the source knows nothing."""
        if self.quota is None or not held:
            return self
        return self._replace(quota=self.quota._replace(left=max(0, self.quota.left - held)))


class Leased(NamedTuple):
    """Slots: so many, from then on, one interval apart; none when the first free one lies too far ahead."""

    now: datetime
    rate: float
    halvings: int
    slots: int
    first_at: datetime
    every_seconds: float
    spent_until: datetime


async def declare(tx: Tx, name: Name, pace: Pace) -> None:
    """Say what is agreed for a gate."""
    await many(
        tx,
        _DECLARE,
        **_named(name),
        top=pace.top,
        floor=pace.floor,
        burst=pace.burst,
    )


async def pass_through(tx: Tx, name: Name, *, wish: int, news: News, halvings: int) -> Leased | None:
    """Tell a gate the news, and lease as many slots as are wished and free; None: nobody has declared it."""
    row = await one(
        tx,
        _PASS,
        **_named(name),
        wish=wish,
        good=news.good,
        bad=news.bad,
        gain=news.gain,
        slow=news.slow,
        halvings=halvings,
        closed_for=news.closed_for,
        quota_left=None if news.quota is None else news.quota.left,
        quota_for=None if news.quota is None else news.quota.lasts,
        last_status=news.status,
        horizon=HORIZON,
        lot=LOT,
        longest=limits.LONGEST,
    )
    return None if row is None else Leased(*row)  # type: ignore[misc]  # in the order of the columns


async def give_back(tx: Tx, name: Name, *, unused_from: datetime, spent_until: datetime) -> None:
    """Give back the end of a lot."""
    await many(
        tx,
        _GIVE_BACK,
        **_named(name),
        unused_from=unused_from,
        spent_until=spent_until,
    )


async def rate(tx: Tx, name: Name) -> float | None:
    """Read the rate in force."""
    row = await one(tx, _RATE, **_named(name))
    return None if row is None else float(row["rate"])


def _named(name: Name) -> dict[str, str]:
    return dict(zip(("source", "endpoint", "credential"), name, strict=True))


async def list_all(tx: Tx) -> Sequence[Row]:
    """Read every gate."""
    return await many(tx, _LIST)
