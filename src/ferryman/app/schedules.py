"""The door to schedules: what users reach as `app.schedules`, and what stands in their code as `@app.schedule`."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from ferryman.app.handle import Handle
from ferryman.app.known import Known
from ferryman.app.tasks import Tasks
from ferryman.kernel import errors, events, ids, payload, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line, Session, spoken
from ferryman.tasks.intake import schedule as intake
from ferryman.tasks.model import Created, Firing, ScheduleCreated, ScheduleDraft, ScheduleRecord
from ferryman.tasks.rules import keys, request, standing
from ferryman.tasks.states import CANCELLED
from ferryman.tasks.work import births

Function = Callable[..., Any]

# Options of app.tasks.create that a schedule cannot have, and what to do instead.
OF_ONE_TASK = {
    "at": "Its rhythm is cron, daily or every; a task for one time is made by app.tasks.create.",
    "task_id": "Name the schedule by schedule_id; each of its tasks has an id of its own.",
    "connection": "A schedule is not created in a caller's transaction.",
}
# Options of the tasks that a schedule in the code fires.
OF_DECLARED = frozenset({
    "queue", "priority", "timeout", "max_retries", "backoff", "limit_key", "singleton", "debounce", "debounce_key",
})  # fmt: skip
OF_RHYTHM = frozenset({"cron", "daily", "every", "timezone", "catch_up", "overlap", "ends_at"})


class Declared:
    """The schedules that stand in the code of an app; each is checked where it stands."""

    def __init__(self, known: Known) -> None:
        """Begin with none."""
        self._known = known
        self.drafts: dict[str, ScheduleDraft] = {}

    def add(self, function: Function, given: Any, *, name: str | None, **options: Any) -> None:
        """Take one; its name, by default the handler's, is given once."""
        if unknown := sorted(set(options) - OF_DECLARED - OF_RHYTHM):
            raise errors.HandlerInvalid(
                f"@app.schedule: {unknown[0]} is no option of a schedule in the code. Known: {', '.join(sorted(OF_DECLARED))}."
            )
        found = ids.check_name(name or self._known.find(function)[0], "name")
        if found in self.drafts:
            raise errors.HandlerInvalid(f"Two schedules are named {found}; give one of them another name.")
        fields = _fields(**options) | {"task_id": found, "declared": True}
        self.drafts[found] = _draft(self._known, function, _or_empty(given), fields, tenant="", limit=None)


