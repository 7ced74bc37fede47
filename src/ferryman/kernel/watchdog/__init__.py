"""The watchdog: runs the rules that bring back or end what nobody else will (K9, K24, W20 to W23).

A rule is data beside its domain: what it finds, what it does, how often. The watchdog looks; what is found is acted on
through the domain's normal functions, as a set. Any number of watchdogs may run: a rule locks what it finds and skips
what is locked, or its act looks again under lock, so each finding is acted on once.

A look costs one statement, and all rules that are due share one transaction until one of them finds something; that one
acts and commits before the next rule looks. So an idle watchdog costs one transaction a sweep, and a rule that does
something has a transaction of its own. A full set is looked for again at once. Where looks are
slow a round lasts no longer than the time of the rule that looks most often; what was not reached is due still, and whoever
must look soonest comes first. So a lease that has ended does not wait for forty other rules.

After an outage, living workers renew their leases before any watchdog reaps. Each watchdog ticks in one row of the database. A
watchdog that finds a gap of three ticks gives a grace of one lease, and no rule reaps while the grace lasts. The gap is
judged by the interval of the watchdog that ticked last, or by its own if that is longer. The grace
belongs to the database: a watchdog that starts while it lasts keeps to it, and none follows until watchdogs have ticked
without a gap for a lease. After a machine was suspended, a watchdog cannot see the gap on its own clock. So a rule that reaps
and has found something checks the row first.

A watchdog looks for the first time within a tenth of each rule's period. Processes that live for a second only would
otherwise die before their first look, one after another, and nothing would be reaped.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from ferryman.kernel import db, locks, retry, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.timed import timed
from ferryman.kernel.watchdog.look import Ground, Look, OutOfTime
from ferryman.kernel.watchdog.rule import Outcome, Report, Rule, active, far_leases
from ferryman.kernel.watchdog.still import standing_still

__all__ = [
    "W16",
    "Ground",
    "OutOfTime",
    "Outcome",
    "Report",
    "Rule",
    "Watchdog",
    "active",
    "far_leases",
    "late",
    "standing_still",
    "tick",
]

log = telemetry.logger("watchdog")

INTERVAL = timedelta(seconds=5)
LEASE = timedelta(seconds=30)
SILENT_TICKS = 3  # ticks may fail or come late; so many in a row are an outage
LATE_INTERVALS = 2

# For the watchdog's own line: a statement that hangs on one finding fails by itself, inside the rule's time budget, so that
# the set can be halved.
SETTINGS = {"statement_timeout": "4s", "lock_timeout": locks.written(locks.SHORT)}
PATIENCE = timedelta(seconds=5)

AWAY = retry.Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), jitter=0.5)

# A rule that is nearly due comes along with those that are, so that idle looks share their transaction.
EARLY = 0.2

# The share of a rule's period within which the first look comes. Short, for processes that die young; not 0, for fleets.
FIRST = 0.1

_TICK = db.load("ferryman.kernel", "watchdog/tick")
_LATE = db.load("ferryman.kernel", "watchdog/late")
_OUTAGE = db.load("ferryman.kernel", "watchdog/outage")
_OVERDUE = db.load("ferryman.kernel", "watchdog/overdue")


async def tick(ground: Ground, rules: Iterable[Rule]) -> Report:
    """Run each rule now, whatever its time and whatever outage there was; a rule that fails as a whole raises."""
    looks = [Look(rule) for rule in rules]
    outcomes, failures = await _round(ground, looks)
    while again := [look for look in looks if look.again]:
        more, failed = await _round(ground, again)
        outcomes, failures = outcomes + more, failures + failed
    if failures:
        raise failures[0]
    return Report(tuple(outcomes))


async def late(tx: Tx, *, interval: timedelta = INTERVAL) -> timedelta | None:
    """Return how long no watchdog has ticked, if that is an alarm; 0 s where nobody has since the clock was set back."""
    row = await db.one(tx, _LATE, allowed=interval * LATE_INTERVALS)
    return None if row is None else row["silent"]


async def _round(
    ground: Ground,
    looks: Sequence[Look],
    *,
    silence: timedelta | None = None,
    live: Callable[[], Awaitable[None]] | None = None,
    silent: Callable[[], bool] = bool,
    enough: Callable[[], bool] = bool,
) -> tuple[list[Outcome], list[Exception]]:
    """Look with each in turn, until it is `enough`; those that find nothing share a transaction.

    With `silence` nothing is reaped when no watchdog has ticked for so long. When it is time to tick again (`silent`) the
    transaction ends and `live` ticks. Where a look fails, the transaction it shared is taken back: those that looked before
    it look again, without it.
    """
    waiting = list(looks)
    outcomes: list[Outcome] = []
    failures: list[Exception] = []
    while waiting and not ((outcomes or failures) and enough()):
        if live is not None and silent():
            await live()
        looked: list[tuple[Look, Outcome]] = []
        look: Look | None = None
        try:
            async with ground.transaction() as tx:
                while waiting:
                    look = waiting.pop(0)
                    looked.append((look, await look.go(tx, outage=partial(_outage, silence=silence))))
                    if looked[-1][1].found or silent() or enough():
                        break
        except Exception as error:
            if look is None:
                raise  # no transaction could be had: the database is away
            look.failed(error)
            failures.append(error)
            waiting = [each for each, _ in looked if each is not look] + waiting
        else:
            for each, outcome in looked:
                each.committed(outcome)
                outcomes.append(outcome)
    return outcomes, failures


async def _outage(tx: Tx, *, silence: timedelta | None) -> bool:
    return silence is not None and await db.one(tx, _OUTAGE, silence=silence) is not None


class Watchdog:
    """Run rules for ever, each in its own time."""

    def __init__(
        self,
        ground: Ground,
        rules: Iterable[Rule],
        *,
        interval: timedelta = INTERVAL,
        lease: timedelta = LEASE,
        settings: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the rules; `settings` (seconds by name) may switch some off."""
        self._clock = clock
        self._ground = ground
        self._looks = [Look(rule, clock) for rule in active(rules, settings or {})]
        self._slice = min((look.rule.every for look in self._looks), default=interval).total_seconds()
        self._interval = interval
        self._lease = lease
        self._tick_due = 0.0
        self._silence = min(interval * SILENT_TICKS, lease)
        self._grace_until = 0.0
        self._stopping = asyncio.Event()

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules that run."""
        return [look.rule for look in self._looks]

    @property
    def due(self) -> float:
        """When there is something to do again, by the clock given."""
        return min([self._tick_due, *(look.due for look in self._looks)])

    def stop(self) -> None:
        """Let the round in progress end, then return from `run`."""
        self._stopping.set()

    async def run(self) -> None:
        """Do rounds until told to stop; a database that went away is waited for."""
        self._spread()
        failures = 0
        while not self._stopping.is_set():
            try:
                await self.tick()
            except Exception as error:  # noqa: BLE001 - a watchdog does not die of what it meets
                failures += 1
                wait = AWAY.delay(failures).total_seconds()
                log.warning("the watchdog waits %.1f s: %s", wait, error, extra={"failures": failures})
            else:
                failures = 0
                wait = self.due - self._clock()
            await self._rest(wait)

    async def tick(self) -> Report:
        """Do one round: the rules that are due, or nearly."""
        if self._silent():
            await self._live()
        now = self._clock()
        soon = [look for look in self._looks if look.due <= now + self._early(look)]
        due = sorted(soon, key=lambda look: look.late)
        withheld = [look for look in due if look.rule.reaps and self._grace_until > now]
        for look in withheld:
            look.due = self._grace_until
            telemetry.withheld(look.rule.name)
        # A round may take long where the machine is busy. That is no outage: a watchdog that is at work ticks on, or each round
        # would be followed by a grace, and nothing would ever be reaped.
        outcomes, _told = await _round(
            self._ground,
            [look for look in due if look not in withheld],
            silence=self._silence,
            live=self._live,
            silent=self._silent,
            enough=lambda: self._clock() >= now + self._slice,
        )
        looked = {outcome.rule for outcome in outcomes}
        for look in [look for look in due if look.withheld and look.rule.name in looked and look not in withheld]:
            look.due = self._tick_due = now  # the tick that is missing, or the rest of the grace, comes first
            withheld.append(look)
        telemetry.ticked()
        return Report(tuple(outcomes), tuple(look.rule.name for look in withheld))

    def _spread(self) -> None:
        """Schedule the first look of each rule: soon, but not at the same moment in all workers that start together.

        Rules of one period stay together, and share their transactions.
        """
        now, share = self._clock(), random.uniform(0, FIRST)
        for look in self._looks:
            look.due = now + share * min(look.rule.every, self._interval).total_seconds()

    def _early(self, look: Look) -> float:
        return 0.0 if look.fresh else EARLY * min(look.rule.every, self._interval).total_seconds()

    def _silent(self) -> bool:
        """Say whether it is time to tick again."""
        return self._clock() >= self._tick_due

    async def _live(self) -> None:
        """Write that a watchdog lives, and read until when nothing may be reaped."""
        now = self._clock()
        row = await db.one(self._ground, _TICK, silence=self._silence, lease=self._lease)
        if row is None:
            raise LookupError("ferryman.watchdog has lost its row")
        self._grace_until = now + row["grace_seconds"]
        self._tick_due = now + self._silence.total_seconds() / SILENT_TICKS

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0:
            return
        try:
            await timed(self._stopping.wait(), seconds)
        except TimeoutError:
            return


async def _count_overdue(tx: Tx, _limit: int) -> Sequence[Any]:
    rows = await db.many(tx, _OVERDUE)
    telemetry.overdue((row["domain"], row["rule"], row["count"]) for row in rows)
    for row in rows:
        told = {"rule": row["rule"], "domain": row["domain"], "count": row["count"]}
        log.error(
            "%s of %s are past the time by which %s ends them", row["count"], row["domain"], row["rule"], extra=told
        )
    return ()


W16 = Rule(
    name="W16",
    finds="any row in a live state past the time by which its rule ends it",
    does="raises the alarm (a metric, a log line, a line of `doctor`): it is a defect of ours",
    setting="watchdog.overdue_seconds",
    every=timedelta(seconds=30),
    find=_count_overdue,
)
