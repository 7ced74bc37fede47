"""The synchronous client, for scripts: a thread that runs the async one. There is no second implementation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from ferryman.app.blocking_batches import BlockingBatches
from ferryman.app.blocking_commands import BlockingCommands
from ferryman.app.blocking_ingest import BlockingIngest
from ferryman.app.blocking_turns import BlockingAgents
from ferryman.app.blocking_webhooks import BlockingWebhooks
from ferryman.app.ferryman import Ferryman
from ferryman.app.handle import Handle
from ferryman.app.queues import Queues
from ferryman.app.schedules import Schedules
from ferryman.kernel import errors
from ferryman.kernel.borrow import borrow_plain, drive
from ferryman.tasks.intake.explain import Explanation
from ferryman.tasks.intake.queues import Holder, Queue
from ferryman.tasks.intake.result import Progress
from ferryman.tasks.intake.retry import Retried
from ferryman.tasks.model import Firing, ScheduleRecord, TaskRecord

Value = TypeVar("Value")


class Client:
    """Create tasks and schedules, and ask about them, from plain code: `with Client(app) as client: client.create(...)`."""

    def __init__(self, app: Ferryman | str | None = None) -> None:
        """Take an app, or the address of a database."""
        self._app = app if isinstance(app, Ferryman) else Ferryman(app)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start the thread, and open the app on it."""
        started = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(started,), name="ferryman-client", daemon=True)
        self._thread.start()
        started.wait()
        try:
            self._run(self._app.open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the app, and end the thread."""
        try:
            self._run(self._app.close())
        finally:
            self._end()

    def _main(self, started: threading.Event) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._loop = loop
        loop.call_soon(started.set)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join(5)

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        if self._loop is None:
            work.close()
            raise errors.NotOpen("Use the client inside `with Client(app) as client:`.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run_on(self, connection: object, work: Callable[[Any], Coroutine[Any, Any, Value]]) -> Value:
        """Run on our thread or, with a caller's connection, in the caller's: it may not be used in another."""
        if connection is None:
            return self._run(work(None))
        return drive(work(borrow_plain(connection, schema=self._app.settings.schema)))

    def create(self, task: Any, given: Any = None, /, *, connection: object = None, **options: Any) -> BlockingHandle:
        """Create a task; the options are those of `app.tasks.create`. A connection given here is not async."""
        create = partial(self._app.tasks.create, task, given, **options)
        return BlockingHandle(self, self._run_on(connection, lambda lent: create(connection=lent)))

    def create_many(
        self, task: Any, payloads: Iterable[Any], *, connection: object = None, **options: Any
    ) -> Sequence[BlockingHandle]:
        """Create many tasks of one name, all or none."""
        create = partial(self._app.tasks.create_many, task, payloads, **options)
        return [BlockingHandle(self, each) for each in self._run_on(connection, lambda lent: create(connection=lent))]

    def accept(self, asked: Mapping[str, Any], *, connection: object = None) -> BlockingHandle:
        """Create a task from a request in the form of the source."""
        accept = partial(self._app.tasks.accept, asked)
        return BlockingHandle(self, self._run_on(connection, lambda lent: accept(connection=lent)))

    def get(self, task_id: str | UUID) -> BlockingHandle:
        """Find a task."""
        return BlockingHandle(self, self._run(self._app.tasks.get(task_id)))

    def explain(self, id: str | UUID) -> Explanation:
        """Say of anything what it is doing, why it is not running, and what ends it and when."""
        return self._run(self._app.explain(id))

    def list(self, **filters: Any) -> Sequence[TaskRecord]:
        """Read a page of tasks, newest first."""
        return self._run(self._app.tasks.list(**filters))

    def send_event(self, task_id: str | UUID, name: str, given: Any = None, /) -> int:
        """Send an event to a task that has not ended."""
        return self._run(self._app.tasks.send_event(task_id, name, given))

    def cancel(self, *task_ids: str | UUID, reason: str | None = None, connection: object = None) -> Sequence[UUID]:
        """Cancel tasks that have not ended."""
        cancel = partial(self._app.tasks.cancel, *task_ids, reason=reason)
        return self._run_on(connection, lambda lent: cancel(connection=lent))

    @property
    def schedules(self) -> BlockingSchedules:
        """The door to schedules."""
        return BlockingSchedules(self, self._app.schedules)

    def retry(self, *task_ids: str | UUID, untried: bool = False) -> Sequence[Retried]:
        """Try failed or cancelled tasks anew, each as a new task."""
        return self._run(self._app.tasks.retry(*task_ids, untried=untried))

    @property
    def commands(self) -> BlockingCommands:
        """The door to commands."""
        return BlockingCommands(self.run, lambda: self._app.commands)

    @property
    def ingest(self) -> BlockingIngest:
        """The door to ingestion."""
        return BlockingIngest(self.run, lambda: self._app.ingest)

    @property
    def webhooks(self) -> BlockingWebhooks:
        """The door to webhooks."""
        return BlockingWebhooks(self.run, lambda: self._app.webhooks)

    @property
    def queues(self) -> BlockingQueues:
        """The door to queues."""
        return BlockingQueues(self)

    @property
    def agents(self) -> BlockingAgents:
        """The door to agents and their turns."""
        return BlockingAgents(self.run, lambda: self._app.agents)

    @property
    def batches(self) -> BlockingBatches:
        """The door to batches."""
        return BlockingBatches(self.run, lambda: self._app.batches)

    @property
    def app(self) -> Ferryman:
        """The app behind this client."""
        return self._app

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run any coroutine of the app's and wait for it."""
        return self._run(work)


class BlockingQueues:
    """Ask about queues, agree on their limits, pause and resume them."""

    def __init__(self, client: Client) -> None:
        """Wrap the async door."""
        self._client = client

    @property
    def _door(self) -> Queues:
        return self._client.app.queues

    def list(self) -> Sequence[Queue]:
        """Read every queue that was declared or has something live."""
        return self._client.run(self._door.list())

    def get(self, name: str) -> Queue:
        """Read one queue."""
        return self._client.run(self._door.get(name))

    def holders(self, name: str) -> Sequence[Holder]:
        """Read which tasks of this tenant hold slots of a queue, and until when; `held` of the queue counts those of all."""
        return self._client.run(self._door.holders(name))

    def set(self, name: str, **terms: Any) -> Queue:
        """Change what is agreed; the terms are those of `app.queues.set`."""
        return self._client.run(self._door.set(name, **terms))

    def pause(self, name: str, *, tenant: str | None = None) -> None:
        """Let nothing of a queue start from now on; what runs goes on."""
        self._client.run(self._door.pause(name, tenant=tenant))

    def resume(self, name: str, *, tenant: str | None = None) -> None:
        """Let a paused queue go on."""
        self._client.run(self._door.resume(name, tenant=tenant))

    def pause_task(self, name: str) -> None:
        """Let no worker take tasks of this handler."""
        self._client.run(self._door.pause_task(name))

    def resume_task(self, name: str) -> None:
        """Let workers take tasks of this handler again."""
        self._client.run(self._door.resume_task(name))


class BlockingHandle:
    """One task, in its creator's hands."""

    def __init__(self, client: Client, handle: Handle) -> None:
        """Wrap the async handle."""
        self._client = client
        self._handle = handle
        self.idempotent_hit = handle.idempotent_hit

    @property
    def task(self) -> TaskRecord:
        """The record as it was when last read."""
        return self._handle.task

    @property
    def id(self) -> UUID:
        """The task's key."""
        return self._handle.id

    @property
    def task_id(self) -> str:
        """The name its creator gave it, or the text of its key."""
        return self._handle.task_id

    def answer(self) -> dict[str, Any]:
        """Return the answer to the create, in the form of the source."""
        return self._handle.answer()

    def refresh(self) -> TaskRecord:
        """Read the task as it is now."""
        return self._client.run(self._handle.refresh())

    def result(self, *, timeout: float | None = None) -> Any:
        """Wait for the end and return what the handler returned."""
        return self._client.run(self._handle.result(timeout=timeout))

    def send_event(self, name: str, given: Any = None, /) -> int:
        """Send the task an event."""
        return self._client.run(self._handle.send_event(name, given))

    def cancel(self, *, reason: str | None = None) -> bool:
        """Cancel the task; tell whether it was still live."""
        return self._client.run(self._handle.cancel(reason=reason))

    def watch(self) -> Iterator[Progress]:
        """Give the progress whenever it changes, until the end."""
        words = self._handle.watch().__aiter__()
        while (word := self._client.run(_next(words))) is not None:
            yield word


class BlockingSchedules:
    """Create schedules, ask about them, and stop them, from plain code."""

    def __init__(self, client: Client, door: Schedules) -> None:
        """Wrap the async door."""
        self._client = client
        self._door = door

    def create(self, task: Any, given: Any = None, /, **options: Any) -> ScheduleRecord:
        """Create a schedule; the options are those of `app.schedules.create`."""
        return self._client.run(self._door.create(task, given, **options)).schedule

    def accept(self, asked: Mapping[str, Any]) -> ScheduleRecord:
        """Create a schedule from a request in the form of the source."""
        return self._client.run(self._door.accept(asked)).schedule

    def get(self, schedule_id: str | UUID) -> ScheduleRecord:
        """Find a schedule by its id, or by the name its creator gave it."""
        return self._client.run(self._door.record(schedule_id))

    def list(self, **filters: Any) -> Sequence[ScheduleRecord]:
        """Read a page of schedules, newest first."""
        return self._client.run(self._door.list(**filters))

    def next(self, schedule_id: str | UUID, count: int = 5) -> Sequence[datetime]:
        """Return the next firings, in UTC."""
        return self._client.run(self._door.next(schedule_id, count))

    def firings(self, schedule_id: str | UUID, *, limit: int = 20) -> Sequence[Firing]:
        """Read the latest tasks of a schedule, the newest firing first."""
        return self._client.run(self._door.firings(schedule_id, limit=limit))

    def pause(self, schedule_id: str | UUID, *, reason: str | None = None) -> bool:
        """Let a schedule rest; tell whether it fired until now."""
        return self._client.run(self._door.pause(schedule_id, reason=reason))

    def resume(self, schedule_id: str | UUID) -> bool:
        """Let a paused schedule fire again; tell whether it rested until now."""
        return self._client.run(self._door.resume(schedule_id))

    def trigger(self, schedule_id: str | UUID) -> BlockingHandle:
        """Fire a schedule now."""
        return BlockingHandle(self._client, self._client.run(self._door.trigger(schedule_id)))

    def delete(self, schedule_id: str | UUID, *, reason: str | None = None) -> bool:
        """End a schedule for good; tell whether it was still there."""
        return self._client.run(self._door.delete(schedule_id, reason=reason))


async def _next(words: Any) -> Progress | None:
    try:
        word: Progress = await anext(words)
    except StopAsyncIteration:
        return None
    return word
