"""The door to tasks: what users reach as `app.tasks`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Protocol, TypeVar
from uuid import UUID

from ferryman.kernel import errors, events, faults, ids, payload, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Database, Line, Session, spoken
from ferryman.tasks.intake import cancel, create, read, signal
from ferryman.tasks.intake.result import End, Progress, Waiting, failure
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Created, Draft, TaskRecord
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import CANCELLED, PENDING, READY, SUCCEEDED
from ferryman.tasks.work.handlers import Handler
from ferryman.tasks.work.lanes import named

Function = Callable[..., Any]
Value = TypeVar("Value")

SET = 1000


class Known(Protocol):
    """What the door must know of the app's handlers."""

    def find(self, task: str | Function | None) -> tuple[str, Handler | None, request.Defaults]:
        """Return the name of a handler, the handler if it is here, and its defaults; refuse one that nobody declared."""


class Tasks:
    """Create tasks, and ask about them."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        known: Known,
        owners: Owners,
        *,
        creates: Line,
        cancels: Line,
        tenant: str,
        ends_after: timedelta,
        payload_limit: int,
        poll: timedelta,
        patience: timedelta,
    ) -> None:
        """Belong to one tenant; creates that come at one time share a line.

        Cancels hold rows and parents over several trips, so they go over a line too, whose transactions do not outlive a
        frozen process by more than 2 s (W23); one of their own, because a cancel may wait for a lock.
        """
        self._db = db
        self._creating = creates
        self._cancelling = cancels
        self._doorbell = doorbell
        self._known = known
        self._owners = owners
        self.tenant = tenant
        self._ends_after = ends_after
        self._limit = payload_limit
        self._patience = patience.total_seconds()
        self._waiting = Waiting(self._session, doorbell, tenant=tenant, poll=poll.total_seconds())
        self._creates: Gather[Draft, Created] = Gather(self._create_set)

    # What comes in

    async def create(
        self,
        task: str | Function,
        given: Any = None,
        /,
        *,
        at: datetime | None = None,
        task_id: str | UUID | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        idempotency_key: str | None = None,
        idempotency_scope: str | None = None,
        ends_at: datetime | None = None,
        **arguments: Any,
    ) -> Handle:
        """Create a task, and answer when it is stored.

        The payload is given whole, or as keyword arguments. `at` lets it wait for its time.
        """
        draft = self._draft(
            task,
            arguments if given is None else _alone(given, arguments),
            schedule_type=None if at is None else request.AT,
            scheduled_at=at,
            task_id=task_id,
            queue=queue,
            priority=priority,
            timeout_ms=request.milliseconds(timeout),
            max_retries=max_retries,
            backoff=backoff,
            idempotency_key=idempotency_key,
            idempotency_scope=idempotency_scope,
            ends_at=ends_at,
        )
        return Handle(self, await self._creates(draft))

    async def accept(self, asked: Mapping[str, Any]) -> Handle:
        """Create a task from a request in the form of the source: `{"schedule_type": "at", "scheduled_at": …}`."""
        fields = request.fields(asked)
        draft = self._draft(fields.pop("name", None), _or_empty(fields.pop("payload", None)), **fields)
        return Handle(self, await self._creates(draft))

    async def create_many(
        self,
        task: str | Function,
        payloads: Iterable[Any],
        *,
        at: datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        ends_at: datetime | None = None,
    ) -> Sequence[Handle]:
        """Create many tasks of one name, all or none; the options hold for each."""
        like = self._draft(
            task,
            None,
            schedule_type=None if at is None else request.AT,
            scheduled_at=at,
            queue=queue,
            priority=priority,
            timeout_ms=request.milliseconds(timeout),
            max_retries=max_retries,
            backoff=backoff,
            ends_at=ends_at,
        )
        handler = self._known.find(task)[1]
        waiting = iter(payloads)
        made: list[list[Draft]] = []  # kept to be sent again if the answer is lost: their ids make the repeat harmless

        def next_set(place: int) -> list[Draft]:
            if place == len(made):
                made.append(self._alike(like, handler, islice(waiting, SET)))
            return made[place]

        created = await self._patiently(lambda: self._create_sets(next_set))
        self._born(created)
        return [Handle(self, each) for each in created]

    async def _create_sets(self, next_set: Callable[[int], Sequence[Draft]]) -> Sequence[Created]:
        created: list[Created] = []
        async with self._db.transaction() as tx:
            place = 0
            drafts = next_set(place)
            while drafts:
                sent = asyncio.ensure_future(create.create(tx, drafts, ends_after=self._ends_after))
                place += 1
                try:
                    await asyncio.sleep(0)  # PostgreSQL inserts this set while Python makes the next
                    drafts = next_set(place)
                finally:
                    answers = await sent
                created.extend(_all_created(answers))
        return created

    def _alike(self, like: Draft, handler: Handler | None, payloads: Iterable[Any]) -> list[Draft]:
        drafts = []
        for each in payloads:
            text = payload.encode(each, limit=self._limit)
            if handler is not None:
                handler.fit(text)
            drafts.append(Draft(like.task._replace(id=ids.new_id(), payload=text), like.given))
        return drafts

    def _draft(self, task: str | Function | None, given: Any, **fields: Any) -> Draft:
        name, handler, defaults = self._known.find(task)
        text = payload.encode(given, limit=self._limit)
        if handler is not None and given is not None:
            handler.fit(text)
        return request.draft(
            tenant=self.tenant, name=name, payload=text, defaults=defaults, traceparent=telemetry.carry(), **fields
        )

    async def _create_set(self, drafts: list[Draft]) -> Sequence[Created | Exception]:
        try:
            answers = await self._patiently(lambda: self._create_once(drafts))
        except Exception as error:  # noqa: BLE001 - raised at its own caller
            ours = isinstance(error, errors.FerrymanError) and not isinstance(error, errors.StatementRefused)
            if ours or len(drafts) == 1:
                return [error] * len(drafts)
            # One of them is refused by PostgreSQL; the others must not suffer by their company.
            return [each for draft in drafts for each in await self._create_set([draft])]
        self._born([each for each in answers if isinstance(each, Created) and not each.idempotent_hit])
        return answers

    async def _create_once(self, drafts: list[Draft]) -> list[Created | errors.TaskDuplicate]:
        faults.point("create.before")
        answers = await create.create(self._creating, drafts, ends_after=self._ends_after)
        faults.point("create.committed")
        return answers

    async def _patiently(self, attempt: Callable[[], Awaitable[Value]]) -> Value:
        """Try again while the database is away, for a while: ids are made here, so a repeat creates nothing twice (K24)."""
        until = time.monotonic() + self._patience
        failures = 0
        while True:
            try:
                with spoken():
                    return await attempt()
            except errors.DatabaseUnavailable:
                failures += 1
                pause = RECONNECT.delay(failures).total_seconds()
                if time.monotonic() + pause > until:
                    raise
                await asyncio.sleep(pause)

    def _born(self, created: Sequence[Created]) -> None:
        for queue, count in Counter(each.task.queue for each in created).items():
            telemetry.created("task", queue, count)
        if any(each.task.state is PENDING for each in created):
            self._doorbell.ring("due")
        ready = {named(each.task.queue, each.task.tenant) for each in created if each.task.state is READY}
        if ready:
            self._doorbell.ring("ready", ready)

    # What is asked

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with spoken():
            async with self._db.session() as tx:
                yield tx

    async def get(self, task_id: str | UUID) -> Handle:
        """Find a task by its id, or by the task_id its creator gave it."""
        return Handle(self, Created(await self.record(task_id), idempotent_hit=True))

    async def record(self, task_id: str | UUID) -> TaskRecord:
        """Read a task as it is now."""
        async with self._session() as tx:
            found = await read.get(tx, task_id, tenant=self.tenant)
        if found is None:
            raise errors.TaskNotFound(f"There is no task {task_id} for tenant {self.tenant}.", task_id=str(task_id))
        return found

    async def list(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        name: str | None = None,
        before: UUID | None = None,
        limit: int = 50,
    ) -> Sequence[TaskRecord]:
        """Read a page of tasks, newest first; `before` is the id that the last page ended with."""
        async with self._session() as tx:
            return await read.page(
                tx, tenant=self.tenant, state=state, queue=queue, name=name, before=before, limit=limit
            )

    async def events(self, task_id: str | UUID) -> Sequence[events.Event]:
        """Read everything that happened to a task, in order."""
        id = (await self.record(task_id)).id
        async with self._session() as tx:
            return await events.of(tx, id, tenant=self.tenant)

    async def logs(self, task_id: str | UUID, *, after: int = 0, limit: int = 1000) -> Sequence[read.LogLine]:
        """Read what a task's handler said, in order."""
        id = (await self.record(task_id)).id
        async with self._session() as tx:
            return await read.logs(tx, id, tenant=self.tenant, after=after, limit=limit)

    async def end(self, id: UUID) -> End:
        """Wait until a task has ended."""
        return await self._waiting.end(id)

    def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give a task's progress whenever it changes, until it has ended."""
        return self._waiting.watch(id)

    # What is sent to a task

    async def send_event(self, task_id: str | UUID, name: str, given: Any = None, /) -> int:
        """Send an event to a task that has not ended, and return its number; `ctx.wait_event(name)` there takes it.

        It is kept until then. A send whose answer was lost may be kept twice if it is sent again.
        """
        text = None if given is None else payload.encode(given, limit=self._limit)
        with spoken():
            sent = await signal.send(self._cancelling, task_id, name, text, tenant=self.tenant)
        if sent.lane is not None:
            self._doorbell.ring("ready", [sent.lane])
        return sent.number

    # What is stopped

    async def cancel(self, *task_ids: str | UUID, reason: str | None = None) -> Sequence[UUID]:
        """Cancel tasks that have not ended; return those that were cancelled now."""
        reason = request.reason(reason)
        wanted = [await self._id(each) for each in task_ids]
        after = Aftermath()
        rows = await self._patiently(
            lambda: cancel.cancel(
                self._cancelling, self._owners, wanted, tenant=self.tenant, reason=reason, after=after
            )
        )
        told = [row["id"] for row in rows]
        if told:
            hints = [str(id) for id in (*told, *after.cancelled)]
            self._doorbell.ring("cancel", hints)
            self._doorbell.ring("done", hints)
            telemetry.ended("task", CANCELLED.value, None, len(hints))
        if after.lanes:
            self._doorbell.ring("ready", after.lanes)
        return told

    async def _id(self, task_id: str | UUID) -> UUID:
        if isinstance(task_id, UUID):
            return task_id
        return request.as_uuid(ids.check_name(task_id, "task_id")) or (await self.record(task_id)).id

    async def close(self) -> None:
        """Send what is under way; let nobody wait any more."""
        await self._creates.drain()
        await self._waiting.close()
        await self._creating.close()
        await self._cancelling.close()


