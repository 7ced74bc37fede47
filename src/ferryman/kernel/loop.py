"""The pump: claim in sets, run bounded, settle in sets, hand back at the end.

A lane is one connection that makes turns: a turn settles what has finished since the last one and claims as much as there is
room for, in one statement (the domain's `turn`). Nothing waits for a timer: the first outcome is settled at once, and what
finishes while that turn is under way goes with the next; so a lonely task has its latency and a crowd its throughput. A second
lane lets PostgreSQL and Python work at the same time.

The pump looks when it is rung, when a turn came back full, when something finished, and every poll interval in any case; it
never depends on a ring. Leases are renewed elsewhere (kernel/keeper.py), on a thread and a connection of their own, because a
handler can block this event loop.

A claim is held, and its lease renewed, until its outcome is stored. When the database is away, outcomes are kept and sent again
in smaller sets: at once by a lane that may have a connection, then with backoff; their fence makes the repeat harmless. If a
statement is broken off, the next claim is half as large. A turn without an answer may have claimed tasks that this worker does
not know: `reclaim` hands them back later (kernel/sight.py). A claim whose answer comes after its lease is handed back as well.
An outcome that can never be stored is let go: its lease ends that claim and uses an attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Collection, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Generic
from uuid import UUID

from ferryman.kernel import errors, faults, outage, retry, telemetry
from ferryman.kernel.crew import Crew, Item, Outcome, Turned
from ferryman.kernel.hold import Hold, Holding
from ferryman.kernel.pool import Line
from ferryman.kernel.sight import Sight
from ferryman.kernel.straggler import Stragglers
from ferryman.kernel.timed import timed

log = logging.getLogger("ferryman.pump")

# Many workers come back after one outage: half of the delay is chance, so that they do not come at one moment.
RECONNECT = retry.Backoff(base=timedelta(milliseconds=100), factor=2.0, cap=timedelta(seconds=2), jitter=0.5)
POLL_LEAST = 0.05
# Somebody else is writing the row, or one that must be written with it. That is over in a moment, as a rule (two children of
# one parent end at once); where somebody left a transaction open there is no use in asking again and again.
BUSY = retry.Backoff(base=timedelta(milliseconds=5), factor=1.5, cap=timedelta(milliseconds=100), jitter=0.5)
MOST = 10_000  # outcomes at a time; fewer once some did not come through: together they may be too large


class Pump(Generic[Item, Outcome]):
    """Keep a bounded number of claimed things running."""

    def __init__(
        self,
        crew: Crew[Item, Outcome],
        lines: Sequence[Line],
        *,
        domain: str,
        concurrency: int,
        claim_max: int,
        poll: float,
        lease: timedelta,
    ) -> None:
        """Take one line per lane; the domain is named in metrics."""
        self._crew = crew
        self._lease = lease.total_seconds()
        self.domain = domain
        self._idle = list(lines)
        self._lanes = len(self._idle)
        self._concurrency = concurrency
        # No lane takes more than its share, so that one set can run while the next is claimed.
        self._claim_max = min(claim_max, max(1, concurrency // max(1, self._lanes)))
        self._poll = poll
        self._hold: Hold[Item] = Hold()
        self.held = self._hold.held
        self._outcomes: list[Outcome] = []
        self._stragglers: Stragglers[Outcome] = Stragglers(self._rouse)
        self._most, self._reach = MOST, self._claim_max
        self._reserved = self._failures = 0
        self._look = True
        self._pause = POLL_LEAST
        self._ended = asyncio.Event()
        self._roused = self._stopping = self._closed = False
        self._sight = Sight()
        self._resting = 0  # lanes that wait before they try again
        self._turns: set[asyncio.Task[None]] = set()
        # Whoever rings may stand in a handler's context: turns, and what they start, must not inherit it.
        self._context = contextvars.copy_context()

    def look(self) -> None:
        """Somebody rang: there may be something to claim."""
        self._look = True
        self._rouse()

    def abort(self, ids: Collection[UUID]) -> None:
        """Cancel the handlers of claims that are no longer ours, and drop the outcomes that were put apart."""
        self._lose([self.held[id] for id in ids if id in self.held])
        dropped = self._stragglers.give_up(ids)
        for each in dropped:
            if (holding := self._hold.find(each.id, each.epoch)) is not None and not holding.running:
                self._hold.drop(holding)
        if dropped:  # counted here, as no statement will find them stale (R2)
            log.warning("leases lost before their outcomes were stored", extra={"outcomes": len(dropped)})
            self._crew.lost(len(dropped))

    def _lose(self, holdings: Collection[Holding[Item]]) -> None:
        running = [each for each in holdings if each.running]
        for holding in running:
            assert holding.task is not None
            holding.task.cancel("lease lost")
        if running:
            self._crew.lost(len(running))

    async def run(self) -> None:
        """Pump until stopped and empty."""
        self._rouse()
        while not self._ended.is_set():
            try:
                await timed(self._ended.wait(), self._pause)
            except TimeoutError:
                self._doubt()

    def _rouse(self) -> None:
        """Begin turns when whatever is running now has had its say: what finishes together is settled together."""
        if not self._roused:
            self._roused = True
            asyncio.get_running_loop().call_soon(self._go, context=self._context)

    def _go(self) -> None:
        self._roused = False
        telemetry.in_flight(self.domain, self._hold.running)
        self._begin_turns()
        if self._done():
            self._ended.set()

    def _doubt(self) -> None:
        """Look without having been rung: soon after something was found, ever less often while nothing is."""
        self._pause = min(self._poll, self._pause * 2)
        self._crew.doubt()
        self.look()

    def _done(self) -> bool:
        return self._stopping and not (self.held or self._turns or self._sight.lost)

    async def stop(self, grace: float) -> int:
        """Stop claiming, let running work finish within the grace period, hand back the rest at once; say how many."""
        faults.point("drain.begun")
        self._stopping = True
        self._rouse()
        running = [holding.task for holding in self._hold.working if holding.task is not None]
        if running:
            await asyncio.wait(running, timeout=grace)
        rest = [holding for holding in self.held.values() if holding.running]
        for holding in rest:
            self._hold.ran(holding)
            self._outcomes.append(self._crew.hand_back(holding.item))
            if holding.task is not None:
                holding.task.cancel("handed back")
        self._rouse()
        return len(rest)

    async def drained(self, seconds: float) -> bool:
        """Wait until every claim has had its answer and none is unknown, for so long at most; tell whether that was so."""
        try:
            await timed(self._ended.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End whatever is still under way: nothing of a stopped pump lives on."""
        self._closed = True  # a turn that is ended begins no other
        tasks = [*self._turns, *(holding.task for holding in self._hold.working if holding.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_turns(self) -> None:
        if self._closed:
            return
        if self._idle and self._stragglers.ready:
            self._begin(self._stragglers.send(partial(self._turn, self._idle.pop())))
        while self._idle and (self._outcomes or self._wants_more()):
            outcomes, self._outcomes = self._outcomes[: self._most], self._outcomes[self._most :]
            room = self._room()
            self._look = False
            self._reserved += room
            this = object()
            if room:
                self._sight.claims(this)
            self._begin(self._turn(self._idle.pop(), outcomes, room, this))
        if self._stopping and self._sight.lost and not self._turns and self._idle:
            self._begin(self._look_back(self._idle.pop()))

    def _begin(self, coming: Coroutine[Any, Any, None]) -> None:
        turn = asyncio.get_running_loop().create_task(coming)
        self._turns.add(turn)
        turn.add_done_callback(self._turn_ended)

    def _turn_ended(self, turn: asyncio.Task[None]) -> None:
        self._turns.discard(turn)
        self._rouse()

    def _room(self) -> int:
        if self._stopping or not self._sight.allows_claims():
            return 0
        return max(0, min(self._reach, self._concurrency - self._hold.running - self._reserved))

    def _wants_more(self) -> bool:
        room = self._room()
        # While other turns are under way more room will come: a trip for a few is not worth its price.
        worth = room > 0 if not self._turns else room * 4 >= self._reach
        return self._look and worth

    async def _turn(self, line: Line, outcomes: list[Outcome], room: int, this: object) -> None:
        began = time.monotonic()
        try:
            faults.point("settle.before" if outcomes else "claim.sent")
            turned = await self._crew.turn(line, outcomes, room)
            if outcomes or turned.items:
                faults.point("claim.committed")
        except errors.FerrymanError as error:
            self._sight.ended(this)
            await self._after_failure(line, outcomes, room, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the set must not be lost with it
            self._sight.ended(this)
            await self._after_refusal(line, outcomes, room, error)
        else:
            self._answered(outcomes, turned.left)
            self._take(turned, began)
            await self._after_success(line, this)
        finally:
            self._sight.ended(this)
            self._reserved -= room
            self._idle.append(line)
            # At once, before the handlers just started have the loop: PostgreSQL claims the next set while they run.
            self._begin_turns()

    def _answered(self, outcomes: Sequence[Outcome], left: Collection[UUID]) -> None:
        """Let go of the claims that these outcomes ended; those that were busy are sent again in a moment."""
        for each in outcomes if not left else [each for each in outcomes if each.id not in left]:
            holding = self._hold.find(each.id, each.epoch)
            if holding is not None:
                del self.held[each.id]
                if holding.running:  # the outcome was that of an earlier claim, and the fence has come again
                    self._lose([holding])
        self._most = min(MOST, 2 * self._most) if outcomes else self._most
        if left:
            self._leave([each for each in outcomes if each.id in left], BUSY)

    def _leave(self, outcomes: Sequence[Outcome], backoff: retry.Backoff) -> None:
        """Keep outcomes that cannot be written now, and send them again: those together that were left equally often."""
        for times, some in self._hold.leave(outcomes).items():
            pause = backoff.delay(times).total_seconds()
            asyncio.get_running_loop().call_later(pause, self._send_again, some)

    def _send_again(self, outcomes: list[Outcome]) -> None:
        self._outcomes += outcomes
        self._rouse()

    def _take(self, turned: Turned[Item], began: float) -> None:
        asked = began if turned.asked is None else turned.asked
        if turned.items:
            self._pause = POLL_LEAST
            self._reach = min(self._claim_max, 2 * self._reach)
        late = time.monotonic() - asked >= self._lease
        for item in turned.items:
            earlier = self.held.get(item.id)
            if earlier is not None:
                self._lose([earlier])
            holding = self._hold.take(item, since=asked)
            if self._stopping or late:
                self._outcomes.append(self._crew.hand_back(item))
            else:
                self._start(holding)
        if turned.more:
            self._look = True

    async def _after_success(self, line: Line, this: object) -> None:
        self._failures = 0
        if self._sight.allows_reclaim(this):
            await self._reclaim(line)

    async def _look_back(self, line: Line) -> None:
        """Before the end, hand back what may have been claimed unseen; nobody else would for a lease."""
        try:
            if not await self._reclaim(line):
                self._failures += 1
                await asyncio.sleep(RECONNECT.delay(self._failures).total_seconds())
        finally:
            self._idle.append(line)

    async def _reclaim(self, line: Line) -> bool:
        return await self._sight.look_back(lambda: self._crew.reclaim(line, self._hold.known()))

    async def _after_failure(self, line: Line, outcomes: list[Outcome], room: int, error: errors.FerrymanError) -> None:
        """Keep the outcomes and come back later, each lane on its own; unless a few of them may be the reason."""
        passes = error.retryable or outage.passes(error)
        if not passes or (outcomes and outage.narrow(error)):
            await self._after_refusal(line, outcomes, room, error)
            return
        too_much = outage.unfinished(error)
        if room and too_much:
            self._reach = min(self._reach, max(1, room // 2))
        if too_much:
            self._stragglers.put(outcomes)
        else:
            self._outcomes += outcomes
        if len(outcomes) > 1 or (outcomes and not too_much):
            self._most = max(1, len(outcomes) // 2)
        if room or not too_much:  # a straggler claims nothing
            self._sight.lose()
        self._look = True
        self._failures += 1
        if self._failures == 1:
            log.warning("the database cannot be used; coming back", extra={"code": error.code, "reason": error.message})
            outage.tell(error)
        # A connection that was cut is no outage, and what has run would be lost with this process: another lane sends it at
        # once; where none is left, this one does, once.
        if self._resting < self._lanes - 1:
            self._rouse()
        elif self._failures <= self._lanes:
            return
        self._resting += 1
        try:
            await asyncio.sleep(RECONNECT.delay(self._failures).total_seconds())
        finally:
            self._resting -= 1

    async def _after_refusal(self, line: Line, outcomes: list[Outcome], room: int, error: Exception) -> None:
        """Find the outcome that PostgreSQL refuses, or cannot write now, by halving the set; the others are settled (K25)."""
        self._sight.lose()
        self._look = True
        if not outcomes:
            log.error("claiming failed", exc_info=error)
            self._failures += 1
            await asyncio.sleep(RECONNECT.delay(self._failures).total_seconds())
        elif room:
            await self._settle(line, outcomes)  # the claim may be what was refused
        elif len(outcomes) == 1:
            self._refused(outcomes[0], error)
        else:
            half = len(outcomes) // 2
            await self._settle(line, outcomes[:half])
            await self._settle(line, outcomes[half:])

    def _refused(self, outcome: Outcome, error: Exception) -> None:
        holding = self._hold.find(outcome.id, outcome.epoch)
        if outage.passes(error):
            self._failures += 1
            if self._failures == 1 and (holding is None or holding.left == 0):
                told = {"id": str(outcome.id), "reason": str(error)}
                log.warning("an outcome cannot be stored now; coming back", extra=told)
                outage.tell(error)
            self._leave([outcome], RECONNECT)
            return
        log.error("an outcome could not be settled", exc_info=error, extra={"id": str(outcome.id)})
        spoiled = self._crew.spoil(outcome, error)
        if spoiled is not None:
            self._outcomes.append(spoiled)
        elif holding is not None:
            self._hold.drop(holding)

    async def _settle(self, line: Line, outcomes: list[Outcome]) -> None:
        try:
            turned = await self._crew.turn(line, outcomes, 0)
        except errors.FerrymanError as error:
            await self._after_failure(line, outcomes, 0, error)
        except Exception as error:  # noqa: BLE001 - halved further
            await self._after_refusal(line, outcomes, 0, error)
        else:
            self._answered(outcomes, turned.left)

    def _start(self, holding: Holding[Item]) -> None:
        self._hold.runs(holding)
        holding.task = asyncio.get_running_loop().create_task(self._work(holding))

    async def _work(self, holding: Holding[Item]) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._crew.run(holding.item)
        except asyncio.CancelledError:
            raise
        except BaseException:  # whatever it is: a claim that nobody lets go of would be renewed for ever
            log.exception("running failed outside of its handler", extra={"id": str(holding.item.id)})
        finally:
            self._worked(holding, outcome)

    def _worked(self, holding: Holding[Item], outcome: Outcome | None) -> None:
        self._hold.working.discard(holding)
        if not holding.running:
            return  # handed back while the handler was still ending: this claim has had its outcome
        self._hold.ran(holding)
        # Of what was claimed again meanwhile nothing is sent: where the fence has come again, it would end the later claim.
        if self._hold.holds(holding):
            if outcome is None:
                self._hold.drop(holding)
            else:
                self._outcomes.append(outcome)
        self._rouse()
