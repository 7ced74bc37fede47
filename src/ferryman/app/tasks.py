"""The door to tasks: what users reach as `app.tasks`."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from ferryman.app.cancels import Cancels
from ferryman.app.creates import Creates
from ferryman.app.handle import Handle, Handles
from ferryman.app.known import Function, Known, alone, or_empty, placed, said
from ferryman.kernel import errors, events, ids, payload, telemetry
from ferryman.kernel.codec import PLAIN, Seal
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line, Session, spoken
from ferryman.kernel.waiting import Waits
from ferryman.tasks.intake import read, signal
from ferryman.tasks.intake.create import Alike
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.intake.result import End, Progress, Waiting
from ferryman.tasks.intake.retry import Retried
from ferryman.tasks.model import Created, Draft, TaskRecord
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import keys, request
from ferryman.tasks.work import context
from ferryman.tasks.work.handlers import Handler

SET = 1000
UNSAID = (None,) * 14


class Tasks:
    """Create tasks, and ask about them."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        known: Known,
        owners: Owners,
        *,
        creates: Sequence[Line],
        keyed: Line,
        cancels: Line,
        flows: Line,
        tenant: str,
        ends_after: timedelta,
        payload_limit: int,
        poll: timedelta,
        patience: timedelta,
        rings_within: bool = False,
        seal: Seal = PLAIN,
    ) -> None:
        """Serve one tenant, and inside a handler that of its task; creates that come at one time share lines.

        Cancels hold rows and parents over several trips, so they go over a line too, whose transactions do not outlive a
        frozen process by more than 2 s (W23); one of their own, because a cancel may wait for a lock.
        """
        self._db = db
        self._cancelling = cancels
        self._cancels = Cancels(cancels, doorbell, owners, self._session, patience=patience)
        self._doorbell = doorbell
        self._known = known
        self._owners = owners
        self._tenant = tenant
        self._home: Database | None = db
        self._ends_after = ends_after
        self._limit = payload_limit
        self.seal = seal
        self._patience = patience
        self._waits = Waits(lambda tenant: Waiting(self._session, doorbell, tenant=tenant, poll=poll.total_seconds()))
        self._creates = Creates(
            db, doorbell, owners,
            lines=creates, keyed=keyed, flows=flows, ends_after=ends_after, patience=patience, rings_within=rings_within,
        )  # fmt: skip
        self.flows = self._creates.flows

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
        # Most creates say nothing but a name and a payload; they need not pay for what can be said.
        options = (
            at, task_id, queue, priority, timeout, max_retries, backoff, idempotency_key, idempotency_scope, ends_at, limit_key,
            singleton, debounce, debounce_key,
        )  # fmt: skip
        asked = {} if options == UNSAID else said(
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
        )  # fmt: skip
        draft = self._draft(task, arguments if given is None else alone(given, arguments), asked)
        return Handle(self, await self._creates.create(draft, connection))

    async def accept(self, asked: Mapping[str, Any], *, connection: object = None) -> Handle:
        """Create a task from a request in the form of the source: `{"schedule_type": "at", "scheduled_at": …}`."""
        return Handle(self, await self._creates.create(self._accepted(asked), connection))

    async def accept_many(self, asked: Sequence[Mapping[str, Any]]) -> Sequence[Handle]:
        """Create tasks from requests in the form of the source, all or none."""
        drafts = []
        for place, each in enumerate(asked):
            with placed(place):
                drafts.append(self._accepted(each))
        return [Handle(self, each) for each in await self._creates.create_all(drafts, None)]

    def _accepted(self, asked: Mapping[str, Any]) -> Draft:
        fields = request.fields(asked)
        return self._draft(fields.pop("name", None), or_empty(fields.pop("payload", None)), said(**fields))

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
        asked = said(
            schedule_type=None if at is None else request.AT,
            scheduled_at=at,
            queue=queue,
            priority=priority,
            timeout_ms=request.milliseconds(timeout),
            max_retries=max_retries,
            backoff=backoff,
            ends_at=ends_at,
        )
        like = self._draft(task, None, asked)
        _, handler, defaults = self._known.find(task)
        keyed = idempotency_keys is not None or idempotency_scope is not None
        if keyed or limit_key is not None or defaults.keys is not None or self._creates.looks(like.task):
            whole = list(payloads)
            drafts = request.many(like, [self._checked(handler, each) for each in whole])
            if keyed:
                drafts = request.keyed(drafts, idempotency_keys, idempotency_scope)
            drafts = keys.flowing(drafts, whole, defaults.keys, limit_key=limit_key)
            return [Handle(self, each) for each in await self._creates.create_all(drafts, connection)]
        waiting = iter(payloads)

        def some() -> Alike:
            return self._alike(handler, islice(waiting, SET))

        return Handles(self, await self._creates.create_alike(like, some, connection, full=SET))

    def _checked(self, handler: Handler | None, given: Any) -> str:
        text = payload.encode(given, limit=self._limit)
        if handler is not None:
            handler.fit(text)
        return self.seal.close(text)

    def _alike(self, handler: Handler | None, payloads: Iterable[Any]) -> Alike:
        encode, limit = payload.encode, self._limit
        texts = [encode(each, limit=limit) for each in payloads]
        if handler is not None:
            for text in texts:
                handler.fit(text)
        return Alike([ids.new_id() for _ in texts], list(map(self.seal.close, texts)))

    def _draft(self, task: str | Function | None, given: Any, asked: dict[str, Any]) -> Draft:
        name, handler, defaults = self._known.find(task)
        text = payload.encode(given, limit=self._limit)
        if handler is not None and given is not None:
            handler.fit(text)
        keyed = {field: asked.pop(field) for field in keys.FIELDS if field in asked} if asked else asked
        sealed, trace = self.seal.close(text), telemetry.carry()
        if asked:
            draft = request.draft(
                tenant=self.tenant, name=name, payload=sealed, defaults=defaults, traceparent=trace, **asked
            )
        else:
            draft = request.plain(self.tenant, name, sealed, defaults, trace)
        self._known.serves(draft.task.queue)
        if keyed or (defaults.keys is not None and given is not None):
            draft = draft._replace(task=keys.keyed(draft.task, defaults.keys, keyed, given))
        return draft

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
        return self.seal.shown(found, "payload", "result")

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
            page = await read.page(
                tx, tenant=self.tenant, state=state, queue=queue, name=name, before=before, limit=limit
            )
        return [self.seal.shown(each, "payload", "result") for each in page]

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

    async def steps(self, task_id: str | UUID) -> Sequence[read.Step]:
        """Read what a task remembers of its durable calls, in order."""
        id = (await self.record(task_id)).id
        async with self._session() as tx:
            found = await read.steps(tx, id, tenant=self.tenant)
        return [each if each.result is None else each._replace(result=self.seal.shown(each.result)) for each in found]

    async def explain(self, task_id: str | UUID) -> Explanation:
        """Say what a task is doing, why it is not running, and what ends it and when."""
        async with self._session() as tx:
            told = await explain(tx, task_id, tenant=self.tenant)
        if told is None:
            raise errors.TaskNotFound(f"There is no task {task_id} for tenant {self.tenant}.", task_id=str(task_id))
        return told

    async def end(self, id: UUID) -> End:
        """Wait until a task has ended, and say how."""
        return self.seal.shown(await self._waits.of(self.tenant).end(id), "result")

    def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give a task's progress whenever it changes, until it has ended."""
        return self._waits.of(self.tenant).watch(id)

    # What is sent to a task

    async def send_event(self, task_id: str | UUID, name: str, given: Any = None, /) -> int:
        """Send an event to a task that has not ended, and return its number; `ctx.wait_event(name)` there takes it.

        It is kept until then. A send whose answer was lost may be kept twice if it is sent again.
        """
        text = None if given is None else self.seal.close(payload.encode(given, limit=self._limit))
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
            return await self._creates.cancel_lent(connection, task_ids, tenant=self.tenant, reason=reason)
        wanted = await read.ids_of(self._session, task_ids, tenant=self.tenant)
        return await self._cancels.cancel(wanted, tenant=self.tenant, reason=reason)

    async def retry(self, *task_ids: str | UUID, untried: bool = False) -> Sequence[Retried]:
        """Try failed or cancelled tasks anew: each as a new task, whose `retry_of` names the old one.

        Tasks that live, have succeeded or are being retried are left out of the answer; with `untried` also those that
        were tried anew before.
        """
        wanted = await read.ids_of(self._session, task_ids, tenant=self.tenant)
        return await self.flows.retry(wanted, tenant=self.tenant, untried=untried)

    async def close(self) -> None:
        """Send what is under way; let nobody wait any more."""
        await self._creates.close()
        await self._waits.close()
        await self._cancelling.close()
