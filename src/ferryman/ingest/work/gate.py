"""The gate before a source: who may ask it now, over all executors together (I9).

The rate is one row of the database. A process leases slots from it in small lots and hands them out without a round trip. A
lot begins with one slot and doubles as long as all are used, up to what a second allows; slots that were lost make it
smaller. So who asks much has much, and who asks little holds back as little.

What became of requests is told with the next lease. Bad news is told at once, beside the caller's way, and the slots that
this process holds are dropped: they were leased at a rate that is over. Other processes hear of it with their next lease, two
seconds later at most. A request halves the rate only if it began after the last halving that this process knows of: a
hundred refusals of one moment are one piece of news.

That a quota comes to its end is told at once too, less the slots that this process holds: those are kept while the quota
bears them. They are counted as spent, and a small quota would go with them: leased whole, used once and dropped.

Who is away does no harm: slots are moments, and pass. Only what was told last may be lost with a process, and is told again
by the next refusal.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ferryman.ingest.ports import Allow, Answer, Decision, GateKey, Reject, WaitUntil
from ferryman.ingest.rules import limits, pace
from ferryman.ingest.rules.pace import Pace
from ferryman.ingest.store import gates
from ferryman.ingest.store.gates import Leased, News
from ferryman.ingest.work.lot import Lot
from ferryman.kernel import errors, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Line

log = telemetry.logger("ingest.gate")

ALLOW = Allow()
NO_NEWS = News()
SIZE_MAX = 1000
# A gate that is closed for long is looked at now and then: what is agreed may have changed.
LOOK_SECONDS = 5.0


class Standing:
    """How one process stands with one gate."""

    def __init__(self, key: GateKey, agreed: Pace) -> None:
        """Know nothing yet."""
        self.name = (key.source, key.endpoint, key.credential)
        self.pace = agreed
        self.rate = agreed.top
        self.halvings = 0
        self.knows_since = 0.0
        self.lots: deque[Lot] = deque()
        self.size = 1
        self.news = NO_NEWS
        self.opens = 0.0
        self.look = 0.0
        self.spent_until: datetime | None = None
        self.every = 0.0
        self.clock = (datetime.now(UTC), 0.0)
        self.turn = asyncio.Lock()

    def decide(self, now: float) -> Decision | None:
        """Answer from what is at hand; None: ask the database."""
        lots = self.lots
        while lots:
            if lots[0].take(now):
                return ALLOW
            if not lots[0].over:
                break
            if lots.popleft().wasted:
                self.size = max(1, self.size // 2)
        for lot in lots:
            at = lot.name(now)
            if at is not None:
                return WaitUntil(self.moment(at))
        return None if now >= self.look or now >= self.opens else self.closed(now)

    def closed(self, now: float) -> Decision:
        """Answer that no slot is free before the time that the database told."""
        at = self.moment(self.opens)
        if self.opens - now > self.pace.patience.total_seconds():
            return Reject(f"The gate is closed until {at:%Y-%m-%d %H:%M:%S}Z.", until=at)
        return WaitUntil(at)

    def moment(self, at: float) -> datetime:
        """Return the database's time for one of this process's."""
        told, then = self.clock
        return told + timedelta(seconds=at - then)

    def hear(self, answer: Answer, *, began: float, now: float) -> bool:
        """Add an answer to the news; tell whether others must hear of it at once."""
        wall = datetime.now(UTC)
        quota = limits.quota(answer.headers, now=wall) if answer.headers else None
        wait = answer.retry_after
        # Some sources refuse who comes too often with a 403: the time to come back tells it from one who may not come at all.
        slow = pace.is_slow(answer.status) or wait is not None
        if slow and wait is None:
            wait = limits.retry_after(answer.headers, now=wall)
        before = self.news
        self.news = News(
            good=before.good + pace.is_good(answer.status),
            bad=before.bad + slow,
            gain=0.0 if slow else before.gain + (pace.gain(self.pace, self.rate) if pace.is_good(answer.status) else 0),
            slow=before.slow or (slow and began >= self.knows_since),
            closed_for=max(filter(None, (before.closed_for, wait)), default=None),
            quota=quota or before.quota,
            status=answer.status if answer.status is not None else before.status,
        )
        if slow or (quota is not None and quota.left < self.held(now)):
            self.lots.clear()
            self.opens = self.look = 0.0
        return slow or (quota is not None and quota.left <= self.size)

    def held(self, now: float) -> int:
        """Count the slots that are leased and still to come."""
        return sum(lot.unused(now) for lot in self.lots)

    def lease(self, leased: Leased, *, wish: int, now: float) -> None:
        """Take what the database answered."""
        self.clock = (leased.now, now)
        if leased.halvings != self.halvings:
            self.knows_since = now
            self.halvings = leased.halvings
        self.rate = leased.rate
        self.every = leased.every_seconds
        first = now + (leased.first_at - leased.now).total_seconds()
        if leased.slots:
            self.lots.append(Lot(first, leased.every_seconds, leased.slots, begun=now))
            self.spent_until = leased.spent_until
            self.size = min(SIZE_MAX, 2 * wish if leased.slots == wish else max(wish, 1))
        self.opens = 0.0 if leased.slots else first
        self.look = now + LOOK_SECONDS


class SharedGate:
    """The gates of all sources, as one process passes them."""

    def __init__(
        self, tx: Tx, agreed: Callable[[GateKey], Pace], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Lease over `tx`, a line of its own on which each statement commits itself; `agreed` gives the best pace of a gate."""
        self._tx = tx
        self._agreed = agreed
        self._clock = clock
        self._known: dict[GateKey, Standing] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def acquire(self, key: GateKey) -> Decision:
        """Ask for one request."""
        standing = self._known.get(key)
        if standing is None:
            standing = self._known[key] = Standing(key, self._agreed(key))
            async with standing.turn:
                await gates.declare(self._tx, standing.name, standing.pace)
        decision = standing.decide(self._clock())
        if decision is not None:
            return decision
        async with standing.turn:
            # Whoever had the turn before may have brought enough for us all.
            decision = standing.decide(self._clock())
            if decision is None:
                await self._ask(standing, wish=standing.size)
                decision = standing.decide(self._clock())
        return standing.closed(self._clock()) if decision is None else decision

    def told(self, key: GateKey, answer: Answer) -> None:
        """Hear what became of a request; never waits."""
        standing = self._known.get(key)
        if standing is None:
            standing = self._known[key] = Standing(key, self._agreed(key))
        now = self._clock()
        if standing.hear(answer, began=now - answer.latency.total_seconds(), now=now):
            telling = asyncio.get_running_loop().create_task(self._tell(standing))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    def pace_at(self, key: GateKey) -> float | None:
        """Return the rate at which this process leases now; None before its first request."""
        standing = self._known.get(key)
        return None if standing is None else standing.rate

    async def in_force(self, key: GateKey) -> float | None:
        """Return the requests a second that are allowed now, over all executors; None before the first of them."""
        return await gates.rate(self._tx, (key.source, key.endpoint, key.credential))

    async def settle(self) -> None:
        """Wait until what was told is stored."""
        await asyncio.gather(*self._telling)

    async def close(self) -> None:
        """Tell what is left to tell, and give back what nobody will use."""
        await self.settle()
        for standing in self._known.values():
            async with standing.turn:
                if standing.news != NO_NEWS:
                    await self._ask(standing, wish=0)
                unused = standing.held(self._clock())
                standing.lots.clear()
                if unused and standing.spent_until is not None:
                    back = timedelta(seconds=unused * standing.every)
                    ends = standing.spent_until
                    await gates.give_back(self._tx, standing.name, unused_from=ends - back, spent_until=ends)
        if isinstance(self._tx, Line):
            await self._tx.close()

    async def _tell(self, standing: Standing) -> None:
        """Store bad news; while the database is away it is kept, and told with the next lease."""
        async with standing.turn:
            if standing.news == NO_NEWS:
                return
            try:
                await self._ask(standing, wish=0)
            except errors.DatabaseUnavailable as error:
                log.debug("could not tell a gate", exc_info=error)

    async def _ask(self, standing: Standing, *, wish: int) -> None:
        news, standing.news = standing.news, NO_NEWS
        told = news.less(standing.held(self._clock()))
        try:
            leased = await gates.pass_through(self._tx, standing.name, wish=wish, news=told, halvings=standing.halvings)
            if leased is None:
                await gates.declare(self._tx, standing.name, standing.pace)
                leased = await gates.pass_through(
                    self._tx, standing.name, wish=wish, news=told, halvings=standing.halvings
                )
        except BaseException:
            standing.news = merge(news, standing.news)
            raise
        if leased is not None:
            standing.lease(leased, wish=wish, now=self._clock())


def merge(older: News, newer: News) -> News:
    """Return two pieces of news as one."""
    return News(
        good=older.good + newer.good,
        bad=older.bad + newer.bad,
        gain=0.0 if newer.slow else older.gain + newer.gain,
        slow=older.slow or newer.slow,
        closed_for=max(filter(None, (older.closed_for, newer.closed_for)), default=None),
        quota=newer.quota or older.quota,
        status=newer.status if newer.status is not None else older.status,
    )
