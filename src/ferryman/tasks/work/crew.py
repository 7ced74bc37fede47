"""What tasks do for the pump: a turn, and a run."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from ferryman.kernel import faults, telemetry
from ferryman.kernel.crew import Turned
from ferryman.kernel.doorbell import MAX_HINTS, Doorbell
from ferryman.kernel.pool import Line
from ferryman.tasks import store
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import READY, TASK
from ferryman.tasks.store import gates, steps
from ferryman.tasks.work.gates import KEYS
from ferryman.tasks.work.lanes import LOOK_MAX, Lanes, named
from ferryman.tasks.work.places import Places
from ferryman.tasks.work.settle import settle

# Somebody else stands at the gate: not for long, as a rule; who comes in vain again and again comes less often.
BUSY_SECONDS = 0.01
BUSY_SECONDS_MAX = 0.1
SLOTS_MAX = 10_000


class Hands(Protocol):
    """Who does the work of a crew: which handlers it has room for, and what becomes of a claim."""

    @property
    def names(self) -> Sequence[str]:
        """The handlers that there is room for now."""

    async def run(self, task: Claimed) -> Outcome | None:
        """Run a task to the end of this attempt."""

    def hand_back(self, task: Claimed) -> Outcome:
        """Return a task that was not done here."""

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Replace an outcome that PostgreSQL refuses."""


