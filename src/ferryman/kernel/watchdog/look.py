"""One look of one rule: find, act as a set, leave the bad ones aside.

A set that fails is halved, in savepoints, until the bad findings are alone. They are told, counted and left alone for a
while, and the next look reaches as far beyond them, so that they cannot fill it. A set that uses up its time is taken back
as a whole and tried at half its size; where it is halved and half of the time is over, what was done is kept, and the rest is
left to the next look.

What somebody else holds is not bad, but busy: an act that waits for a lock fails soon, and an act that passes over what is
locked leaves it as it was, so that a full set meets it again. Both are left alone for a moment, and looks reach beyond them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Protocol

from ferryman.kernel import errors, faults, locks, outage, retry, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.watchdog.rule import Outcome, Rule

log = telemetry.logger("watchdog")

# Of a rule's time: how long after what it knows to come the next look is. At least so much, so that what comes together, one
# after another, is found together.
SOON = (0.1, 0.5)

ASIDE = retry.Backoff(base=timedelta(seconds=5), cap=timedelta(minutes=5))
# What is busy is free again when somebody commits, as a rule in milliseconds.
BUSY = retry.Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=5))


class Ground(Tx, Protocol):
    """What the watchdog stands on: a line of its own, or a test's transaction."""

    def transaction(self) -> AbstractAsyncContextManager[Ground]:
        """Open a transaction, or a savepoint inside one."""


class OutOfTime(Exception):
    """A rule used up its time budget, or what a statement may take; what it did in this transaction is taken back."""

    def __init__(self, said: str, *, tried: int | None = None) -> None:
        """Say how much was tried, where looking and acting are one."""
        super().__init__(said)
        self.tried = tried