class Handle:
    """One task, in its creator's hands."""

    __slots__ = ("_door", "idempotent_hit", "task")

    def __init__(self, door: Tasks, created: Created) -> None:
        """Keep the record as it was when it was answered; `refresh` reads it anew."""
        self._door = door
        self.task = created.task
        self.idempotent_hit = created.idempotent_hit

    @property
    def id(self) -> UUID:
        """The task's key."""
        return self.task.id

    @property
    def task_id(self) -> str:
        """The name its creator gave it, or the text of its key."""
        return self.task.task_id

    def answer(self) -> dict[str, Any]:
        """Return the answer to the create, in the form of the source."""
        return {"idempotent_hit": self.idempotent_hit, "task": self.task.as_json()}

    async def refresh(self) -> TaskRecord:
        """Read the task as it is now."""
        self.task = await self._door.record(self.id)
        return self.task

    async def result(self, *, timeout: float | None = None) -> Any:
        """Wait for the end and return what the handler returned; a task that did not succeed raises its code."""
        end = await asyncio.wait_for(self._door.end(self.id), timeout)
        if end.state is SUCCEEDED:
            return None if end.result is None else payload.decode(end.result)
        raise failure(end, self.task_id)

    def watch(self) -> AsyncIterator[Progress]:
        """Give the progress whenever it changes, until the end."""
        return self._door.watch(self.id)

    async def send_event(self, name: str, given: Any = None, /) -> int:
        """Send the task an event, which `ctx.wait_event(name)` in its handler takes."""
        return await self._door.send_event(self.id, name, given)

    async def cancel(self, *, reason: str | None = None) -> bool:
        """Cancel the task; tell whether it was still live."""
        return bool(await self._door.cancel(self.id, reason=reason))

    def __repr__(self) -> str:
        """Name the task."""
        return f"<task {self.task_id} {self.task.name} {self.task.state.value}>"


def _or_empty(given: Any) -> Any:
    return {} if given is None else given


def _alone(given: Any, arguments: dict[str, Any]) -> Any:
    if arguments:
        raise errors.TaskInvalidPayload("Give the payload whole or as keyword arguments, not both.")
    return given


def _all_created(answers: Sequence[Created | errors.TaskDuplicate]) -> list[Created]:
    for each in answers:
        if isinstance(each, errors.TaskDuplicate):
            raise each
    return [each for each in answers if isinstance(each, Created)]
