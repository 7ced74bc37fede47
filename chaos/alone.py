"""Survivors one by one: everybody else who works or watches stands still, and what there is to do is one's own.

Beside others nobody sees which part of a process has ceased: one that begins tasks may take no turn any more, and one that only
watches may watch nothing. So at the end of a run some of those who have lived longest are left alone in turn, each for as long
as a lease of a window, a grace and some seconds take, and what it takes to end the transactions of the frozen. Others
are stopped with tasks in hand; a turn, a window and tasks are asked for when they stand still. What the one did is written down
by itself and by the log, and the checker judges it (chaos/checker/alone.py). When all is done it is over; one that dies before
that, by a fault inside of it, is not judged, and another is tried.

Those who stood still are zombies afterwards, as after any freeze, and are told as such.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from psycopg.types.json import Jsonb

from chaos import terms
from chaos.checker import alone
from chaos.fleet import Fleet, Slot
from chaos.history import History, Line, read
from chaos.sea import Sea

# Who is left alone, one after another; each may be tried so often.
ROLES = ("worker", "worker", "dog")
TRIES = 6  # one that does the work of all meets its own faults more often
# Whoever is frozen in a transaction hides its rows until PostgreSQL ends that, or in the middle of a statement the next look of
# the one who is left; and the machine may be busy.
ENDED_SECONDS, SPARE_SECONDS = 3.0, 4.0
# What others are to have in hand when they are stopped, and how long they have to take it.
JOBS = 6
TAKEN_SECONDS = 10.0
TICK_SECONDS, LOOK_SECONDS = 0.01, 0.25
# Whether somebody has fired, and taken back a task, since the log was there.
DONE = """
    select exists (select from ferryman.tasks where schedule is not null and fire_time > to_timestamp(%s)) and exists (
        select from ferryman.events where id > %s and kind = 'task' and reason_message = 'lease_expired'
        and at > to_timestamp(%s)) as done
"""
HELD = """
    select count(*) as n from ferryman.tasks as task join ferryman.workers as worker on worker.boot_id = task.lease_owner
    where task.state = 'running' and worker.pid = any(%s)
"""


def seconds(lease: float) -> float:
    """Say how long one is left alone, from when it was asked for something."""
    return lease * terms.INGEST_OF_LEASE + lease + SPARE_SECONDS


class Alone:
    """Leaves some survivors alone, one after another."""

    def __init__(self, sea: Sea, fleet: Fleet, told: History, *, lease: float, step: Callable[[float], object]) -> None:
        """Take those of a fleet; `step` is what must go on meanwhile."""
        self._sea = sea
        self._fleet = fleet
        self._told = told
        self._lease = lease
        self._step = step
        self._tried: set[int] = set()

    def each(self) -> Iterator[str]:
        """Leave one after another alone; say what went wrong with that, and not with them."""
        for role in ROLES:
            for _ in range(TRIES):
                one = self._next(role)
                if one is None:
                    break
                self._tried.add(one.pid)
                wrong, whole = self._leave(one)
                yield from wrong
                self._wait(self._lease)  # those who stood still come back, and find that their time was over
                if whole:
                    break

    def _next(self, role: str) -> Slot | None:
        """Choose who has lived longest."""
        found = [slot for slot in self._fleet.of(role) if slot.pid not in self._tried and self._fleet.works(slot)]
        return min(found, key=lambda slot: slot.born_at, default=None)

    def _leave(self, one: Slot) -> tuple[list[str], bool]:
        """Leave one alone; say whether it can be judged."""
        pid, name = one.pid, f"{one.name}.{one.nth:04}"
        if not self._await_held(one):
            return [], False
        place = sum(row["last"] for row in self._sea.ask("select max(id) as last from ferryman.events"))
        self._freeze_others(one)
        since, wall, held = time.monotonic(), time.time(), self._held(one)
        self._wait(ENDED_SECONDS)
        wrong = list(self._fleet.errand("caller")) if one.role == "worker" else []
        now = looked = time.monotonic()
        end, done = now + seconds(self._lease), False
        while now < end and one.pid == pid and not done:
            self._step(now)
            self._freeze_others(one)  # whoever was just being born
            if now >= looked + LOOK_SECONDS:
                looked, asked = now, self._sea.ask(DONE, wall, place, wall + alone.ARRIVED_SECONDS)
                done = any(row["done"] for row in asked) and not alone.unbegun(self._said(name, since), one.role)
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
        whole = held > 0 and one.pid == pid
        if whole:
            self._told.write("alone", name=name, child=pid, role=one.role, since=since, held=held)
        for slot in self._fleet.slots:
            if slot.frozen_until is not None:
                self._fleet.thaw(slot)
        return wrong, whole

    def _said(self, name: str, since: float) -> list[Line]:
        """Give what one has said of late."""
        return [line for line in read(self._told.path.parent / f"{name}.history") if line["at"] >= since]

    def _await_held(self, one: Slot) -> bool:
        """Give others something to hold, and wait until they do."""
        key = f"alone:{one.name}:{one.nth}:{time.monotonic():.3f}"
        rows = [
            {"name": "job", "payload": {"key": f"{key}:{n}", "hold": self._lease / 2}, "idempotency_key": f"{key}:{n}"}
            for n in range(JOBS)
        ]
        self._sea.ask("select * from ferryman.create_tasks(%s)", Jsonb(rows))
        until = time.monotonic() + TAKEN_SECONDS
        while time.monotonic() < until:
            if self._held(one):
                return True
            self._step(time.monotonic())
            time.sleep(TICK_SECONDS)
        return False

    def _held(self, one: Slot) -> int:
        others = [slot.pid for slot in self._fleet.slots if slot.role == "worker" and slot is not one]
        return sum(row["n"] for row in self._sea.ask(HELD, others))

    def _freeze_others(self, one: Slot) -> None:
        for slot in self._fleet.of("worker", "dog"):
            if slot is not one:
                self._fleet.freeze(slot, float("inf"))
                name = f"{slot.name}.{slot.nth:04}"
                self._told.write("struck", kind="freeze", name=name, child=slot.pid, by="alone")

    def _wait(self, lasts: float) -> None:
        until = time.monotonic() + lasts
        while (now := time.monotonic()) < until:
            self._step(now)
            time.sleep(TICK_SECONDS)