class Look:
    """One rule, and what is remembered of it between looks."""

    def __init__(self, rule: Rule, clock: Callable[[], float] = time.monotonic) -> None:
        self.rule = rule
        self._clock = clock
        self.due = clock()
        self.fresh = True  # has not looked yet
        self._room = rule.limit
        self._aside: dict[Hashable, tuple[int, float]] = {}  # how often it failed, until when it is left alone
        self._looked: Sequence[Any] = ()
        self._full = False
        self.again = False
        self.withheld = False  # because of an outage that only the database knew of
        self._done: list[Any] = []
        self._spoiled: list[tuple[Hashable, Exception]] = []
        self._busy: list[Hashable] = []
        self._left = False  # some of it to the next look, for want of time
        self._met: frozenset[Hashable] = frozenset()  # in a full set of which not everything was helped

    @property
    def late(self) -> float:
        """When it will have left out a whole look."""
        return self.due + self.rule.every.total_seconds()

    async def go(self, tx: Ground, *, outage: Callable[[Tx], Awaitable[bool]]) -> Outcome:
        """Find and act, in a transaction that the caller commits; a rule that reaps asks first whether there was an outage."""
        self._let_go()
        self._full = self._left = self.withheld = False
        reach = self._room + len(self._aside)
        try:
            async with asyncio.timeout(self.rule.budget.total_seconds()):
                self._looked = await self.rule.find(tx, reach)
                self._full = len(self._looked) >= reach
                self._forget_gone()
                self._pass_over_met()
                if not self._looked:
                    return Outcome(self.rule.name)
                if self.rule.reaps and await outage(tx):
                    self.withheld = True
                    telemetry.withheld(self.rule.name)
                    return Outcome(self.rule.name)
                await faults.apoint("watchdog.found")
                acted = await self._act(tx, [each for each in self._looked if self._fit(each)])
                await faults.apoint("watchdog.acted")
        except TimeoutError:
            raise OutOfTime(f"{self.rule.name} used up its {self.rule.budget.total_seconds():g} s") from None
        return Outcome(self.rule.name, len(self._looked), acted, len(self._spoiled))

    async def _act(self, tx: Ground, findings: Sequence[Any]) -> int:
        acted = 0
        # What was left alone before is tried apart from the rest, and after it.
        fresh = [each for each in findings if self.rule.key(each) not in self._aside]
        known = [each for each in findings if self.rule.key(each) in self._aside]
        parts = [part for part in (known, fresh) if part]
        enough = time.monotonic() + self.rule.budget.total_seconds() / 2
        while parts and not self._left:
            part = parts.pop()
            try:
                async with tx.transaction():
                    acted += await self.rule.act(tx, part)
            except Exception as error:  # noqa: BLE001 - halved until the one bad finding stands alone
                # Fails if the connection is gone, which is no finding's fault.
                await locks.hurry(tx, locks.PART)
                half = len(part) // 2
                if half:
                    parts += [part[half:], part[:half]]
                elif outage.locked(error):
                    self._busy.append(self.rule.key(part[0]))
                else:
                    self._spoiled.append((self.rule.key(part[0]), error))
            else:
                self._done.extend(part)
            # Without anything to keep, the set is taken back and tried at half its size.
            got_on = self._done or self._busy or self._spoiled
            self._left = bool(parts and got_on and time.monotonic() >= enough)
        return acted

    def committed(self, outcome: Outcome) -> None:
        """Tell of a look whose transaction has committed."""
        self.fresh = False
        telemetry.acted(self.rule.name, outcome.acted)
        for key, error in self._spoiled:
            self._put_aside(key, error)
        for key in self._busy:
            self._pass_over(key)
        helped_all = not self.rule.acts or outcome.acted >= len(self._done)
        self._met = frozenset() if helped_all or not self._full else frozenset(map(self.rule.key, self._done))
        if self._done and self.rule.after is not None:
            self.rule.after(self._done)
        self._let_go()
        self._room = min(self.rule.limit, self._room * 2)
        # Without progress a full set would be found again and again: somebody else holds it, or all of it is bad.
        self.again = self._left or (self._full and outcome.acted > 0)
        self.due = self._clock() + (0 if self.again else self._pause())

    def _pause(self) -> float:
        """Return when to look again: after the rule's time, or soon after what it knows to come.

        A part of its time is left to chance. All watchdogs know of the same, and one of them is enough.
        """
        every = self.rule.every.total_seconds()
        soon = None if self.rule.soon is None else self.rule.soon()
        return every if soon is None else min(every, soon + every * random.uniform(*SOON))

    def failed(self, error: Exception) -> None:
        """Tell of a look that was taken back as a whole; the next one is smaller if time was the matter."""
        self.again = self.fresh = False
        self.due = self._clock() + self.rule.every.total_seconds()
        fit = [each for each in self._looked if self._fit(each)]
        self._let_go()
        if isinstance(error, OutOfTime) and len(fit) == 1:
            self._put_aside(self.rule.key(fit[0]), error)
            return
        if isinstance(error, OutOfTime):
            self._room = max(1, min(self._room, error.tried or len(fit) or self._room) // 2)
        away = isinstance(error, errors.DatabaseUnavailable) and outage.of_all(error)
        too_much = isinstance(error, OutOfTime) and error.tried is not None
        if away or too_much or outage.locked(error):
            # No fault of the rule's: the database is away, somebody holds what is looked at, or less is looked at from now on;
            # the next look comes in time.
            log.warning("the rule %s cannot look now: %s", self.rule.name, error, extra={"rule": self.rule.name})
            return
        outage.tell(error)
        telemetry.spoiled(self.rule.name)
        log.error("the rule %s failed: %s", self.rule.name, error, exc_info=error, extra={"rule": self.rule.name})

    def _let_go(self) -> None:
        """Hold no rows until the next look, which may be an hour away."""
        self._looked, self._done, self._spoiled, self._busy = (), [], [], []

    def _fit(self, finding: Any) -> bool:
        _tries, until = self._aside.get(self.rule.key(finding), (0, 0.0))
        return self._clock() >= until

    def _put_aside(self, key: Hashable, error: Exception) -> None:
        tries = self._aside.get(key, (0, 0.0))[0] + 1
        self._aside[key] = (tries, self._clock() + ASIDE.delay(tries).total_seconds())
        telemetry.spoiled(self.rule.name)
        told = {"rule": self.rule.name, "finding": str(key)}
        log.error("the rule %s could not act on %s", self.rule.name, key, exc_info=error, extra=told)

    def _pass_over(self, key: Hashable) -> None:
        """Leave alone for a moment what somebody else holds, and look beyond it."""
        tries = self._aside.get(key, (0, 0.0))[0] + 1
        self._aside[key] = (tries, self._clock() + BUSY.delay(tries).total_seconds())

    def _pass_over_met(self) -> None:
        """What a full set held before, and is found again, was not helped by acting on it: others wait behind it."""
        for key in self._met.intersection(map(self.rule.key, self._looked)):
            self._pass_over(key)
        self._met = frozenset()

    def _forget_gone(self) -> None:
        """What a look that saw everything did not find has been helped by somebody else."""
        if self._aside and not self._full:
            seen = {self.rule.key(each) for each in self._looked}
            self._aside = {key: value for key, value in self._aside.items() if key in seen}
