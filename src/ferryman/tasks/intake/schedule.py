"""Schedules as their owners see them: create, declare, pause, resume, trigger, end, and questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import firing, flow
from ferryman.tasks.joins import cancel_free
from ferryman.tasks.model import (
    Created,
    Firing,
    NewSchedule,
    ScheduleCreated,
    ScheduleDraft,
    ScheduleRecord,
    TaskRecord,
)
from ferryman.tasks.rules import request, rhythm, standing
from ferryman.tasks.states import ACTIVE, ENDED, PAUSED, SCHEDULE, ScheduleState
from ferryman.tasks.store import schedules

log = telemetry.logger("tasks")

PAGE_MAX = 1000
UPCOMING_MAX = 1000
# A create that meets a schedule which ends before it can be read is sent again.
TRIES = 3


class Triggered(NamedTuple):
    """What a firing by hand came to: the task that was born, or the one that it met.

    `cancelled` are earlier tasks of the schedule, `displaced` those that made room in the queue.
    """

    task: UUID
    cancelled: Sequence[UUID] = ()
    displaced: Sequence[UUID] = ()
    met: TaskRecord | None = None


async def create(tx: Tx, draft: ScheduleDraft) -> ScheduleCreated:
    """Create a schedule, or answer with the one it met; TaskDuplicate if compared fields differ (T12)."""
    asked = draft.schedule
    for _ in range(TRIES):
        now = await schedules.clock(tx)
        born = await schedules.create(tx, asked, next_run_at=standing.first_run(asked, now=now))
        met = await schedules.existing(tx, asked)
        if born and "schedule_id" in met:
            return ScheduleCreated(met["schedule_id"], idempotent_hit=False)
        if met:
            return _compare(draft, met)
    raise errors.TaskDuplicate("A schedule with this id exists and cannot be shown.", conflict_fields=["task_id"])


def _compare(draft: ScheduleDraft, met: dict[str, ScheduleRecord]) -> ScheduleCreated:
    by_id, by_key = met.get("schedule_id"), met.get("idempotency_key")
    existing = by_id or by_key
    assert existing is not None
    if by_id is not None and by_key is not None and by_id.id != by_key.id:
        fields = ["task_id", "idempotency_key"]
    else:
        fields = standing.conflicts(draft, existing)
    if fields:
        raise errors.TaskDuplicate(
            f"The existing schedule differs from the request in {', '.join(fields)}.",
            conflict_fields=fields,
            existing=existing.as_task_json(),
        )
    # Our own id, made here: this very create was sent twice because its first answer was lost.
    made_here = draft.schedule.schedule_id is not None or "task_id" not in draft.given
    return ScheduleCreated(existing, idempotent_hit=not (made_here and existing.id == draft.schedule.id))


async def declare(tx: Tx, declared: Sequence[NewSchedule]) -> Sequence[Row]:
    """Bring what stands in the code into the database; answer with what was born or changed."""
    now = await schedules.clock(tx)
    coming = []
    for each in declared:
        try:
            coming.append((each, standing.first_run(each, now=now)))
        except errors.TaskInvalidSchedule as error:  # its day has passed: that must not keep a worker from starting
            log.warning("a schedule in the code fires no more: %s", error.message, extra={"schedule": each.schedule_id})
    return await schedules.declare(tx, coming) if coming else []


async def get(tx: Tx, schedule_id: str | UUID, *, tenant: str) -> tuple[ScheduleRecord, datetime]:
    """Find a schedule by its id, or by the name its creator gave it; also what time it is."""
    if isinstance(schedule_id, UUID):
        found = await schedules.get(tx, tenant=tenant, id=schedule_id, schedule_id=None)
    else:
        name = ids.check_name(schedule_id, "schedule_id")
        found = await schedules.get(tx, tenant=tenant, id=request.as_uuid(name), schedule_id=name)
    if found is None:
        raise _missing(schedule_id, tenant)
    return found


async def page(
    tx: Tx, *, tenant: str, state: object, name: object, before: object, limit: object
) -> list[ScheduleRecord]:
    """Read a page of schedules, newest first; what it is asked by comes from outside and is checked here."""
    if state is not None and (not isinstance(state, str) or state not in set(ScheduleState)):
        known = ", ".join(each.value for each in ScheduleState)
        raise errors.TaskInvalidRequest(f"state: expected one of {known}, got {request.shown(state)}.", field="state")
    if before is not None and not isinstance(before, UUID):
        got = request.shown(before)
        raise errors.TaskInvalidRequest(f"before: expected the id of a schedule, as a UUID, got {got}.", field="before")
    return await schedules.list_page(
        tx,
        tenant=tenant,
        state=state,
        name=None if name is None else ids.check_name(name, "name"),
        before=before,
        limit=request.whole(limit, "limit", 1, PAGE_MAX),
    )


async def firings(tx: Tx, id: UUID, *, tenant: str, limit: object) -> list[Firing]:
    """Read the latest tasks of a schedule, the newest firing first."""
    return await schedules.firings(tx, id, tenant=tenant, limit=request.whole(limit, "limit", 1, PAGE_MAX))


def upcoming(schedule: ScheduleRecord, *, now: datetime, count: object) -> list[datetime]:
    """Return the next firings; of a paused schedule those that a resume at once would lead to."""
    most = request.whole(count, "count", 1, UPCOMING_MAX)
    if schedule.state is ENDED:
        return []
    when = standing.of(schedule, since=schedule.next_run_at or now)
    due = schedule.next_run_at or rhythm.first(when, now=now, ends_at=schedule.ends_at)
    return [] if due is None else rhythm.upcoming(when, due=due, ends_at=schedule.ends_at, count=most)


async def pause(tx: Tx, schedule: ScheduleRecord, *, reason: str | None) -> bool:
    """Let a schedule rest; False if it was paused already."""
    if await schedules.pause(tx, schedule.id, tenant=schedule.tenant, reason=reason):
        return True
    return await _settled(tx, schedule, PAUSED)


async def resume(tx: Tx, schedule: ScheduleRecord) -> bool:
    """Let a schedule fire again from now on, in the caller's transaction; False if it was active already."""
    held, now, _row = await _take(tx, schedule)
    if held.state is not PAUSED:
        return await _settled(tx, schedule, ACTIVE)
    due = rhythm.first(standing.of(held, since=now), now=now, ends_at=held.ends_at)
    if due is None:
        raise request.unfit("ends_at", f"{held.schedule_id} has no firing to come: end it, and create another")
    return await schedules.resume(tx, held.id, tenant=held.tenant, next_run_at=due)


