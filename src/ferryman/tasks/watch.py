"""What is repaired: the watchdog's rules for tasks, acting through the normal functions; and what must always be true."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from ferryman.kernel import errors, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import Rule, far_leases, walking
from ferryman.kernel.watchdog.recent import Recent
from ferryman.tasks import store
from ferryman.tasks.joins import PARENT_ENDED, Aftermath, end
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import ending
from ferryman.tasks.store import agreements, steps
from ferryman.tasks.store import retention as past
from ferryman.tasks.work.settle import settle

log = telemetry.logger("tasks")

TIMED_OUT = "start_to_close timeout"
COUNTING_SHARE = 0.01  # of one backend's time
# Whoever begins before a large backlog has better things to do than to count it: a glance that finds so many tells nothing yet.
GLANCE, GLANCE_SECONDS = 10_000, 15.0
WHOLE = 1_000_000

_HERE = "ferryman.tasks"

TASK_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "running_is_leased", "A task is running if and only if somebody holds its lease."),
    declare(_HERE, "claimed_has_a_fence", "Each claim was counted and fenced."),
    declare(_HERE, "live_has_a_clock", "Every live task has a time by which a rule ends it."),
    declare(_HERE, "slots_within_limits", "No more tasks of a queue run than were agreed."),
    declare(_HERE, "keys_within_limits", "No more tasks of a key run than were agreed."),
    declare(_HERE, "one_place_to_wait", "A live task is claimable, or waits for a time, or is leased.", deep=True),
    declare(_HERE, "ended_is_finished", "A task has a time of finishing if and only if it has ended.", deep=True),
    declare(_HERE, "attempts_within_cap", "No task has used more attempts than it was given.", deep=True),
    declare(_HERE, "live_is_bounded", "Every live task is listed with the rule that ends it.", deep=True),
    declare(_HERE, "one_row_per_key", "One idempotency key has made one task.", deep=True),
    declare(_HERE, "row_and_log_agree", "A task's row and its last event tell the same state and attempt.", deep=True),
    declare(_HERE, "one_end", "A task ends once, and nothing follows.", deep=True),
    declare(_HERE, "legal_moves", "Only legal moves are in the log.", deep=True),
    declare(_HERE, "unbroken_log", "Each move begins where the one before ended.", deep=True),
    declare(_HERE, "claims_are_logged", "Every claim of a task is in the log.", deep=True),
    declare(_HERE, "parked_has_a_clock", "A parked task wakes at a time, and not after its end.", deep=True),
    declare(_HERE, "join_counts_the_living", "A join waits for one child at least, and no more than live.", deep=True),
    declare(_HERE, "one_tenant", "A task and its events belong to one tenant.", deep=True),
)

SCHEDULE_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "schedules_are_bounded", "Every active schedule has a time at which it is fired."),
    declare(_HERE, "one_task_per_firing", "One firing of a schedule has made one task.", deep=True),
    declare(_HERE, "schedule_and_log_agree", "A schedule's row and its last move tell the same state.", deep=True),
    declare(_HERE, "firings_have_one_tenant", "A task belongs to the tenant of the schedule that fired it.", deep=True),
)


SPAN, PACE, REST = walking.SPAN, walking.PACE, walking.REST


def retention(*, kept: timedelta, failed_kept: timedelta) -> Rule:
    """Return the rule by which finished tasks leave (T20)."""
    return walking.retention(
        "T20",
        finds="a task that ended longer ago than such tasks are kept",
        does="deletes it, with its progress and its log lines",
        walk=partial(store.walk, kept=kept, failed_kept=failed_kept),
        forget=store.forget,
    )


def leavings(*, kept: timedelta) -> list[Rule]:
    """Return the rules by which leaves what tasks and schedules left behind (T20)."""
    walks = (
        ("schedules", "a schedule that ended longer ago than tasks are kept",
         partial(past.schedules, kept=kept), past.forget_schedules),
        ("signals", "an event for a task that has ended: nothing will take it", past.signals, past.forget_signals),
        ("waits", "what a task waited for that has gone on or ended since", past.waits, past.forget_waits),
    )  # fmt: skip
    return [
        Rule(
            name=f"T20-{name}",
            finds=finds,
            does="deletes it",
            setting="worker.watchdog_interval_seconds",
            every=REST,
            # Half: a look may come a little early, and must not find the walk at rest.
            find=partial(find, span=SPAN, rest=REST / 2),
            act=forget,
        )
        for name, finds, find, forget in walks
    ]


def set_back(*, every: timedelta, lease: timedelta) -> Rule:
    """Return the rule for tasks whose leases are of a time before the clock was set back."""
    return far_leases("K5-tasks", store.shorten, every=every, lease=lease)


class Leases:
    """Finds the leases that have ended, and knows which will before the next look: who lives has renewed his long before."""

    def __init__(self, owners: Owners, *, ahead: timedelta) -> None:
        """Look so far ahead as the next look is away."""
        self._owners = owners
        self._ahead = ahead
        self._soon: float | None = None
        self.find = Recent(self._lapsed)

    def soon(self) -> float | None:
        """Say in how many seconds, from the last look, the next lease ends."""
        return self._soon

    async def _lapsed(self, tx: Tx, limit: int, within: timedelta | None) -> Sequence[Row]:
        rows = await store.lapsed(tx, limit, within, kinds=self._owners.kinds, ahead=self._ahead)
        self._soon = next((row["left_seconds"] for row in rows if row["left_seconds"] > 0), None)
        return [row for row in rows if row["left_seconds"] <= 0]


def rules(owners: Owners, doorbell: Doorbell, *, sweep: timedelta, interval: timedelta) -> list[Rule]:
    """Return the rules that end every task whose worker or time is gone."""
    told = Aftermath()
    leases = Leases(owners, ahead=sweep)

    async def reap(tx: Tx, lapsed: Sequence[Row]) -> int:
        rows, _busy = await settle(tx, owners, [_judge(row) for row in lapsed], lapsed=True, after=told)
        return _counted(rows)

    async def expire(tx: Tx, waiting: Sequence[Row]) -> int:
        ids = [row["id"] for row in waiting]
        owed = [(row["callback"], row["callback_ref"]) for row in waiting if row["callback"] is not None]
        code = errors.TaskExpired.code
        rows = await end(
            tx, owners, ids, expired=True, code=code, reason="still waiting at its ends_at", owed=owed, after=told
        )
        if rows:
            log.warning("tasks expired", extra={"count": len(rows), "first": str(rows[0]["id"])})
        return _counted(rows)

    ring = partial(_ring, doorbell, told)

    return [
        Rule(
            name="K19",
            finds="how many tasks wait and run, by queue",
            does="shows it as a metric",
            setting="worker.watchdog_interval_seconds",
            every=timedelta(seconds=30),
            find=_Counts(),
        ),
        Rule(
            name="W13",
            finds="a running task whose lease or timeout has passed",
            does="ends the attempt as TASK_TIMEOUT: another try, or failed at its cap",
            setting="worker.lease_sweep_seconds",
            every=sweep,
            find=leases.find,
            soon=leases.soon,
            act=reap,
            reaps=True,
            only_bound=True,
            after=ring,
        ),
        Rule(
            name="T21",
            finds="a task that still waits at its ends_at",
            does="cancels it as TASK_EXPIRED",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=partial(store.expired, kinds=owners.kinds),
            act=expire,
            only_bound=True,
            after=ring,
        ),
        _gates(doorbell, interval),
        *_parted(owners, doorbell, interval),
    ]


def _gates(doorbell: Doorbell, interval: timedelta) -> Rule:
    """Return the rule for what stands before a gate with a free slot."""

    async def find_idle(tx: Tx, limit: int) -> Sequence[Row]:
        # What lanes claimed a moment before their queue got its limits is counted from here on.
        await agreements.mark(tx, limit)
        return await agreements.idle(tx, limit, patience=interval)

    def ring_gates(_found: Sequence[Row]) -> None:
        doorbell.ring("queues")

    return Rule(
        name="T17",
        finds="a task that stands before a gate with a free slot",
        does="rings for the workers to look; lets what ran before a limit was set hold its slot",
        setting="worker.watchdog_interval_seconds",
        every=interval,
        find=find_idle,
        after=ring_gates,
    )


def _parted(owners: Owners, doorbell: Doorbell, interval: timedelta) -> list[Rule]:
    """Return the rules for what the ends of children and of parents owe each other; the normal path has paid it already."""
    told = Aftermath()

    async def collect(tx: Tx, strays: Sequence[Row]) -> int:
        rows = await end(tx, owners, [row["id"] for row in strays], reason=PARENT_ENDED, after=told)
        told.cancelled += [row["id"] for row in rows]
        return _counted(rows)

    async def wake(tx: Tx, stuck: Sequence[Row]) -> int:
        return len(await steps.wake(tx, [row["id"] for row in stuck]))

    ring = partial(_ring, doorbell, told)

    return [
        Rule(
            name="T19-strays",
            finds="a child that lives although its parent has ended",
            does="cancels it",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=steps.strays,
            act=collect,
            after=ring,
        ),
        Rule(
            name="T19-stuck",
            finds="a parked task that waits for nothing any more",
            does="lets it go on",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            # A page of the walk at a look, however many are parked. Half: a look may come a little early.
            find=partial(steps.stuck, span=SPAN, pace=interval / 2),
            act=wake,
            after=ring,
        ),
    ]


class _Counts:
    """Counts what is live. The longer a count takes, the rarer it is: its metric must not slow a backlog of a million."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._whole_from = clock() + GLANCE_SECONDS
        self._next = 0.0

    async def __call__(self, tx: Tx, _limit: int) -> Sequence[Row]:
        begun = self._clock()
        if begun < self._next:
            return ()
        most = WHOLE if begun >= self._whole_from else GLANCE
        try:
            depth = await store.depth(tx, most=most)
        finally:  # also after a count that was broken off
            self._next = begun + (self._clock() - begun) / COUNTING_SHARE
        if most == GLANCE and sum(row["count"] for row in depth) >= GLANCE:
            return ()  # of which queues it would tell is chance
        telemetry.depth("task", [(row["queue"], row["state"], row["count"]) for row in depth])
        return ()


