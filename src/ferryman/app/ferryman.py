"""The object users hold: decorators that register work, and doors to create it and to ask about it (S2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, time, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from ferryman.agents.ports import SettlesTurns
from ferryman.agents.work.profiles import Profiles
from ferryman.app import wiring
from ferryman.app.agents import Agents
from ferryman.app.batches import Batches
from ferryman.app.handle import Handle
from ferryman.app.profiles import Declares
from ferryman.app.queues import Queues
from ferryman.app.registry import Registry
from ferryman.app.schedules import Declared, Schedule, Schedules
from ferryman.app.tasks import Tasks
from ferryman.kernel import errors, migrate
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database
from ferryman.kernel.settings import Settings
from ferryman.tasks.ports import Settles
from ferryman.tasks.rules.request import DEFAULT_NAME, Defaults, recurring

log = logging.getLogger("ferryman")

Handled = TypeVar("Handled", bound=Callable[..., Any])


class Ferryman(Declares):
    """One application on one database.

    Without a database_url, here or in the environment, the embedded PostgreSQL of this directory is used and migrated.
    """

    def __init__(
        self, database_url: str | None = None, *, settings: Settings | None = None,
        doorbell: Doorbell | str | None = None, **overrides: Any,
    ) -> None:  # fmt: skip
        """Read the settings; nothing is connected yet. Overrides are settings by name, such as tenant='acme'.

        Settings may also be given whole, and a doorbell ready made.
        """
        if database_url is not None:
            overrides["database_url"] = database_url
        if isinstance(doorbell, str):
            overrides["doorbell"] = doorbell
            doorbell = None
        if settings is not None and overrides:
            raise errors.SettingsInvalid("Give settings whole or by name, not both.", field=min(overrides))
        self.settings = settings or Settings.load(overrides)
        self._handlers = Registry(
            Defaults(timeout_ms=_ms(self.settings.tasks.timeout), max_retries=self.settings.tasks.max_retries)
        )
        self._declared = Declared(self._handlers)
        self._profiles = Profiles()
        self._settlers: dict[str, Settles] = {}
        self._turn_settlers: dict[str, SettlesTurns] = {}
        self._given_doorbell = doorbell
        self._opened: wiring.Opened | None = None

    # What can be done

    @overload
    def task(self, function: Handled, /) -> Handled: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        limit_key: Any = None,
        singleton: Any = None,
        debounce: timedelta | float | None = None,
        debounce_key: Any = None,
        process: bool = False,
        default: bool = False,
    ) -> Callable[[Handled], Handled]: ...

    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: timedelta | float | None = None,
        max_retries: int | None = None,
        backoff: Any = None,
        limit_key: Any = None,
        singleton: Any = None,
        debounce: timedelta | float | None = None,
        debounce_key: Any = None,
        process: bool = False,
        default: bool = False,
    ) -> Any:
        """Register a function as the handler of tasks; it stays an ordinary function.

        An async function runs on the worker's event loop, a plain one in a thread or, with `process=True`, in a child
        process. `default=True` makes it the handler of requests that name none. Keys are made of each task's payload: by a
        text such as "customer-{customer}", or by a function of the payload; `singleton=True` is one for the name. The other
        options are those of `create` and hold for each task of this name that does not say otherwise.
        """

        def register(given: Handled) -> Handled:
            self._handlers.add(
                given,
                name=DEFAULT_NAME if default and name is None else name,
                process=process,
                queue=queue,
                priority=priority,
                timeout=timeout,
                max_retries=max_retries,
                backoff=backoff,
                limit_key=limit_key,
                singleton=singleton,
                debounce=debounce,
                debounce_key=debounce_key,
            )
            return given

        return register if function is None else register(function)

    def schedule(
        self, payload: Any = None, /, *, name: str | None = None, cron: str | None = None,
        daily: time | str | None = None, every: timedelta | float | str | None = None, timezone: str | None = None,
        catch_up: str | None = None, overlap: str | None = None, ends_at: datetime | None = None, **options: Any,
    ) -> Callable[[Handled], Handled]:  # fmt: skip
        """Let a handler's tasks be made by a schedule: stands above `@app.task`, as often as there are schedules.

        One of `cron`, `daily` and `every` says when; `timezone` is UTC if not given. A worker brings the database up to what
        stands here when it starts: a schedule is known by its name, by default the handler's, and keeps its next time as
        long as its rhythm is the same.
        """

        def register(function: Handled) -> Handled:
            self._declared.add(
                function, payload, name=name, cron=cron, daily=daily, every=every, timezone=timezone,
                catch_up=catch_up, overlap=overlap, ends_at=ends_at, **options,
            )  # fmt: skip
            return function

        return register

    def queue(
        self,
        name: str,
        *,
        weight: int = 1,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        max_depth: int | None = None,
        at_limit: str | None = None,
    ) -> None:
        """Declare a queue; it is stored when a worker starts. An app that declares queues refuses tasks for others.

        `concurrency` tasks run at once, over all workers; of those with one `limit_key`, `key_concurrency` (else 1). `rate`
        such as "100/minute" bounds the starts, `burst` how many of them may come at one moment. `weight` is the queue's share
        of a worker beside other queues. At `max_depth` tasks of a tenant that wait or run, `at_limit` says what becomes of the
        next: "refuse_newest", "cancel_oldest" or "coalesce" (answer with the newest that waits).
        """
        given = {
            "weight": weight, "concurrency": concurrency, "key_concurrency": key_concurrency, "rate": rate, "burst": burst,
            "max_depth": max_depth, "at_limit": at_limit,
        }  # fmt: skip
        self._handlers.queue(name, {field: value for field, value in given.items() if value is not None})

    def declare(self, name: str, **options: Any) -> None:
        """Know of a handler that runs in other processes, so that its tasks can be created here."""
        self._handlers.declare(name, **options)

    def handlers(self) -> list[str]:
        """Name the handlers that run here."""
        return sorted(self._handlers.handlers)

    def served(self) -> Sequence[str]:
        """Name the queues that a worker serves here, unless it is told others."""
        return self._handlers.served(self.settings.worker.queues)

    def on_end(self, kind: str, owner: Settles) -> None:
        """Let an owner settle the ends of tasks that carry this kind of callback."""
        self._settlers[kind] = owner

    def on_turn_end(self, kind: str, owner: SettlesTurns) -> None:
        """Let an owner settle the ends of agents' turns that carry this kind of callback."""
        self._turn_settlers[kind] = owner

    # Opening and closing

    async def open(self, *, unless: asyncio.Event | None = None) -> Self:
        """Connect to the database; a wrong address or missing tables are told here.

        A database that is away is an error. With `unless` it is waited for, until it is there or that event is set; in that
        case the app stays closed.
        """
        if unless is not None:
            await wiring.patiently(self.open, unless)
        elif self._opened is None:
            self._opened = await wiring.open_app(
                self.settings,
                self._handlers,
                wiring.owners_of(self.settings, self._settlers),
                doorbell=self._given_doorbell,
                turn_owners=self._turn_settlers,
                profiles=self._profiles,
            )
        return self

    async def close(self) -> None:
        """Let go of everything that was opened."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def __aenter__(self) -> Self:
        """Open the app."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the app."""
        await self.close()

    @property
    def _open(self) -> wiring.Opened:
        if self._opened is None:
            raise errors.NotOpen()
        return self._opened

    @property
    def tasks(self) -> Tasks:
        """The door to tasks."""
        return self._open.tasks

    @property
    def queues(self) -> Queues:
        """The door to queues."""
        return self._open.queues

    @property
    def agents(self) -> Agents:
        """The door to agents and their turns."""
        return self._open.agents

    @property
    def batches(self) -> Batches:
        """The door to batches."""
        return self._open.batches

    async def fork_join(self, tasks: Sequence[Mapping[str, Any]], **asked: Any) -> Mapping[str, Any]:
        """Ask several agents for turns at once, and wait for what became of all of them (see `batches.fork`)."""
        return await (await self.batches.fork(tasks, **asked)).result()

    @property
    def schedules(self) -> Schedules:
        """The door to schedules."""
        return self._open.schedules

    async def accept(self, asked: Mapping[str, Any]) -> Handle | Schedule:
        """Do what a request in the form of the source asks for: a task, or with cron, daily or every a schedule."""
        return await (self.schedules.accept(asked) if recurring(asked) else self.tasks.accept(asked))

    @property
    def database(self) -> Database:
        """The pool behind the doors; a handler may use it for its own tables."""
        return self._open.database

    @property
    def doorbell(self) -> Doorbell:
        """The doorbell of this process."""
        return self._open.doorbell

    async def migrate(self) -> list[str]:
        """Bring the database's tables up to this version; return what was applied."""
        return await migrate.migrate(await wiring.address(self.settings), schema=self.settings.schema)

    async def declare_queues(self) -> Sequence[str]:
        """Store what this app declares of its queues, as a worker does when it starts; name those that changed."""
        return await wiring.declare_queues(self._open)

    # Working

    async def work(self, *, stop: asyncio.Event | None = None, **terms: Any) -> None:
        """Run a worker, with its watchdog, until `stop` is set or the caller is cancelled.

        Terms are those of the settings' section `worker`, such as concurrency=20 or queues=["mail"]. The schedules that stand
        in the code are brought into the database first.
        """
        stop = stop or asyncio.Event()
        if await wiring.patiently(lambda: self.schedules.declare(self._declared), stop):
            await wiring.work(self._open, stop, **terms)

    @asynccontextmanager
    async def worker(self, **terms: Any) -> AsyncIterator[None]:
        """Run a worker beside the caller, as long as the block lasts."""
        stop = asyncio.Event()
        working = asyncio.create_task(self.work(stop=stop, **terms))
        try:
            yield
        finally:
            stop.set()
            await working


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