class Schedules:
    """Create schedules, ask about them, and stop them."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        known: Known,
        tasks: Tasks,
        *,
        moves: Line,
        ends_after: timedelta,
        payload_limit: int,
    ) -> None:
        """Serve whom the door to tasks serves; what holds a schedule over several trips goes over a line (W23)."""
        self._db = db
        self._moves = moves
        self._doorbell = doorbell
        self._known = known
        self._tasks = tasks
        self._ends_after = ends_after
        self._limit = payload_limit

    @property
    def tenant(self) -> str:
        """Whom the next call serves: inside a handler of this app the tenant of the running task, else the app's own."""
        return self._tasks.tenant

    def of(self, tenant: str) -> Schedules:
        """Return the same door for one tenant, whatever task is running."""
        door = copy.copy(self)
        door._tasks = self._tasks.of(tenant)  # noqa: SLF001 - a copy of ours
        return door

    # What comes in

    async def create(
        self,
        task: str | Function,
        given: Any = None,
        /,
        *,
        cron: str | None = None,
        daily: time | str | None = None,
        every: timedelta | float | str | None = None,
        timezone: str | None = None,
        catch_up: str | None = None,
        overlap: str | None = None,
        schedule_id: str | UUID | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        idempotency_key: str | None = None,
        idempotency_scope: str | None = None,
        ends_at: datetime | None = None,
        limit_key: str | None = None,
        singleton: str | bool | None = None,
        debounce: timedelta | float | None = None,
        debounce_key: str | None = None,
        **arguments: Any,
    ) -> Schedule:
        """Create a schedule, and answer when it is stored; each of its firings is a task.

        One of `cron`, `daily` (a time of day) and `every` (an interval) says when; `timezone` is UTC if not given. The payload
        is given whole, or as keyword arguments. The other options are those of each task that it fires; `schedule_id`, the
        idempotency key and `ends_at` are the schedule's own.
        """
        _refuse_options_of_one_task(arguments)
        if given is not None and arguments:
            raise errors.TaskInvalidPayload("Give the payload whole or as keyword arguments, not both.")
        fields = _fields(
            cron=cron, daily=daily, every=every, timezone=timezone, catch_up=catch_up, overlap=overlap, ends_at=ends_at,
            queue=queue, priority=priority, timeout=timeout, max_retries=max_retries, backoff=backoff,
            limit_key=limit_key, singleton=singleton, debounce=debounce, debounce_key=debounce_key,
        )  # fmt: skip
        fields |= {
            "task_id": schedule_id,
            "idempotency_key": idempotency_key,
            "idempotency_scope": idempotency_scope,
        }
        return await self._create(task, arguments if given is None else given, fields)

    async def accept(self, asked: Mapping[str, Any]) -> Schedule:
        """Create a schedule from a request in the form of the source: `{"schedule_type": "cron", "cron_expr": …}`."""
        fields = standing.fields(asked)
        return await self._create(fields.pop("name", None), _or_empty(fields.pop("payload", None)), fields)

    async def _create(self, task: str | Function | None, given: Any, fields: dict[str, Any]) -> Schedule:
        draft = _draft(self._known, task, given, fields, tenant=self.tenant, limit=self._limit)
        # Not those that stand in the code: each start compares them with what is stored.
        sealed = self._tasks.seal.close(draft.schedule.payload)
        draft = draft._replace(schedule=draft.schedule._replace(payload=sealed))
        self._known.serves(draft.schedule.queue)
        async with self._session() as tx:
            created = await intake.create(tx, draft)
        self._doorbell.ring("due")
        return Schedule(self.of(created.schedule.tenant), created)

    async def declare(self, declared: Declared) -> Sequence[str]:
        """Bring what stands in the code into the database; return the names of what was new or has changed."""
        if not declared.drafts:
            return []
        async with self._session() as tx:
            # An id of its own for each process: a fork would bring those made with the code.
            ours = [draft.schedule._replace(id=ids.new_id(), tenant=self.tenant) for draft in declared.drafts.values()]
            rows = await intake.declare(tx, ours)
        if rows:
            self._doorbell.ring("due")
        return sorted(row["schedule_id"] for row in rows)

    # What is asked

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with spoken():
            async with self._db.session() as tx:
                yield tx

    async def get(self, schedule_id: str | UUID) -> Schedule:
        """Find a schedule by its id, or by the name its creator gave it."""
        found = await self.record(schedule_id)
        return Schedule(self.of(found.tenant), ScheduleCreated(found, idempotent_hit=True))

    async def record(self, schedule_id: str | UUID) -> ScheduleRecord:
        """Read a schedule as it is now."""
        async with self._session() as tx:
            return (await intake.get(tx, schedule_id, tenant=self.tenant))[0]

    async def list(
        self, *, state: str | None = None, name: str | None = None, before: UUID | None = None, limit: int = 50
    ) -> Sequence[ScheduleRecord]:
        """Read a page of schedules, newest first; `before` is the id that the last page ended with."""
        async with self._session() as tx:
            return await intake.page(tx, tenant=self.tenant, state=state, name=name, before=before, limit=limit)

    async def next(self, schedule_id: str | UUID, count: int = 5) -> Sequence[datetime]:
        """Return the next firings, in UTC; of a paused schedule those that a resume would lead to."""
        async with self._session() as tx:
            record, now = await intake.get(tx, schedule_id, tenant=self.tenant)
        return intake.upcoming(record, now=now, count=count)

    async def firings(self, schedule_id: str | UUID, *, limit: int = 20) -> Sequence[Firing]:
        """Read the latest tasks of a schedule, the newest firing first."""
        async with self._session() as tx:
            record, _now = await intake.get(tx, schedule_id, tenant=self.tenant)
            return await intake.firings(tx, record.id, tenant=self.tenant, limit=limit)

    async def events(self, schedule_id: str | UUID) -> Sequence[events.Event]:
        """Read everything that happened to a schedule, in order."""
        async with self._session() as tx:
            record, _now = await intake.get(tx, schedule_id, tenant=self.tenant)
            return await events.of(tx, record.id, tenant=self.tenant)

    # What is moved

    async def pause(self, schedule_id: str | UUID, *, reason: str | None = None) -> bool:
        """Let a schedule rest; tell whether it fired until now."""
        told = request.reason(reason)
        async with self._session() as tx:
            record, _now = await intake.get(tx, schedule_id, tenant=self.tenant)
            return await intake.pause(tx, record, reason=told)

    async def resume(self, schedule_id: str | UUID) -> bool:
        """Let a paused schedule fire again, from now on; tell whether it rested until now."""
        record = await self.record(schedule_id)
        with spoken():
            async with self._moves.transaction() as tx:
                moved = await intake.resume(tx, record)
        self._doorbell.ring("due")
        return moved

    async def trigger(self, schedule_id: str | UUID) -> Handle:
        """Fire a schedule now; when it fires next stays as it is."""
        record = await self.record(schedule_id)
        with spoken():
            async with self._moves.transaction() as tx:
                fired = await intake.trigger(tx, record, ends_after=self._ends_after, looks=self._tasks.flows.looks)
        tasks = self._tasks.of(record.tenant)
        if fired.met is not None:
            self._doorbell.ring("due")  # it may have been put off once more
            return Handle(tasks, Created(fired.met, idempotent_hit=True))
        task = await tasks.record(fired.task)
        for topic, hinted in (births.count([(task, 1)]) | births.displaced(fired.displaced)).items():
            self._doorbell.ring(topic, hinted)
        if fired.cancelled:
            hints = [str(id) for id in fired.cancelled]
            self._doorbell.ring("cancel", hints)
            self._doorbell.ring("done", hints)
            telemetry.ended("task", CANCELLED.value, None, len(hints))
        return Handle(tasks, Created(task, idempotent_hit=False))

    async def delete(self, schedule_id: str | UUID, *, reason: str | None = None) -> bool:
        """End a schedule for good; tell whether it was still there. Tasks that it has fired go on; its name is free again."""
        told = request.reason(reason)
        async with self._session() as tx:
            record, _now = await intake.get(tx, schedule_id, tenant=self.tenant)
            return await intake.end(tx, record, reason=told)

    async def close(self) -> None:
        """Let go of the line."""
        await self._moves.close()


