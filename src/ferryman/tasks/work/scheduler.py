"""Firing schedules when they are due (T10, T11).

Any number of workers may fire at once. Each takes a set of due schedules, passing over what another holds, reckons in Python
what they fire and when they are due again, and writes all of it in one statement of the same transaction: tasks, the later
next_run_at, events. Whoever dies before the commit has done nothing; and a firing that was written is known by its
schedule and its time, which the database keeps unique.

A schedule that cannot be reckoned or written (its time zone is unknown on this machine) must not hold up the others: the set
is made smaller until it stands alone, and then it is put aside here for a while. Elsewhere it may fire; if it does not,
it is overdue, and W16 raises the alarm. So it is with one whose key an open transaction holds: it is waited for a moment only.
One that is to cancel a task which somebody holds is taken out of its set, and looked at again soon: such a row is held for a
moment by whoever renews or settles it, and for as long as they like by others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, faults, ids, locks, retry, telemetry
from ferryman.kernel.db import Row, Tx, sqlstate
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Line
from ferryman.tasks import firing, flow
from ferryman.tasks.joins import cancel_free
from ferryman.tasks.rules import rhythm
from ferryman.tasks.states import CANCELLED
from ferryman.tasks.store import schedules
from ferryman.tasks.store.schedules import Advance, NewFiring
from ferryman.tasks.work import births
from ferryman.tasks.work.lanes import named

log = telemetry.logger("schedules")

SET = 100
TASKS = 500
# What PostgreSQL says where an open transaction holds what a firing wants, a key or a child of what it cancels, for longer than
# it waits: for one lock by itself, or for many that took too long together.
CONTENDED = frozenset({"55P03", "57014"})
CANCEL = "cancel_previous"
OVERTAKEN = "its schedule fired again"
BUSY = retry.Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=2))
ASIDE = retry.Backoff(base=timedelta(seconds=5), cap=timedelta(minutes=5))
FORGET_SECONDS = 60.0  # after its time it was looked at again; what did not fail then was helped elsewhere


class Aside(NamedTuple):
    """A schedule that is left alone: by which pauses, how often in a row, until when."""

    pause: retry.Backoff
    tries: int
    until: float


class Scheduler:
    """Fire what is due, a set at a time."""

    def __init__(
        self, line: Line, doorbell: Doorbell, *, ends_after: timedelta, looks: flow.Looks = flow.keyed
    ) -> None:
        """Fire over a line that nobody else uses meanwhile; tasks that still wait after `ends_after` are cancelled (T21)."""
        self._looks = looks
        self._hurried = False
        self._displaced: Sequence[UUID] = ()
        self._line = line
        self._doorbell = doorbell
        self._ends_after = ends_after
        self._room = SET
        self._held: list[UUID] = []
        self._aside: dict[UUID, Aside] = {}

    def aside(self) -> list[UUID]:
        """Return the schedules that cannot be fired here and are left alone for now."""
        now = time.monotonic()
        return [id for id, each in self._aside.items() if each.until > now]

    async def once(self) -> int:
        """Fire one set; return how many schedules went on."""
        now = time.monotonic()
        self._aside = {id: each for id, each in self._aside.items() if each.until + FORGET_SECONDS > now}
        try:
            told, cancelled = await self._fire(self.aside())
        except errors.FerrymanError as error:
            if not (self._hurried and sqlstate(error.__cause__ or error) in CONTENDED):
                raise  # the database is away, or does not let us in: no schedule's fault
            return self._divide(error)
        except Exception as error:
            if not self._held:
                raise
            return self._divide(error)
        self._room = min(SET, self._room * 2)
        self._ring(told, cancelled)
        for row in told:
            self._aside.pop(row["id"], None)
        return len(told)

    def _divide(self, error: Exception) -> int:
        """Make the next set smaller; leave alone what stands alone already."""
        if len(self._held) == 1:
            self._leave(self._held[0], error)
        self._room = max(1, self._room // 2)
        return len(self._held)

    async def _fire(self, aside: Sequence[UUID]) -> tuple[Sequence[Row], list[UUID]]:
        async with self._line.transaction() as tx:
            fired = await self.fire(tx, aside=aside)
        if fired[0]:
            faults.point("fire.committed")
        return fired

    async def fire(self, tx: Tx, *, aside: Sequence[UUID] = ()) -> tuple[Sequence[Row], list[UUID]]:
        """Fire one set in a transaction; answer with the schedules that went on, and with the tasks cancelled for it."""
        self._held, self._hurried, self._displaced = [], False, ()
        due = await schedules.due(tx, aside=aside, limit=self._room)
        if due:
            await faults.apoint("fire.held")
        advances, firings = await self._without_busy(tx, due, *self._planned(due))
        if not advances:
            return (), []
        advances, firings = await self._look(tx, due, advances, firings)
        told = await schedules.fire(tx, advances, firings, ends_after=self._ends_after)
        previous = [id for row in told for id in row["previous"]]
        cancelled, children = await cancel_free(tx, previous, reason=OVERTAKEN) if previous else ([], [])
        await faults.apoint("fire.written")
        return told, [*cancelled, *children]

    async def _without_busy(
        self, tx: Tx, due: Sequence[Row], advances: list[Advance], firings: list[NewFiring]
    ) -> tuple[list[Advance], list[NewFiring]]:
        """Take out those that are to cancel what somebody else holds: the others need not wait for it."""
        self._held = [each.id for each in advances]
        cancelling = {row["id"] for row in due if row["overlap"] == CANCEL}.intersection(self._held)
        if not cancelling:
            return advances, firings
        await self._hurry(tx)
        busy = await schedules.previous(tx, cancelling)
        for id in busy:
            self._put_off(id)
        self._held = [id for id in self._held if id not in busy]
        return [each for each in advances if each.id not in busy], [
            each for each in firings if each.schedule not in busy
        ]

    async def _hurry(self, tx: Tx) -> None:
        """Wait for nobody for long from here on, in this transaction."""
        if not self._hurried:
            self._hurried = True
            await locks.hurry(tx)

    async def _look(
        self, tx: Tx, due: Sequence[Row], advances: list[Advance], firings: list[NewFiring]
    ) -> tuple[list[Advance], list[NewFiring]]:
        """Take out what may not be born; sets in which nothing has to look pay nothing."""
        rows = {row["id"]: row for row in due}
        if not any(self._looks(schedules.fired(rows[each.schedule], each)) for each in firings):
            return advances, firings
        await self._hurry(tx)
        looked = await firing.look(tx, rows, firings, self._looks)
        self._displaced = looked.displaced
        return firing.without(advances, firings, looked.answers)

    def _planned(self, due: Sequence[Row]) -> tuple[list[Advance], list[NewFiring]]:
        """Reckon what is due as far as one statement has room for; the rest is due still."""
        advances: list[Advance] = []
        firings: list[NewFiring] = []
        for row in due:
            if len(firings) >= TASKS:
                break
            try:
                plan = _plan(row, room=TASKS - len(firings))
            except (ValueError, OverflowError) as error:
                self._leave(row["id"], error)
                continue
            advances.append(Advance(row["id"], row["next_run_at"], plan.next_run_at, plan.missed, plan.skipped))
            firings += [NewFiring(ids.new_id(), row["id"], time) for time in plan.fire]
        return advances, firings

    def _put_aside(self, id: UUID, pause: retry.Backoff) -> int:
        last = self._aside.get(id)
        # One that was waited for has not failed yet, however often.
        tries = 1 if last is None or last.pause is not pause else last.tries + 1
        self._aside[id] = Aside(pause, tries, time.monotonic() + pause.delay(tries).total_seconds())
        return tries

    def _put_off(self, id: UUID) -> None:
        tries = self._put_aside(id, BUSY)
        log.info("the schedule %s waits for a task that is held", id, extra={"schedule": str(id), "tries": tries})

    def _leave(self, id: UUID, error: Exception) -> None:
        tries = self._put_aside(id, ASIDE)
        log.error("the schedule %s cannot be fired here: %s", id, error, extra={"schedule": str(id), "tries": tries})

    def _ring(self, told: Sequence[Row], cancelled: Sequence[UUID]) -> None:
        fired = [row for row in told if row["tasks"]]
        for row in fired:
            telemetry.created("task", row["queue"], len(row["tasks"]))
        lanes = {
            named(row["queue"], row["tenant"], keyed=row["limit_key"] is not None) for row in fired if not row["waits"]
        }
        if lanes:
            self._doorbell.ring("ready", lanes)
        if any(row["waits"] for row in fired):
            self._doorbell.ring("due")
        for topic, named_ids in births.displaced(self._displaced).items():
            self._doorbell.ring(topic, named_ids)
        if cancelled:
            hints = [str(id) for id in cancelled]
            self._doorbell.ring("cancel", hints)
            self._doorbell.ring("done", hints)
            telemetry.ended("task", CANCELLED.value, None, len(cancelled))


def _plan(row: Row, *, room: int) -> rhythm.Plan:
    when = rhythm.rhythm(
        cron_expr=row["cron_expr"],
        timezone=row["timezone"],
        interval_ms=row["interval_ms"],
        since=row["next_run_at"],
    )
    return rhythm.plan(
        when,
        due=row["next_run_at"],
        now=row["now"],
        catch_up=row["catch_up"],
        overlap=row["overlap"],
        ends_at=row["ends_at"],
        room=room,
    )
