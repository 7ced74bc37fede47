"""The pump: claim in sets, run bounded, settle in sets, hand back at the end.

A lane is one connection that makes turns: a turn settles what has finished since the last one and claims as much as there is
room for, in one statement (the domain's `turn`). Nothing waits for a timer: the first outcome is settled at once, and what
finishes while that turn is under way goes with the next; so a lonely task has its latency and a crowd its throughput. A second
lane lets PostgreSQL and Python work at the same time.

The pump looks when it is rung, when a turn came back full, when something finished, and every poll interval in any case; it
never depends on a ring. Leases are renewed elsewhere (kernel/keeper.py), on a thread and a connection of their own, because a
handler can block this event loop.

When the database goes away, outcomes are kept and sent again with backoff; their fence makes the repeat harmless. A turn
whose answer never came may have claimed tasks that nobody here knows of. So after a failure turns go one at a time until
one succeeds, and that one is followed by `reclaim`, which hands back what is leased to this worker and not held by it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from ferryman.kernel import errors, faults, retry
from ferryman.kernel.pool import Line

log = logging.getLogger("ferryman.pump")

# Many workers come back after one outage: half of the delay is chance, so that they do not come at one moment.
RECONNECT = retry.Backoff(base=timedelta(milliseconds=100), factor=2.0, cap=timedelta(seconds=2), jitter=0.5)

POLL_LEAST = 0.05


class Held(Protocol):
    """What the pump must know of a claimed thing."""

    @property
    def id(self) -> UUID:
        """Its key."""

    @property
    def epoch(self) -> int:
        """The fence of this claim."""


Item = TypeVar("Item", bound=Held)
Outcome = TypeVar("Outcome")


class Crew(Protocol[Item, Outcome]):
    """What a domain does for the pump."""

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> tuple[Sequence[Item], bool]:
        """Settle these outcomes and claim up to `room`; tell also whether there is more to claim."""

    async def run(self, item: Item) -> Outcome | None:
        """Do the work; every way it can end is an outcome, or None when the claim was lost meanwhile."""

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int:
        """Hand back what is leased to this worker but not held by it."""

    def doubt(self) -> None:
        """Trust nothing that was heard: the next turn finds out by itself where there is something to claim."""

    def hand_back(self, item: Item) -> Outcome:
        """Say that the work was not done here and uses no attempt."""

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Replace an outcome that cannot be settled; None when even its replacement could not."""


class Holding(Generic[Item]):
    """One claimed thing while it runs."""

    __slots__ = ("item", "renewed", "task")

    def __init__(self, item: Item) -> None:
        """Remember when its lease began, by this process's own steady clock."""
        self.item = item
        self.renewed = time.monotonic()
        self.task: asyncio.Task[None] | None = None