def _ring(doorbell: Doorbell, told: Aftermath, found: Sequence[Row]) -> None:
    """Ring for what was found and for the children that ended with it."""
    children, told.cancelled, told.lanes = told.cancelled, [], []
    doorbell.ring("ready")
    doorbell.ring("done", [str(id) for id in (*(row["id"] for row in found), *children)])
    if children:
        doorbell.ring("cancel", [str(id) for id in children])


def _counted(rows: Sequence[Row]) -> int:
    for (state, code), count in Counter((row["state"], row["code"]) for row in rows).items():
        telemetry.ended("task", state, code, count)
    return len(rows)


def _judge(row: Row) -> Outcome:
    verdict = ending.ending(
        attempt=row["attempt"],
        max_retries=row["max_retries"],
        code=ending.TIMEOUT,
        reason=TIMED_OUT if row["timed_out"] else ending.LEASE_EXPIRED,
        backoff=ending.stored(row["backoff"]),
    )
    return Outcome(
        id=row["id"],
        epoch=row["epoch"],
        owner=row["lease_owner"],
        state=verdict.state,
        code=verdict.code,
        reason=verdict.reason,
        used=ending.uses(verdict),
        delay=verdict.delay.total_seconds(),
        callback=row["callback"],
        callback_ref=row["callback_ref"],
        bore=True,  # perhaps: the row does not say
    )
