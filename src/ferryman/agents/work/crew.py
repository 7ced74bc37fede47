"""Turns, as the pump sees them: settle what ran, carry out stops, claim the next set."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import End, Outcome, Release, Taken
from ferryman.agents.ports import Runs
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.work import stops
from ferryman.agents.work.settle import settle
from ferryman.kernel import errors, faults, ids, outage, telemetry
from ferryman.kernel.crew import Turned
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.lease import MARGIN
from ferryman.kernel.pool import Line

log = telemetry.logger("agents")

UNUSABLE = "result_unusable"


class TurnCrew:
    """What agents do for the pump."""

    def __init__(
        self, runs: Runs, parties: Parties, doorbell: Doorbell, *, owner: UUID, targets: Sequence[str]
    ) -> None:
        """Claim for this owner the turns of what `runs` knows, for these targets."""
        self._runs = runs
        self._parties = parties
        self._doorbell = doorbell
        self._owner = owner
        self._targets = targets
        self._rota = heads.Rota()
        self._unsure = True
        self.stops_asked = False

    def heard(self) -> None:
        """Hear that there may be something to claim."""
        self._unsure = True

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Taken]:
        """Settle these outcomes and claim up to `room`."""
        try:
            return await self._turn(line, outcomes, room)
        except BaseException:
            self._unsure = True  # nothing was claimed, or nobody knows
            raise

    async def _turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Taken]:
        began = time.perf_counter()
        if self.stops_asked:
            await self._stop(line)
        after = Aftermath()
        done: set[UUID] = set()
        left: set[UUID] = set()
        if outcomes:
            async with line.transaction() as tx:
                done, left = await settle(tx, outcomes, self._parties, owner=self._owner, after=after)
                # Whoever waits for what was settled does not wait for a look that nobody asked for.
                wanted = self._unsure or "" in after.targets or not after.targets.isdisjoint(self._targets)
                taken = await self._claim(tx, room) if wanted else []
            faults.point("settle.committed")
            self._tell(outcomes, done, left)
            after.ring(self._doorbell)
        else:
            taken = await self._claim(line, room)
        if taken:
            await self._prepare(line, taken)
        if outcomes or taken:
            telemetry.turned("turn", time.perf_counter() - began, settled=len(done), claimed=len(taken))
        for profile, count in Counter(each.profile for each in taken).items():
            telemetry.claimed("turn", profile, count)
        # What some tenants left of their shares is for others: one more look, if there were several.
        more = bool(taken) and (room == len(taken) or self._rota.asked > 1)
        self._unsure |= more
        return Turned(taken, more=more, left=left)

    async def _prepare(self, line: Line, taken: Sequence[Taken]) -> None:
        """Read what turns need. One of which it cannot be read is found by halving, and the others begin (K25).

        It is not given up, or this worker would take it anew at once, and for ever: its lease ends this claim, and counts.
        """
        try:
            await self._runs.prepare(line, taken)
        except Exception as error:
            if outage.of_all(error):
                raise
            half = len(taken) // 2
            if half:
                await self._prepare(line, taken[:half])
                await self._prepare(line, taken[half:])
                return
            outage.tell(error)
            log.exception("what a turn needs cannot be read: its lease ends this claim", extra={"id": str(taken[0].id)})

    async def _claim(self, tx: Tx, room: int) -> list[Taken]:
        profiles = self._runs.profiles
        if not profiles or room <= 0:
            return []
        self._unsure = False  # before the look: a ring that comes while it is under way asks for another
        return await heads.claim(
            tx,
            owner=self._owner,
            profiles=profiles,
            targets=self._targets,
            kinds=self._parties.owners.kinds,
            room=room,
            terms=self._parties.terms,
            rota=self._rota,
        )

    async def _stop(self, line: Line) -> None:
        self.stops_asked = False  # before the look: a ring that comes while it is under way asks for another
        after = Aftermath()
        try:
            async with line.transaction() as tx:
                found = await stops.sweep(tx, self._parties, after=after)
        except BaseException as error:
            if outage.narrow(error):
                # Somebody holds one of those who are to be stopped: what ended and what can be claimed does not wait for it.
                log.info("stops are left to the watchdog: %s", error)
            elif outage.passes(error) or not isinstance(error, Exception):
                self.stops_asked = True
                raise
            else:
                # One that cannot be carried out would keep this worker from every other turn. The watchdog finds it (A16).
                log.exception("stops could not be carried out: the watchdog goes on with each by itself")
            return
        self.stops_asked |= found >= stops.LIMIT
        after.ring(self._doorbell)

    def _tell(self, outcomes: Sequence[Outcome], done: set[UUID], left: set[UUID]) -> None:
        fenced = len(outcomes) - len(done) - len(left)
        if fenced:
            telemetry.fenced("turn", "settle", fenced)

    async def run(self, item: Taken) -> Outcome | None:
        """Do a turn, or as much of it as can be done now."""
        return await self._runs.run(item)

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int | None:
        """Give up what is leased to this worker but not held by it; None while somebody writes some of it."""
        unknown = await heads.reclaim(line, owner=self._owner, held=held)
        if not unknown:
            return 0
        turns, epochs = zip(*unknown, strict=True)
        self._runs.forget(turns)
        moved, busy = await heads.release(line, turns, epochs, owner=self._owner)
        if moved:
            self._doorbell.ring("agents")
        return None if busy else len(moved)

    async def renew(self, line: Line, turns: Sequence[UUID], epochs: Sequence[int]) -> dict[UUID, bool]:
        """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
        return await heads.renew(line, turns, epochs, owner=self._owner, lease=self._parties.terms.lease, margin=MARGIN)

    def doubt(self) -> None:
        """Look at the next turn, whatever was heard."""
        self._unsure = True

    def lost(self, count: int) -> None:
        """Count claims that were lost while their handlers ran, or before their outcomes were stored."""
        telemetry.fenced("turn", "renew", count)

    def hand_back(self, item: Taken) -> Release:
        """Say that the turn was not carried through here; if it was not even begun, its handler waits no longer."""
        self._runs.forget([item.id])
        return Release(id=item.id, epoch=item.epoch, tenant=item.tenant, agent_id=item.agent_id, owner=self._owner)

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """End a turn whose outcome cannot be stored; None when even that could not be, or it was only given up."""
        if isinstance(outcome, Release) or (isinstance(outcome, End) and outcome.code == UNUSABLE):
            return None
        said = f"What the turn left cannot be stored: {errors.said(error)}"
        return End(
            id=outcome.id,
            epoch=outcome.epoch,
            tenant=outcome.tenant,
            agent_id=outcome.agent_id,
            card_id=ids.new_id(),
            status=TurnStatus.FAILED,
            content=rules.fallback(TurnStatus.FAILED, code=UNUSABLE, message=said),
            fallback=True,
            owner=self._owner,
            code=UNUSABLE,
            error=said,
            callback=outcome.callback,
            callback_ref=outcome.callback_ref,
        )
