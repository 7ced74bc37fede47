"""The figures of the last minutes: what came, what ended and how, what waits and runs, what is wrong (S5).

Throughput is counted from the log, by the range of ids that it gained since the last look. An id is drawn before its
transaction commits, so a look counts only up to where the log ended at the look before: what commits within that second is
counted, and the figures are a second or two behind. Depth is counted from the partial indexes of what lives.

A look is shared: whoever asks within a second of one gets the same figures, in all tenants. A look that takes long makes the
next one wait longer, so that figures of a large backlog cost a bounded part of the database's time.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ferryman.app.shared import Shared
from ferryman.kernel import db
from ferryman.kernel.pool import Database, spoken
from ferryman.tasks.intake.queues import EVERYBODY

if TYPE_CHECKING:
    from ferryman.app.doctor.report import Reading

_MOVED = db.load("ferryman.app", "figures/moved")
_LIVE = db.load("ferryman.app", "figures/live")
_END = db.load("ferryman.app", "figures/end")
_PAUSED = db.load("ferryman.app", "figures/paused")
_TENANTS = db.load("ferryman.app", "figures/tenants")

EVERY = 1.0
SPAN = timedelta(minutes=10)
BACKLOG = 100_000  # how far the first look goes back in the log
TENANTS_REACH, TENANTS_MAX = 20_000, 200
ALARMS_EVERY = 5.0
PATIENCE = 0.05
FAILING_LEAST = 5
FAILING_SHARE = 0.95
BEHIND = timedelta(seconds=2)  # seconds younger than this are not counted in full yet
RECENT = timedelta(seconds=5)

BORN, STARTED, SUCCEEDED, FAILED, CANCELLED = "born", "running", "succeeded", "failed", "cancelled"
KINDS = (BORN, STARTED, SUCCEEDED, FAILED, CANCELLED)

LOST = "lost workers"  # no finding of the doctor's, since their work was taken over; but somebody may want to know

Second = tuple[str, datetime]


@dataclass(frozen=True)
class Depth:
    """How much of a queue waits and runs."""

    queue: str
    pending: int = 0
    ready: int = 0
    running: int = 0
    oldest: timedelta = timedelta(0)


@dataclass(frozen=True)
class Figures:
    """The last minutes of one tenant: a count for each second and kind, the newest last, and what lives."""

    at: datetime
    series: Mapping[str, Sequence[int]]
    depths: Sequence[Depth]
    workers: int  # alive, of all tenants
    paused: Mapping[str, datetime]  # queues, and since when

    def total(self, kind: str, seconds: int | None = None) -> int:
        """Return how many there were, in all or in the last seconds."""
        counted = self.series[kind]
        return sum(counted if seconds is None else counted[-seconds:])

    def rate(self, kind: str, seconds: int = 60) -> float:
        """Return how many there were in a second, of late."""
        return self.total(kind, seconds) / seconds

    def count(self, state: str) -> int:
        """Return how many tasks are in a live state."""
        return sum(getattr(each, state) for each in self.depths)

    @property
    def oldest(self) -> timedelta:
        """How long the oldest ready task has waited."""
        return max((each.oldest for each in self.depths), default=timedelta(0))

    @property
    def failing(self) -> bool:
        """Whether so many failed of late that somebody should look."""
        return self.total(FAILED) >= FAILING_LEAST and (self.success or 0.0) < FAILING_SHARE

    @property
    def success(self) -> float | None:
        """Which part of what ended by itself ended well."""
        well, badly = self.total(SUCCEEDED), self.total(FAILED)
        return well / (well + badly) if well + badly else None


@dataclass
class _Look:
    """What the last look found, of all tenants."""

    at: datetime
    upto: int
    next_upto: int
    workers: int
    counts: dict[Second, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    depths: Mapping[str, Sequence[Depth]] = field(default_factory=dict)
    paused: Sequence[tuple[str, str, datetime]] = ()


class Counting:
    """Looks at most once a second, for everybody."""

    def __init__(self, db: Database, *, interval: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        """Count what the pool's database holds; `interval` is the watchdog's, whose silence is an alarm."""
        self._db = db
        self._interval = interval
        self._last: _Look | None = None
        self._looks = Shared(self._look, every=EVERY, clock=clock)
        self._alarms = Shared(self._alarm, every=ALARMS_EVERY, clock=clock)

    async def of(self, tenant: str) -> Figures:
        """Return the figures of a tenant, a second old at most if looking is quick."""
        return _figures(await self._looks.get(), tenant)

    async def tenants(self) -> Sequence[str]:
        """Name tenants of whom there is something to see, so many at most: for operators. There may be others."""
        with spoken():
            async with self._db.session() as tx:
                rows = await db.many(tx, _TENANTS, reach=TENANTS_REACH, limit=TENANTS_MAX)
        return [row["tenant"] for row in rows]

    async def alarms(self, *, patience: float = PATIENCE) -> Sequence[Reading]:
        """Return what somebody should do something about, of all tenants: for operators.

        What takes longer than the patience is told to who asks next.
        """
        return await self._alarms.soon((), patience=patience)

    async def close(self) -> None:
        """Look no more."""
        await self._looks.close()
        await self._alarms.close()

    async def _look(self) -> _Look:
        with spoken():
            async with self._db.session() as tx:
                self._last = await _look(tx, self._last)
        return self._last

    async def _alarm(self) -> Sequence[Reading]:
        with spoken():
            async with self._db.session() as tx:
                return await _alarms(tx, interval=self._interval)


async def _look(tx: db.Tx, last: _Look | None) -> _Look:
    end = await db.one(tx, _END)
    assert end is not None
    now, end_id = end["now"], end["end_id"]
    after = max(last.upto if last else 0, end_id - BACKLOG)
    upto = last.next_upto if last and now - last.at < RECENT else end_id
    made = _Look(now, upto, end_id, end["workers"])
    if last is not None:
        oldest = now - SPAN
        made.counts.update({key: kinds for key, kinds in last.counts.items() if key[1] >= oldest})
    for row in await db.many(tx, _MOVED, after=after, upto=upto):
        if row["second"] < now - SPAN:
            continue
        of = made.counts[row["tenant"], row["second"]]
        of[BORN if row["born"] else row["state"]] += row["count"]
    made.paused = [(row["name"], row["tenant"], row["paused_at"]) for row in await db.many(tx, _PAUSED)]
    made.depths = _depths(await db.many(tx, _LIVE), now)
    return made


def _depths(rows: Sequence[db.Row], now: datetime) -> Mapping[str, Sequence[Depth]]:
    found: dict[tuple[str, str], dict[str, int | timedelta]] = defaultdict(dict)
    for row in rows:
        of = found[row["tenant"], row["queue"]]
        of[row["state"]] = row["count"]
        if row["state"] == "ready":
            of["oldest"] = max(timedelta(0), now - row["oldest_due_at"])
    by_tenant: dict[str, list[Depth]] = defaultdict(list)
    for (tenant, queue), counts in sorted(found.items()):
        by_tenant[tenant].append(Depth(queue, **counts))  # type: ignore[arg-type] # three numbers and a length of time
    return by_tenant


def _figures(look: _Look, tenant: str) -> Figures:
    length = int(SPAN.total_seconds())
    series = {kind: deque([0] * length) for kind in KINDS}
    paused = {name: since for name, whose, since in look.paused if whose in {EVERYBODY, tenant}}
    latest = (look.at - BEHIND).replace(microsecond=0)
    for (whose, second), kinds in look.counts.items():
        back = int((latest - second).total_seconds())
        if whose == tenant and 0 <= back < length:
            for kind in KINDS:
                series[kind][length - 1 - back] += kinds.get(kind, 0)
    return Figures(
        look.at, {kind: list(each) for kind, each in series.items()}, look.depths.get(tenant, ()), look.workers, paused
    )


async def _alarms(tx: db.Tx, *, interval: timedelta) -> Sequence[Reading]:
    # The doctor knows the wiring, which opens us.
    from ferryman.app.doctor import event_log, work
    from ferryman.app.doctor.report import BAD

    found = [
        *await work.alarms(tx, interval=interval),
        *await event_log.ids(tx),
        *await event_log.transactions(tx),
    ]
    return [each for each in found if each.verdict is BAD or each.name == LOST]