class Pump(Generic[Item, Outcome]):
    """Keep a bounded number of claimed things running."""

    def __init__(
        self, crew: Crew[Item, Outcome], lines: Sequence[Line], *, concurrency: int, claim_max: int, poll: float
    ) -> None:
        """Take one line per lane."""
        self._crew = crew
        self._idle = list(lines)
        self._lanes = len(self._idle)
        self._concurrency = concurrency
        self._claim_max = claim_max
        self._poll = poll
        self.held: dict[UUID, Holding[Item]] = {}
        self._outcomes: list[Outcome] = []
        self._reserved = 0
        self._look = True
        self._doubted = time.monotonic()
        self._pause = POLL_LEAST
        self._wake = asyncio.Event()
        self._stopping = False
        self._lost_sight = False
        self._failures = 0
        self._turns: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Somebody rang: there may be something to claim."""
        self._look = True
        self._wake.set()

    def abort(self, ids: Collection[UUID]) -> None:
        """Cancel the handlers of claims that are no longer ours."""
        for id in ids:
            holding = self.held.get(id)
            if holding is not None and holding.task is not None:
                holding.task.cancel("lease lost")

    async def run(self) -> None:
        """Pump until stopped and empty."""
        while not self._done():
            self._begin_turns()
            if not self._wake.is_set():
                await self._rest()
            self._wake.clear()
            if time.monotonic() - self._doubted >= self._pause:
                self._doubt()

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), self._pause)
        except TimeoutError:
            return

    def _doubt(self) -> None:
        """Look without having been rung: soon after something was found, ever less often while nothing is."""
        self._doubted = time.monotonic()
        self._pause = min(self._poll, self._pause * 2)
        self._crew.doubt()
        self._look = True

    def _done(self) -> bool:
        return self._stopping and not (self.held or self._outcomes or self._turns)

    async def stop(self, grace: float) -> int:
        """Stop claiming, let running work finish within the grace period, hand back the rest at once; say how many."""
        faults.point("drain.begun")
        self._stopping = True
        self._wake.set()
        running = [holding.task for holding in self.held.values() if holding.task is not None]
        if running:
            await asyncio.wait(running, timeout=grace)
        rest = list(self.held.values())
        for holding in rest:
            if holding.task is not None:
                holding.task.cancel("handed back")
            self.held.pop(holding.item.id, None)
            self._outcomes.append(self._crew.hand_back(holding.item))
        self._wake.set()
        return len(rest)

    def _begin_turns(self) -> None:
        while self._idle and (self._outcomes or self._wants_more()) and not (self._lost_sight and self._turns):
            outcomes, self._outcomes = self._outcomes, []
            room = self._room()
            self._look = False
            self._reserved += room
            turn = asyncio.get_running_loop().create_task(self._turn(self._idle.pop(), outcomes, room))
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)

    def _room(self) -> int:
        if self._stopping:
            return 0
        return max(0, min(self._claim_max, self._concurrency - len(self.held) - self._reserved))

    def _wants_more(self) -> bool:
        return self._look and self._room() > 0

    async def _turn(self, line: Line, outcomes: list[Outcome], room: int) -> None:
        try:
            faults.point("settle.before" if outcomes else "claim.sent")
            items, more = await self._crew.turn(line, outcomes, room)
            outcomes = []
            faults.point("claim.committed")
            if items:
                self._pause = POLL_LEAST
            for item in items:
                if self._stopping:
                    self._outcomes.append(self._crew.hand_back(item))
                else:
                    self._start(item)
            if more:
                self._look = True
            await self._after_success(line)
        except errors.FerrymanError as error:
            await self._after_failure(line, outcomes, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the set must not be lost with it
            await self._after_refusal(line, outcomes, error)
        finally:
            self._reserved -= room
            self._idle.append(line)
            self._wake.set()

    async def _after_success(self, line: Line) -> None:
        self._failures = 0
        if self._lost_sight:
            handed_back = await self._crew.reclaim(line, set(self.held))
            self._lost_sight = False
            log.info("the database is back", extra={"handed_back": handed_back})

    async def _after_failure(self, line: Line, outcomes: list[Outcome], error: errors.FerrymanError) -> None:
        """Keep the outcomes and come back later, each lane on its own."""
        if not error.retryable and not isinstance(error, errors.DatabaseNotMigrated):
            await self._after_refusal(line, outcomes, error)
            return
        self._outcomes[:0] = outcomes
        self._lost_sight = True
        self._look = True
        self._failures += 1
        if self._failures == 1:
            log.warning("the database cannot be used; coming back", extra={"code": error.code, "reason": error.message})
        await asyncio.sleep(RECONNECT.delay(self._failures).total_seconds())

    async def _after_refusal(self, line: Line, outcomes: list[Outcome], error: Exception) -> None:
        """Find the outcome that PostgreSQL refuses by halving the set; the others are settled (K25)."""
        self._look = True
        if not outcomes:
            log.error("claiming failed", exc_info=error)
            self._failures += 1
            await asyncio.sleep(RECONNECT.delay(self._failures).total_seconds())
            return
        if len(outcomes) == 1:
            spoiled = self._crew.spoil(outcomes[0], error)
            log.error("an outcome could not be settled", exc_info=error)
            if spoiled is not None:
                self._outcomes.append(spoiled)
            return
        half = len(outcomes) // 2
        for part in (outcomes[:half], outcomes[half:]):
            try:
                await self._crew.turn(line, part, 0)
            except errors.FerrymanError as again:
                await self._after_failure(line, part, again)
            except Exception as again:  # noqa: BLE001 - halved further
                await self._after_refusal(line, part, again)

    def _start(self, item: Item) -> None:
        holding = Holding(item)
        self.held[item.id] = holding
        holding.task = asyncio.get_running_loop().create_task(self._work(holding))

    async def _work(self, holding: Holding[Item]) -> None:
        item = holding.item
        outcome = await self._crew.run(item)
        # Handed back, or claimed anew, while the handler was still ending: this claim has had its outcome.
        if self.held.get(item.id) is holding:
            del self.held[item.id]
            if outcome is not None:
                self._outcomes.append(outcome)
            self._wake.set()
