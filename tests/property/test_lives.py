"""Lives of tasks in any order: two workers, a canceller, a sweep, a watchdog and moved time, against a model.

Enumeration proves each move by itself (tests/sql); here they meet. Everything runs on a real PostgreSQL, in one transaction
an example that is rolled back. Steps of time are multiples of 20 s and all terms are odd multiples of 10 s, so that no
comparison hangs on the milliseconds that the test itself takes.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ferryman.kernel import ids, invariants, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store, watch
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.testing import Cluster, travel

LEASE, TIMEOUT, MARGIN, DELAY, LATER, SHORT = 30, 50, 0, 30, 30, 70
WORKERS = [ids.boot_id(), ids.boot_id()]
RULES = watch.rules(Owners(), NoDoorbell(), sweep=timedelta(seconds=1), interval=timedelta(seconds=1))

Value = TypeVar("Value")
which = st.integers(0, 1)
place = st.integers(0, 30)
rarely = st.integers(0, 3).map(lambda chance: chance == 3)
ends = st.sampled_from([SUCCEEDED, FAILED, READY])


@dataclass
class Life:
    """What the model knows of one task."""

    state: TaskState
    ends: int
    retries: int
    attempt: int = 1
    epoch: int = 0
    waits_until: int | None = None
    started: int = 0
    leased_until: int = 0
    owner: UUID | None = None

    def end(self, state: TaskState) -> None:
        self.state, self.owner, self.waits_until = state, None, None

    def again(self, now: int, delay: int, *, used: int) -> None:
        self.state, self.owner, self.attempt = READY, None, self.attempt + used
        self.waits_until = now + delay if delay else None


@dataclass
class Hand:
    """A worker, and the claims it believes to hold; some of them may be stale."""

    owner: UUID
    claims: list[tuple[UUID, int]] = field(default_factory=list)


class Lives(RuleBasedStateMachine):
    """What may happen to tasks, in any order."""

    url = ""
    runner: asyncio.Runner

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.lives: dict[UUID, Life] = {}
        self.hands = [Hand(owner) for owner in WORKERS]

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.stack = AsyncExitStack()
        self.database = Database(self.url, size=1)
        self.run(self.database.open())
        self.tx: Session = self.run(self.stack.enter_async_context(self.database.transaction()))
        for retries in (0, 9, 9):
            self.create(later=False, short=False, retries=retries)

    def teardown(self) -> None:
        if not hasattr(self, "tx"):
            return
        broken = self.run(invariants.check(self.tx, watch.TASK_INVARIANTS))
        with suppress(ZeroDivisionError):
            self.run(self.stack.__aexit__(ZeroDivisionError, ZeroDivisionError(), None))
        self.run(self.database.close())
        assert broken == []

    @rule(later=rarely, short=rarely, retries=st.sampled_from([0, 1, 9]))
    def create(self, *, later: bool, short: bool, retries: int) -> None:
        draft = request.draft(
            tenant="default",
            name="mail",
            payload="{}",
            defaults=request.Defaults(timeout_ms=TIMEOUT * 1000, max_retries=retries),
            backoff={"kind": "fixed", "base_seconds": DELAY, "jitter": 0},
        )
        [clock] = self.run(self.tx.fetch("select ferryman.clock() as now"))
        due = clock["now"] + timedelta(seconds=LATER) if later else None
        ends = clock["now"] + timedelta(seconds=SHORT) if short else None
        task = draft.task._replace(schedule_type="at" if due else None, scheduled_at=due, ends_at=ends)
        [row] = self.run(store.create(self.tx, [task], ends_after=timedelta(days=30)))
        life = Life(PENDING if later else READY, ends=self.now + (SHORT if short else 10**9), retries=retries)
        life.waits_until = self.now + LATER if later else None
        assert row["state"] == life.state
        self.lives[task.id] = life

    @rule(hand=which, room=st.integers(1, 3))
    def claim(self, *, hand: int, room: int) -> None:
        self.turn(self.hands[hand], [], room)

    @rule(hand=which, nth=place, says=ends, delay=st.sampled_from([0, DELAY]), room=st.integers(0, 1))
    def settle(self, *, hand: int, nth: int, says: TaskState, delay: int, room: int) -> None:
        worker = self.hands[hand]
        if not worker.claims:
            return
        id, epoch = worker.claims.pop(nth % len(worker.claims))
        if says is READY and self.lives[id].attempt > self.lives[id].retries:
            says = FAILED
        told = Outcome(id, epoch, worker.owner, says)
        if says is READY:
            told = told._replace(used=1, delay=float(delay))
        if says is not SUCCEEDED:
            told = told._replace(code="TASK_EXECUTION_FAILED", reason="no")
        self.turn(worker, [told], room)

    def turn(self, worker: Hand, outcomes: list[Outcome], room: int) -> None:
        claimed, stale, _busy = self.run(
            store.turn(
                self.tx,
                outcomes,
                owner=worker.owner,
                lanes=[("default", "default", room)] if room else [],
                names=["mail"],
                kinds=[],
                lease=timedelta(seconds=LEASE),
                margin=timedelta(seconds=MARGIN),
            )
        )
        claimable = {
            id
            for id, life in self.lives.items()
            if life.state is READY and life.waits_until is None and life.ends > self.now
        }
        for each in outcomes:
            life = self.lives[each.id]
            current = life.state is RUNNING and life.epoch == each.epoch and life.owner == worker.owner
            assert (not stale) is current
            if current and each.state is READY:
                life.again(self.now, int(each.delay), used=1)
            elif current:
                life.end(each.state)
        assert {task.id for task in claimed} <= claimable
        assert len(claimed) == min(room, len(claimable))
        for task in claimed:
            life = self.lives[task.id]
            life.state, life.owner, life.epoch, life.started = RUNNING, worker.owner, life.epoch + 1, self.now
            life.leased_until = self.now + min(LEASE, TIMEOUT + MARGIN)
            assert (task.epoch, task.attempt) == (life.epoch, life.attempt)
            worker.claims.append((task.id, task.epoch))

    @rule(hand=which)
    def renew(self, *, hand: int) -> None:
        worker = self.hands[hand]
        # One claim for each task is renewed; the last one alone can be the current one.
        held = list(dict(worker.claims).items())
        kept = self.run(
            store.renew(
                self.tx,
                [id for id, _ in held],
                [epoch for _, epoch in held],
                owner=worker.owner,
                lease=timedelta(seconds=LEASE),
                margin=timedelta(seconds=MARGIN),
            )
        )
        current = {
            id
            for id, epoch in held
            if self.lives[id].state is RUNNING and (self.lives[id].epoch, self.lives[id].owner) == (epoch, worker.owner)
        }
        assert kept == dict.fromkeys(current, True)
        for id in kept:
            life = self.lives[id]
            life.leased_until = min(self.now + LEASE, life.started + TIMEOUT + MARGIN)
        worker.claims = [each for each in worker.claims if each[0] in kept]

    @rule(hand=which, nth=place, strikes=rarely, cancels=st.booleans())
    def disturb(self, *, hand: int, nth: int, strikes: bool, cancels: bool) -> None:
        if not strikes:
            return
        if cancels:
            self.cancel(list(self.lives)[nth % len(self.lives)])
        else:
            self.lose_sight(self.hands[hand])

    def lose_sight(self, worker: Hand) -> None:
        """A worker forgets what it holds, and hands back what is leased to it."""
        worker.claims.clear()
        mine = [life for life in self.lives.values() if life.owner == worker.owner]
        assert self.run(store.reclaim(self.tx, owner=worker.owner, held=[])) == (len(mine), 0)
        for life in mine:
            life.again(self.now, 0, used=0)

    def cancel(self, id: UUID) -> None:
        live = self.lives[id].state in TASK.live
        rows = self.run(store.cancel(self.tx, [id], tenant="default"))
        assert len(rows) == int(live)
        if live:
            self.lives[id].end(CANCELLED)

    @rule()
    def promote(self) -> None:
        self.run(store.promote(self.tx, limit=100))
        for life in self.lives.values():
            if life.waits_until is not None and life.waits_until <= self.now:
                life.state, life.waits_until = READY, None

    @rule()
    def watch(self) -> None:
        self.run(watchdog.tick(self.tx, RULES))
        for life in self.lives.values():
            if life.state is RUNNING and life.leased_until <= self.now:
                if life.attempt > life.retries:
                    life.end(FAILED)
                else:
                    life.again(self.now, DELAY if life.started + TIMEOUT <= self.now else 0, used=1)
            if life.state in {PENDING, READY} and life.ends <= self.now:
                life.end(CANCELLED)

    @rule(steps=st.integers(1, 2))
    def pass_time(self, *, steps: int) -> None:
        self.run(travel(self.tx, timedelta(seconds=20 * steps)))
        self.now += 20 * steps

    @rule(hand=which)
    def freeze(self, *, hand: int) -> None:
        """All workers stand still past their leases; one comes back first, with its old claims."""
        self.pass_time(steps=2)
        self.watch()
        self.turn(self.hands[hand], [], 3)

    @invariant()
    def the_database_agrees(self) -> None:
        if not hasattr(self, "tx"):
            return
        rows = self.run(
            self.tx.fetch("select id, state, attempt, epoch, lease_owner, wake_at is null as free from ferryman.tasks")
        )
        told = {
            row["id"]: (row["state"], row["attempt"], row["epoch"], row["lease_owner"], row["free"]) for row in rows
        }
        assert told == {
            id: (life.state, life.attempt, life.epoch, life.owner, life.waits_until is None)
            for id, life in self.lives.items()
        }


@pytest.fixture
def lives(cluster: Cluster) -> Iterator[type[Lives]]:
    with asyncio.Runner() as runner:
        lent = cluster.database()
        Lives.url, Lives.runner = runner.run(lent.__aenter__()), runner
        yield Lives
        runner.run(lent.__aexit__(None, None, None))


@pytest.mark.contract("T2", "T3", "T5", "T7", "T14", "T21", "K3", "K4", "K23", "W13", "R4")
def test_whatever_happens_the_tables_agree_with_the_model(lives: type[Lives]) -> None:
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            print_blob=True,
        ),
    )
