"""The door to tasks: what users reach as `app.tasks`."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Protocol, TypeVar
from uuid import UUID

from ferryman.app.flows import Flows
from ferryman.app.handle import Handle, Handles
from ferryman.app.lent import SET, Lent
from ferryman.kernel import errors, events, faults, ids, payload, telemetry
from ferryman.kernel.doorbell import Doorbell, Inside
from ferryman.kernel.gather import Gather
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Database, Line, Session, spoken
from ferryman.tasks.intake import cancel, create, read, signal
from ferryman.tasks.intake.create import Alike
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.intake.flow import Retried
from ferryman.tasks.intake.result import End, Progress, Waiting
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Created, Draft, TaskRecord
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import keys, request
from ferryman.tasks.states import CANCELLED, READY, RUNNING
from ferryman.tasks.work import context
from ferryman.tasks.work.handlers import Handler
from ferryman.tasks.work.lanes import named

Function = Callable[..., Any]
Value = TypeVar("Value")


class Known(Protocol):
    """What the door must know of the app's handlers."""

    def find(self, task: str | Function | None) -> tuple[str, Handler | None, request.Defaults]:
        """Return the name of a handler, the handler if it is here, and its defaults; refuse one that nobody declared."""

    def serves(self, name: str) -> None:
        """Refuse a queue that an app which declares its queues has not declared."""


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
        flows: Line,
        tenant: str,
        ends_after: timedelta,
        payload_limit: int,
        poll: timedelta,
        patience: timedelta,
        rings_within: bool = False,
    ) -> None:
        """Serve one tenant, and inside a handler that of its task; creates that come at one time share a line.

        Cancels hold rows and parents over several trips, so they go over a line too, whose transactions do not outlive a
        frozen process by more than 2 s (W23); one of their own, because a cancel may wait for a lock.
        """
        self._db = db
        self._creating = creates
        self._cancelling = cancels
        self._doorbell = doorbell
        self._known = known
        self._owners = owners
        self._tenant = tenant
        self._home: Database | None = db
        self._ends_after = ends_after
        self._limit = payload_limit
        self._patience = patience.total_seconds()
        self._poll = poll.total_seconds()
        self._waiting: dict[str, Waiting] = {}
        self._creates: Gather[Draft, Created] = Gather(self._create_set)
        self.flows = Flows(db, doorbell, flows, self._patiently, ends_after=ends_after)
        self._lent = Lent(owners, self.flows, schema=db.schema, ends_after=ends_after, rings=rings_within)

    @property
    def tenant(self) -> str:
        """Whom the next call serves: inside a handler of this app the tenant of the running task, else the app's own."""
        return (None if self._home is None else context.tenant_in(self._home)) or self._tenant

    def of(self, tenant: str) -> Tasks:
        """Return the same door for one tenant, whatever task is running."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        door._home = None  # noqa: SLF001
        return door

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
        limit_key: str | None = None,
        singleton: str | bool | None = None,
        debounce: timedelta | float | None = None,
        debounce_key: str | None = None,
        connection: object = None,
        **arguments: Any,
    ) -> Handle:
        """Create a task, and answer when it is stored.

        The payload is given whole, or as keyword arguments. `at` lets it wait for its time. Tasks of one queue and
        `limit_key` share slots; while one with the same `singleton` lives, that one is the answer; `debounce` lets it wait so
        long, and each call with the same key begins the wait anew, with the newest payload. With `connection`, an open
        transaction of the caller's, it is stored if and when the caller commits.
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
            limit_key=limit_key,
            singleton=singleton,
            debounce=debounce,
            debounce_key=debounce_key,
        )
        return Handle(self, await self._store(draft, connection))

    async def accept(self, asked: Mapping[str, Any], *, connection: object = None) -> Handle:
        """Create a task from a request in the form of the source: `{"schedule_type": "at", "scheduled_at": …}`."""
        fields = request.fields(asked)
        draft = self._draft(fields.pop("name", None), _or_empty(fields.pop("payload", None)), **fields)
        return Handle(self, await self._store(draft, connection))

    def _store(self, draft: Draft, connection: object) -> Awaitable[Created]:
        if connection is not None:
            return self._lent.create(connection, draft)
        return self.flows.create(draft) if self.flows.looks(draft) else self._creates(draft)

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
        idempotency_keys: Iterable[str] | None = None,
        idempotency_scope: str | None = None,
        limit_key: str | None = None,
        connection: object = None,
    ) -> Sequence[Handle]:
        """Create many tasks of one name, all or none; the options hold for each, the keys one by one.

        A key that exists answers with its task; one whose task differs is a conflict, and nothing is created.
        """
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
        _, handler, defaults = self._known.find(task)
        keyed = idempotency_keys is not None or idempotency_scope is not None
        if keyed or limit_key is not None or defaults.keys is not None or self.flows.looks(like):
            whole = list(payloads)
            drafts = request.many(like, [self._checked(handler, each) for each in whole])
            if keyed:
                drafts = request.keyed(drafts, idempotency_keys, idempotency_scope)
            drafts = keys.flowing(drafts, whole, defaults.keys, limit_key=limit_key)
            lent = connection is not None
            created = self._lent.create_all(connection, drafts) if lent else self.flows.create_all(drafts)
            return [Handle(self, each) for each in await created]
        if connection is not None:
            return Handles(self, await self._lent.create_many(connection, like, self._alike(handler, payloads)))
        waiting = iter(payloads)
        made: list[Alike] = []  # kept to be sent again if the answer is lost: their ids make the repeat harmless

        def next_set(place: int) -> Alike:
            if place == len(made):
                made.append(self._alike(handler, islice(waiting, SET)))
            return made[place]

        sets = await self._patiently(lambda: self._create_sets(like, next_set))
        self._born([(first, len(alike.ids)) for alike, first in sets])
        return Handles(self, sets)

    async def _create_sets(self, like: Draft, next_set: Callable[[int], Alike]) -> list[tuple[Alike, TaskRecord]]:
        created: list[tuple[Alike, TaskRecord]] = []
        async with self._db.transaction() as tx:
            place = 0
            alike = next_set(place)
            while alike.ids:
                sent = asyncio.ensure_future(create.create_alike(tx, like, alike, ends_after=self._ends_after))
                place += 1
                try:
                    await asyncio.sleep(0)  # PostgreSQL inserts this set while Python makes the next
                    following = next_set(place)
                finally:
                    first = await sent
                created.append((alike, first))
                alike = following
        return created

    def _checked(self, handler: Handler | None, given: Any) -> str:
        text = payload.encode(given, limit=self._limit)
        if handler is not None:
            handler.fit(text)
        return text

    def _alike(self, handler: Handler | None, payloads: Iterable[Any]) -> Alike:
        encode, limit = payload.encode, self._limit
        texts = [encode(each, limit=limit) for each in payloads]
        if handler is not None:
            for text in texts:
                handler.fit(text)
        return Alike([ids.new_id() for _ in texts], texts)

    def _draft(self, task: str | Function | None, given: Any, **fields: Any) -> Draft:
        name, handler, defaults = self._known.find(task)
        text = payload.encode(given, limit=self._limit)
        if handler is not None and given is not None:
            handler.fit(text)
        asked = {field: value for field, value in fields.items() if value is not None}
        keyed = {field: asked.pop(field) for field in keys.FIELDS if field in asked} if asked else asked
        make = request.draft if asked else request.plain
        draft = make(
            tenant=self.tenant, name=name, payload=text, defaults=defaults, traceparent=telemetry.carry(), **asked
        )
        self._known.serves(draft.task.queue)
        if keyed or (defaults.keys is not None and given is not None):
            draft = draft._replace(flow=keys.flow(defaults.keys, keyed, given, name=name))
        return draft

    async def _create_set(self, drafts: list[Draft]) -> Sequence[Created | Exception]:
        ring = self._ring_inside(drafts)
        try:
            answers = await self._patiently(lambda: self._create_once(drafts, ring))
        except Exception as error:  # noqa: BLE001 - raised at its own caller
            ours = isinstance(error, errors.FerrymanError) and not isinstance(error, errors.StatementRefused)
            if ours or len(drafts) == 1:
                return [error] * len(drafts)
            # One of them is refused by PostgreSQL; the others must not suffer by their company.
            return [each for draft in drafts for each in await self._create_set([draft])]
        born = [(each.task, 1) for each in answers if isinstance(each, Created) and not each.idempotent_hit]
        self._born(born, here=ring is not None and ring.rung)
        return answers

    def _ring_inside(self, drafts: list[Draft]) -> Inside | None:
        """Let the transaction ring for tasks that can be claimed as soon as it commits."""
        if any(each.task.scheduled_at is not None for each in drafts):
            return None
        return self._doorbell.inside("ready", {named(each.task.queue, each.task.tenant) for each in drafts})

    async def _create_once(self, drafts: list[Draft], ring: Inside | None) -> list[Created | errors.TaskDuplicate]:
        faults.point("create.before")
        answers = await create.create(self._creating, drafts, ends_after=self._ends_after, ring=ring)
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

    def _born(self, created: Sequence[tuple[TaskRecord, int]], *, here: bool = False) -> None:
        """Count and ring for tasks that are stored: records, each with how many there are of its kind.

        With `here` the transaction has rung for the other processes.
        """
        counts: Counter[str] = Counter()
        ready: set[str] = set()
        pending = False
        for task, count in created:
            counts[task.queue] += count
            if task.state is READY:
                ready.add(named(task.queue, task.tenant))
            else:
                pending = True
        for queue, count in counts.items():
            telemetry.created("task", queue, count)
        if pending:
            self._doorbell.ring("due")
        if ready:
            self._doorbell.ring("ready", ready, here=here)

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

    async def explain(self, task_id: str | UUID) -> Explanation:
        """Say what a task is doing, why it is not running, and what ends it and when."""
        async with self._session() as tx:
            told = await explain(tx, task_id, tenant=self.tenant)
        if told is None:
            raise errors.TaskNotFound(f"There is no task {task_id} for tenant {self.tenant}.", task_id=str(task_id))
        return told

    async def end(self, id: UUID) -> End:
        """Wait until a task has ended."""
        return await self._waits().end(id)

    def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give a task's progress whenever it changes, until it has ended."""
        return self._waits().watch(id)

    def _waits(self) -> Waiting:
        tenant = self.tenant
        if tenant not in self._waiting:
            for each in [each for each, waiting in self._waiting.items() if waiting.idle]:
                del self._waiting[each]
            self._waiting[tenant] = Waiting(self._session, self._doorbell, tenant=tenant, poll=self._poll)
        return self._waiting[tenant]

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

    async def cancel(
        self, *task_ids: str | UUID, reason: str | None = None, connection: object = None
    ) -> Sequence[UUID]:
        """Cancel tasks that have not ended; return those that were cancelled now, or will be when the caller commits."""
        reason = request.reason(reason)
        if connection is not None:
            return await self._lent.cancel(connection, task_ids, tenant=self.tenant, reason=reason)
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
            freed = {row["queue"] for row in rows if row["from_state"] == RUNNING.value}
            if freed:
                self._doorbell.ring("ready", [named(queue, "", keyed=True) for queue in freed])
            telemetry.ended("task", CANCELLED.value, None, len(hints))
        if after.lanes:
            self._doorbell.ring("ready", after.lanes)
        return told

    async def retry(self, *task_ids: str | UUID, untried: bool = False) -> Sequence[Retried]:
        """Try failed or cancelled tasks anew: each as a new task, whose `retry_of` names the old one.

        Tasks that live, have succeeded or are being retried are left out of the answer; with `untried` also those that
        were tried anew before.
        """
        wanted = [await self._id(each) for each in task_ids]
        return await self.flows.retry(wanted, tenant=self.tenant, untried=untried)

    async def _id(self, task_id: str | UUID) -> UUID:
        if isinstance(task_id, UUID):
            return task_id
        return request.as_uuid(ids.check_name(task_id, "task_id")) or (await self.record(task_id)).id

    async def close(self) -> None:
        """Send what is under way; let nobody wait any more."""
        await self._creates.drain()
        await self.flows.close()
        for waiting in list(self._waiting.values()):
            await waiting.close()
        await self._creating.close()
        await self._cancelling.close()


def _or_empty(given: Any) -> Any:
    return {} if given is None else given


def _alone(given: Any, arguments: dict[str, Any]) -> Any:
    if arguments:
        raise errors.TaskInvalidPayload("Give the payload whole or as keyword arguments, not both.")
    return given