async def end(tx: Tx, schedule: ScheduleRecord, *, reason: str | None) -> bool:
    """End a schedule for good; False if it had ended. Tasks that it has fired go on."""
    return await schedules.end(tx, schedule.id, tenant=schedule.tenant, reason=reason)


async def trigger(
    tx: Tx, schedule: ScheduleRecord, *, ends_after: timedelta, looks: flow.Looks = flow.keyed
) -> Triggered:
    """Fire a schedule now, active or paused, in the caller's transaction; when it fires next stays as it is.

    Where a create would be answered with a task that is there, or refused, so is this.
    """
    held, now, row = await _take(tx, schedule)
    if held.state is ENDED:
        raise errors.InvalidTransition(
            f"{held.schedule_id} has ended and fires no more.", code=SCHEDULE.code, from_=ENDED, id=str(held.id)
        )
    new = schedules.NewFiring(ids.new_id(), held.id, now)
    looked = await firing.look(tx, {held.id: row}, [new], looks)
    match looked.answers.get(new.id):
        case errors.FerrymanError() as refusal:
            raise refusal
        case Created(task=met):
            return Triggered(met.id, met=met)
    told = await schedules.fire(
        tx, [schedules.Advance(held.id, None, None)], [new], ends_after=ends_after, by_hand=True
    )
    if not told or not told[0]["tasks"]:
        raise errors.ScheduleBusy(f"A task of {held.schedule_id} has not ended, and its overlap is {held.overlap!r}.")
    cancelled, children = await cancel_free(tx, told[0]["previous"], reason="its schedule was triggered")
    return Triggered(new.id, [*cancelled, *children], looked.displaced)


async def _take(tx: Tx, schedule: ScheduleRecord) -> schedules.Taken:
    found = await schedules.take(tx, tenant=schedule.tenant, id=schedule.id)
    if found is None:
        raise _missing(schedule.id, schedule.tenant)
    return found


async def _settled(tx: Tx, schedule: ScheduleRecord, wanted: ScheduleState) -> bool:
    """Answer for a move that moved nothing: it was there already, or it cannot be."""
    held, _now = await get(tx, schedule.id, tenant=schedule.tenant)
    if held.state is wanted:
        return False
    raise errors.InvalidTransition(code=SCHEDULE.code, from_=held.state, to=wanted, id=held.schedule_id)


def _missing(schedule_id: str | UUID, tenant: str) -> errors.ScheduleNotFound:
    return errors.ScheduleNotFound(
        f"There is no schedule {schedule_id} for tenant {tenant}.", schedule_id=str(schedule_id)
    )
