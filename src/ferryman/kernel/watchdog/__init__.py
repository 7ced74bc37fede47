"""The watchdog: runs the rules that bring back or end what nobody else will (K9, K24, W20 to W23).

A rule is data beside its domain: what it finds, what it does, how often. The watchdog looks; what is found is acted on
through the domain's normal functions, as a set. Any number of watchdogs may run: a rule locks what it finds and skips
what is locked, or its act looks again under lock, so each finding is acted on once.

A look costs one statement, and all rules that are due share one transaction until one of them finds something; that one
acts and commits before the next rule looks. So an idle watchdog costs one transaction a sweep, and a rule that does
something has a transaction of its own. A full set is looked for again at once. Where looks are
slow a round lasts no longer than the time of the rule that looks most often; what was not reached is due still, and whoever
must look soonest comes first. So a lease that has ended does not wait for forty other rules.

After an outage living workers must be heard before their leases are judged: when no watchdog has ticked for three intervals, or
for a lease, by a time kept in the database, the rules that reap are withheld for one lease; after a quarter of the shortest
lease in force they are for a third of one, once in a lease. A tick also asks whether the leases of each domain can be written:
where a table is locked nobody can renew, and the rules of that domain are withheld alike. A machine that was suspended wakes up
with its own clock where it stood, so it cannot know: before anything that was found is reaped, the database is asked.
The database's clock may be set, too: a tick that lies ahead of it says as little as one of long ago, and a grace that lies
further ahead than one that is given now is shortened. Whatever a clock does, nothing is withheld for more than one lease after.
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
SILENT_INTERVALS = 3  # ticks may fail, or come late, before nobody counts as watching
# No outage that goes unnoticed may end a lease: a half of it is left when the database goes away, and a twelfth passes before
# its holder is back (kernel/keeper.py).
SILENT_SHARE = 1 / 4
LATE_INTERVALS = 2

# For the watchdog's own line: a statement that hangs on one finding fails by itself, inside the rule's time budget, so that
# the set can be halved.
SETTINGS = {"statement_timeout": "4s", "lock_timeout": locks.written(locks.SHORT)}
PATIENCE = timedelta(seconds=5)

AWAY = retry.Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), jitter=0.5)

# A rule that is nearly due comes along with those that are, so that idle looks share their transaction.
EARLY = 0.2

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


async def _outage(tx: Tx, domain: str, *, silence: timedelta | None) -> bool:
    return silence is not None and await db.one(tx, _OUTAGE, silence=silence, domain=domain) is not None


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
        # Of its own lease; the database knows of shorter ones.
        self._silence = min(interval * SILENT_INTERVALS, lease * SILENT_SHARE)
        self._outage = min(interval * SILENT_INTERVALS, lease)
        self._grace_until: dict[str, float] = {}  # by domain
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
        withheld = [look for look in due if self._graced(look) > now]
        for look in withheld:
            look.due = self._graced(look)
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
        """Let the first looks come in the second half of their first period, at most of an interval.

        Many workers that start together would else ask everything at the same moment, just when they have other things to do.
        Rules of one period stay together, and share their transactions.
        """
        now, share = self._clock(), random.uniform(0.5, 1.0)
        for look in self._looks:
            look.due = now + share * min(look.rule.every, self._interval).total_seconds()

    def _early(self, look: Look) -> float:
        return EARLY * min(look.rule.every, self._interval).total_seconds()

    def _graced(self, look: Look) -> float:
        """Return until when a rule must not reap; never, if it does not."""
        return 0.0 if look.rule.reaps is None else self._grace_until.get(look.rule.reaps, 0.0)

    def _silent(self) -> bool:
        """Say whether it is time to tick again."""
        return self._clock() >= self._tick_due

    async def _live(self) -> None:
        """Say in the database that a watchdog lives, and learn of an outage before anything is reaped."""
        now = self._clock()
        rows = await db.many(self._ground, _TICK, silence=self._silence, outage=self._outage, lease=self._lease)
        if not rows:
            raise LookupError("ferryman.watchdog has lost its row")
        pause = rows[0]["silence_seconds"] / SILENT_INTERVALS
        # Where leases cannot be written now there is nothing to judge before the next tick has asked again.
        self._grace_until = {
            row["domain"]: now + (row["grace_seconds"] if row["reached"] else max(pause, row["grace_seconds"]))
            for row in rows
        }
        self._tick_due = now + pause

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