class TaskCrew:
    """Claim, run and settle tasks for one worker."""

    def __init__(
        self,
        runner: Hands,
        owners: Owners,
        doorbell: Doorbell,
        *,
        owner: UUID,
        queues: Sequence[str],
        lease: timedelta,
        margin: timedelta,
        tenant: str | None = None,
    ) -> None:
        """Serve these queues under one boot id, for all tenants or for one."""
        self._runner = runner
        self._owners = owners
        self._doorbell = doorbell
        self._owner = owner
        self._lease = lease
        self._margin = margin
        self.lanes = Lanes(queues, tenant=tenant)
        self._places = Places()
        self.look: Callable[[], None] = _nobody
        self._slots: dict[UUID, tuple[str, str]] = {}  # what was claimed through gates, and in which lane it is
        self._busy_seconds = BUSY_SECONDS
        self._timers: dict[
            str, asyncio.TimerHandle
        ] = {}  # by queue: when the first of its lanes may start something again
        self.run = runner.run
        self.hand_back = runner.hand_back
        self.spoil = runner.spoil

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Claimed]:
        """Settle what has finished, and claim the next set."""
        began = time.perf_counter()
        plain = [each for each in outcomes if _plain(each)]
        left: set[UUID] = set()
        stale: set[UUID] = set()
        if len(plain) < len(outcomes):
            left, stale = await self._settle_others(line, [each for each in outcomes if not _plain(each)])
        if room > 0 and self.lanes.unsure:
            await self._find_lanes(line)
        names = self._names
        lanes = self.lanes.share(room) if names else []
        claimed: Sequence[Claimed] = ()
        more = False
        if plain or lanes:
            behind, asked = self._places.behind(lanes, names), time.perf_counter()
            claimed, fenced, busy = await store.turn(
                line,
                plain,
                owner=self._owner,
                lanes=lanes,
                names=names,
                kinds=self._owners.kinds,
                lease=self._lease,
                margin=self._margin,
                behind=behind,
            )
            seconds = time.perf_counter() - asked
            left |= busy
            stale |= fenced
            if plain:
                faults.point("settle.committed")
                moved = [each for each in plain if each.id not in fenced and each.id not in busy]
                self._tell(moved, fenced=len(fenced))
            unsure = self._places.claimed(lanes, behind, claimed, names=names, seconds=seconds)
            more = self.lanes.claimed(lanes, [(task.queue, task.tenant) for task in claimed], unsure=unsure)
        freed: Counter[str] = Counter()
        if self._slots:
            freed = self._free([each.id for each in outcomes if each.id not in left])
        if self.lanes.gates.waiting and room > len(claimed) and names:
            passed, more_behind = await self._pass(line, room - len(claimed), names)
            freed -= Counter(task.queue for task in passed)
            claimed, more = [*claimed, *passed], more or more_behind
        if freed:
            # Slots that were not taken here: whoever waits for one elsewhere looks.
            self._doorbell.ring("ready", [named(queue, "", keyed=True) for queue in freed])
        if not plain and not claimed:
            return Turned(more=more, left=left, stale=stale)
        telemetry.turned("task", time.perf_counter() - began, settled=len(plain), claimed=len(claimed))
        for queue, count in Counter(task.queue for task in claimed).items():
            telemetry.claimed("task", queue, count)
        return Turned(claimed, more=more, left=left, stale=stale)

    async def _find_lanes(self, line: Line) -> None:
        self.lanes.unsure = False  # before the look: a ring that comes while it is under way asks for another
        began = time.monotonic()
        try:
            self.lanes.found(await store.lanes(line, self.lanes.afters, limit=LOOK_MAX))
        except BaseException:
            self.lanes.unsure = True
            raise
        self._places.looked(time.monotonic() - began)

    @property
    def _names(self) -> Sequence[str]:
        """The handlers that there is room for and that are not paused; none before it was looked which are."""
        if not self.lanes.agreed.learned:
            return ()
        names, paused = self._runner.names, self.lanes.agreed.paused_names
        return [name for name in names if name not in paused] if paused else names

    async def _pass(self, line: Line, room: int, names: Sequence[str]) -> tuple[Sequence[Claimed], bool]:
        """Claim through gates: the lock and the claim are two statements of one transaction (store/gates.py)."""
        asked = self.lanes.gates.share(room)
        if not asked:
            return (), False
        queues = sorted({each.queue for each in asked})
        missing = [queue for queue in queues if queue not in self.lanes.agreed.queues]
        if missing:
            await gates.ensure(line, missing)
            self.lanes.agreed.queues.update(missing)
        claimed: Sequence[Claimed] = ()
        looked: Sequence[gates.Looked] = ()
        async with line.transaction() as tx:
            locked = await gates.lock(tx, queues)
            if locked:
                claimed, looked = await gates.pass_through(
                    tx,
                    [each for each in asked if each.queue in locked],
                    locked=locked,
                    room=room,
                    keys=KEYS,
                    owner=self._owner,
                    names=names,
                    kinds=self._owners.kinds,
                    lease=self._lease,
                    margin=self._margin,
                )
        self._hold(claimed)
        more = self.lanes.gates.passed(asked, looked, [(task.queue, task.tenant) for task in claimed])
        self._come_back(looked, busy=len(locked) < len(queues))
        return claimed, more

    def _hold(self, claimed: Sequence[Claimed]) -> None:
        for task in claimed:
            self._slots[task.id] = (task.queue, task.tenant)
        while len(self._slots) > SLOTS_MAX:
            del self._slots[next(iter(self._slots))]

    def _free(self, ids: Sequence[UUID]) -> Counter[str]:
        """Note that slots are free; tell how many, by queue."""
        freed = Counter(self._slots.pop(id)[0] for id in ids if id in self._slots)
        for queue in freed:
            self.lanes.gates.freed(queue)
        return freed

    def _come_back(self, looked: Sequence[gates.Looked], *, busy: bool) -> None:
        """Look again when the gate is likely to be free, and when a rate allows the next start."""
        loop = asyncio.get_running_loop()
        if busy:
            loop.call_later(self._busy_seconds * random.uniform(0.5, 1.5), self.look)
            self._busy_seconds = min(BUSY_SECONDS_MAX, 2 * self._busy_seconds)
        else:
            self._busy_seconds = BUSY_SECONDS
        for each in looked:
            if each.open_seconds is not None:
                self._open_at(each.queue, loop.time() + max(0.001, each.open_seconds))

    def _open_at(self, queue: str, when: float) -> None:
        """Look at a queue's lanes when the first of them may start something: tenants may have rates of their own."""
        timer = self._timers.get(queue)
        if timer is not None and timer.when() <= when:
            return
        if timer is not None:
            timer.cancel()
        self._timers[queue] = asyncio.get_running_loop().call_at(when, self._open, queue)

    def _open(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self.lanes.gates.freed(queue)
        self.look()

    async def _settle_others(self, line: Line, outcomes: Sequence[Outcome]) -> tuple[set[UUID], set[UUID]]:
        """Settle what a turn does not: those that park, and those that owe something or leave children behind.

        Answers with those that were busy, and with those that were stale.
        """
        owing = [each for each in outcomes if each.park is None]
        parking = [each for each in outcomes if each.park is not None]
        busy, stale = await self._settle_owing(line, owing) if owing else (set(), set())
        if parking:
            busy_parking, stale_parking = await self._park(line, parking)
            return busy | busy_parking, stale | stale_parking
        return busy, stale

    async def _settle_owing(self, line: Line, outcomes: Sequence[Outcome]) -> tuple[set[UUID], set[UUID]]:
        after = Aftermath()
        async with line.transaction() as tx:
            rows, busy = await settle(tx, self._owners, outcomes, after=after)
        faults.point("settle.committed")
        moved = {row["id"] for row in rows}
        fenced = {each.id for each in outcomes} - moved - busy
        self._tell([each for each in outcomes if each.id in moved], fenced=len(fenced))
        if after.lanes:
            self._doorbell.ring("ready", after.lanes)
        if after.cancelled:
            self._doorbell.ring("cancel", map(str, after.cancelled))
            self._doorbell.ring("done", map(str, after.cancelled))
        if fenced:
            # Perhaps a try whose answer was lost has settled them: whom it woke and cancelled is not known here. Polls would
            # find all of it within their interval, but a cancelled child's worker only when it renews.
            for topic in ("ready", "cancel", "done"):
                self._doorbell.ring(topic)
        return busy, fenced

    async def _park(self, line: Line, outcomes: Sequence[Outcome]) -> tuple[set[UUID], set[UUID]]:
        parked = await steps.park(line, outcomes)
        faults.point("park.committed")
        fenced = {each.id for each in outcomes} - set(parked.ids) - parked.busy
        telemetry.fenced("task", "settle", len(fenced))
        if parked.lanes:
            self._doorbell.ring("ready", parked.lanes)
        if len(parked.lanes) < len(parked.ids):
            self._doorbell.ring("due")
        return parked.busy, fenced

    def _tell(self, outcomes: Sequence[Outcome], *, fenced: int) -> None:
        if fenced:
            telemetry.fenced("task", "settle", fenced)
        done = [each.id for each in outcomes if each.state in TASK.terminal]
        if done:
            # Too many to name: whoever waits looks.
            self._doorbell.ring("done", map(str, done) if len(done) <= MAX_HINTS else ())
        again = [each.delay for each in outcomes if each.state is READY]
        if any(again):
            self._doorbell.ring("due")
        if not all(again):
            self._doorbell.ring("ready")
        for (state, code), count in Counter((each.state, each.code) for each in outcomes).items():
            telemetry.ended("task", state.value, code, count)

    def heard(self, hints: Collection[str]) -> bool:
        """Take a ring; tell whether there is a lane to look into. Without names it may be for what keeps its old place."""
        if not hints:
            self._places.forget()
        return self.lanes.heard(hints)

    def doubt(self) -> None:
        """Look at the index at the next turn, unless looks take too much of the time."""
        if self._places.may_look():
            self.lanes.unsure = True

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int | None:
        """Hand back what is leased to this worker but not held by it; None while somebody writes some of it."""
        count, busy = await store.reclaim(line, owner=self._owner, held=held)
        if count:
            self._doorbell.ring("ready")
        return None if busy else count

    async def renew(self, line: Line, ids: Sequence[UUID], epochs: Sequence[int]) -> dict[UUID, bool]:
        """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
        return await store.renew(line, ids, epochs, owner=self._owner, lease=self._lease, margin=self._margin)

    def lost(self, count: int) -> None:
        """Count claims that were lost while their handlers ran, or before their outcomes were stored."""
        telemetry.fenced("task", "renew", count)


def _plain(outcome: Outcome) -> bool:
    return outcome.callback is None and outcome.park is None and not outcome.bore


def _nobody() -> None:
    """Stand in for the pump until there is one."""
