"""What can be done by an app: the decorators that register functions, classes and what is agreed for them (S2).

Nothing here is connected to a database; the registries that are filled here are handed over when the app is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from typing import Any, TypeVar, overload

from ferryman.agents.ports import SettlesTurns
from ferryman.agents.rules import TOOL
from ferryman.agents.work.profiles import Profiles
from ferryman.app.mappings import Mappings
from ferryman.app.registry import Registry
from ferryman.app.schedules import Declared
from ferryman.app.sources import PLANS, declared
from ferryman.commands.orchestrator import Orchestrator
from ferryman.commands.rules import names
from ferryman.ingest.ports import Gate, Sink
from ferryman.ingest.registry import Sources
from ferryman.kernel import errors
from ferryman.kernel.settings import Settings
from ferryman.tasks.joins import CHILD
from ferryman.tasks.ports import Settles
from ferryman.tasks.rules.request import DEFAULT_NAME, Defaults
from ferryman.tasks.work.context import Context

# Whose ends the domains settle themselves.
TAKEN = frozenset({CHILD, TOOL, names.CALLBACK})

Handled = TypeVar("Handled", bound=Callable[..., Any])
Given = TypeVar("Given")


class Declarations(ABC):
    """The registries of an app."""

    def __init__(self, settings: Settings) -> None:
        """Begin with nothing declared."""
        self.settings = settings
        self._handlers = Registry(
            Defaults(timeout_ms=_ms(settings.tasks.timeout), max_retries=settings.tasks.max_retries)
        )
        self._declared = Declared(self._handlers)
        self._mappings = Mappings(self._handlers)
        self._orchestrator = Orchestrator(self._mappings.options, ends_after=settings.tasks.ends_after)
        self._settlers: dict[str, Settles] = {}
        self._turn_settlers: dict[str, SettlesTurns] = {}
        self._profiles = Profiles()
        self._sources = Sources()
        self._gate: Gate | None = None

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

    @overload
    def source(
        self, given: Given, /, *, sink: Sink, name: str | None = None, endpoint: str | None = None, **options: Any
    ) -> Given: ...

    @overload
    def source(
        self, /, *, sink: Sink, name: str | None = None, endpoint: str | None = None, **options: Any
    ) -> Callable[[Given], Given]: ...

    def source(
        self, given: Any = None, /, *, sink: Sink, name: str | None = None, endpoint: str | None = None, **options: Any
    ) -> Any:
        """Register where records come from: an async function of a request, a class or an object with `fetch`.

        Its pages go to `sink`. Options are those of ferryman.ingest.registry.Declared: ordered, strategy, params, page_items,
        safety_lag, credential, rate, burst, timeout, compile.
        """

        def register(found: Any) -> Any:
            self._sources.add(declared(found, name=name, endpoint=endpoint, sink=sink, **options))
            if PLANS not in self._handlers.handlers:
                self._handlers.add(self._plan_ingest, name=PLANS, process=False)
            return found

        return register if given is None else register(given)

    @abstractmethod
    async def _plan_ingest(self, ctx: Context, **asked: Any) -> dict[str, Any]:
        """Plan what a schedule asks of ingestion."""

    def gate(self, gate: Gate) -> None:
        """Say who tells how fast sources may be asked, in place of the gate that all executors share."""
        self._gate = gate

    def declare(self, name: str, **options: Any) -> None:
        """Know of a handler that runs in other processes, so that its tasks can be created here."""
        self._handlers.declare(name, **options)

    def on_command(self, *types: str, fact: str | None = None, **options: Any) -> Callable[[Handled], Handled]:
        """Register the function that maps commands of these types to messages for capabilities.

        It gets the `Command` and returns a `Message`, a `Fact`, a list of them, or None. `fact` is stated with what it asks
        for, by default `Theme.Requested` for `Theme.Request`. It runs as a task; the options are
        `queue`, `priority`, `timeout`, `max_retries` and `backoff`.
        """

        def register(function: Handled) -> Handled:
            self._mappings.on_command(function, *types, fact=fact, **options)
            return function

        return register

    def on_result(self, *types: str, **options: Any) -> Callable[[Handled], Handled]:
        """Register what follows results of these types: a function that gets the `Result` and returns as a mapping does."""

        def register(function: Handled) -> Handled:
            self._mappings.on_result(function, *types, **options)
            return function

        return register

    def capability(self, type: str, **options: Any) -> Callable[[Handled], Handled]:
        """Register a capability: a function that gets the input of its messages by name and returns the result.

        The type may be that of its tasks, its messages or its results. It runs as a task; the options are
        `queue`, `priority`, `timeout`, `max_retries` and `backoff`.
        """

        def register(function: Handled) -> Handled:
            self._mappings.capability(function, type, **options)
            return function

        return register

    def handlers(self) -> list[str]:
        """Name the handlers that run here."""
        return sorted(self._handlers.handlers)

    def served(self) -> Sequence[str]:
        """Name the queues that a worker serves here, unless it is told others."""
        return self._handlers.served(self.settings.worker.queues)

    def on_end(self, kind: str, owner: Settles) -> None:
        """Let an owner settle the ends of tasks that carry this kind of callback."""
        if kind in TAKEN:
            raise errors.CallbackTaken(f"Callbacks of kind {kind} are settled by Ferryman itself.", kind=kind)
        self._settlers[kind] = owner

    def on_turn_end(self, kind: str, owner: SettlesTurns) -> None:
        """Let an owner settle the ends of agents' turns that carry this kind of callback."""
        self._turn_settlers[kind] = owner


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