class Schedule:
    """One schedule, in its creator's hands."""

    __slots__ = ("_door", "idempotent_hit", "schedule")

    def __init__(self, door: Schedules, created: ScheduleCreated) -> None:
        """Keep the record as it was when it was answered; `refresh` reads it anew."""
        self._door = door
        self.schedule = created.schedule
        self.idempotent_hit = created.idempotent_hit

    @property
    def id(self) -> UUID:
        """The schedule's key."""
        return self.schedule.id

    @property
    def schedule_id(self) -> str:
        """The name its creator gave it, or the text of its key."""
        return self.schedule.schedule_id

    def answer(self) -> dict[str, Any]:
        """Return the answer to the create, in the form of the source."""
        return {"idempotent_hit": self.idempotent_hit, "task": self.schedule.as_task_json()}

    async def refresh(self) -> ScheduleRecord:
        """Read the schedule as it is now."""
        self.schedule = await self._door.record(self.id)
        return self.schedule

    async def next(self, count: int = 5) -> Sequence[datetime]:
        """Return the next firings, in UTC."""
        return await self._door.next(self.id, count)

    async def firings(self, *, limit: int = 20) -> Sequence[Firing]:
        """Read its latest tasks, the newest firing first."""
        return await self._door.firings(self.id, limit=limit)

    async def pause(self, *, reason: str | None = None) -> bool:
        """Let it rest; tell whether it fired until now."""
        return await self._door.pause(self.id, reason=reason)

    async def resume(self) -> bool:
        """Let it fire again, from now on; tell whether it rested until now."""
        return await self._door.resume(self.id)

    async def trigger(self) -> Handle:
        """Fire it now; when it fires next stays as it is."""
        return await self._door.trigger(self.id)

    async def delete(self, *, reason: str | None = None) -> bool:
        """End it for good; tell whether it was still there."""
        return await self._door.delete(self.id, reason=reason)

    def __repr__(self) -> str:
        """Name the schedule."""
        return f"<schedule {self.schedule_id} {self.schedule.name} {self.schedule.state.value}>"


def _fields(
    *,
    cron: object = None,
    daily: object = None,
    every: object = None,
    timezone: str | None = None,
    timeout: Any = None,
    **others: Any,
) -> dict[str, Any]:
    """Return the fields of a request that say what Python's words mean."""
    said = {standing.CRON: cron, standing.DAILY: daily, standing.EVERY: every}
    kinds = [kind for kind, value in said.items() if value is not None]
    if len(kinds) != 1:
        got = " and ".join(kinds) or "none"
        raise request.unfit("schedule_type", f"expected one of cron, daily and every, got {got}")
    fields = {"schedule_type": kinds[0], "timezone": timezone, "timeout_ms": request.milliseconds(timeout), **others}
    if kinds[0] != standing.EVERY and timezone is None:
        fields["timezone"] = standing.UTC
    return fields | {"cron_expr": cron, "time_of_day": daily, "interval": every}


def _draft(
    known: Known, task: str | Function | None, given: Any, fields: dict[str, Any], *, tenant: str, limit: int | None
) -> ScheduleDraft:
    name, handler, defaults = known.find(task)
    text = payload.encode(given) if limit is None else payload.encode(given, limit=limit)
    if handler is not None:
        handler.fit(text)
    asked = {field: value for field in keys.FIELDS if (value := fields.pop(field, None)) is not None}
    draft = standing.draft(tenant=tenant, name=name, payload=text, defaults=defaults, **fields)
    flow = keys.flow(defaults.keys, asked, given, name=name)
    return draft if flow is None else draft._replace(schedule=draft.schedule._replace(**flow._asdict()))


def _refuse_options_of_one_task(arguments: Mapping[str, Any]) -> None:
    """Refuse options of a single task: as keyword arguments they would end in the payload."""
    for field, instead in OF_ONE_TASK.items():
        if field in arguments:
            raise errors.TaskInvalidRequest(
                f"{field}: a schedule has no such option. {instead} If the handler has an argument of this name, give the "
                "payload whole.",
                field=field,
            )


def _or_empty(given: Any) -> Any:
    return {} if given is None else given
