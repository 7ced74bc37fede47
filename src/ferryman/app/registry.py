"""The handlers that an app knows: those that run here, and those that are declared to run elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ferryman.kernel import errors, ids
from ferryman.tasks.rules import keys, queue
from ferryman.tasks.rules.request import DEFAULT_NAME, Defaults, draft, milliseconds, spelled
from ferryman.tasks.work.handlers import Fit, Handler, declare

Function = Callable[..., Any]


class Registry:
    """Names of handlers, their functions and their defaults."""

    def __init__(self, defaults: Defaults) -> None:
        """Begin empty; `defaults` are the app's own."""
        self._defaults = defaults
        self.handlers: dict[str, Handler] = {}
        self._elsewhere: dict[str, Defaults] = {}
        self._names: dict[Function, str] = {}
        self.queues: dict[str, dict[str, Any]] = {}

    def queue(self, name: str, terms: Mapping[str, Any]) -> None:
        """Declare a queue and what is agreed for it."""
        self.queues[ids.check_name(name, "queue")] = queue.columns(terms)

    def served(self, said: Sequence[str] | None) -> Sequence[str]:
        """Return the queues of a worker: those it was told, else the default one and those that are declared here."""
        return said or sorted({self._defaults.queue, *self.queues})

    def serves(self, name: str) -> None:
        """Refuse a queue that an app which declares its queues has not declared."""
        if self.queues and name not in self.queues and name != self._defaults.queue:
            near = get_close_matches(name, self.queues, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Declared here: {', '.join(sorted(self.queues)[:8])}."
            raise errors.UnknownQueue(f"This app declares its queues, and none is named {name}. {hint}", queue=name)

    def add(self, function: Function, *, name: str | None, process: bool, **options: Any) -> None:
        """Register a function under a name; a name is given once."""
        known = ids.check_name(name or getattr(function, "__name__", ""), "name")
        if known in self.handlers:
            raise errors.HandlerInvalid(f"Two handlers are named {known}; give one of them another name.")
        self.handlers[known] = declare(function, name=known, process=process, defaults=self._with(**options))
        self._names[function] = known

    def tool(self, function: Function, *, name: str, external: bool, **options: Any) -> Fit:
        """Register the function of a tool, unless somebody outside does it; return what checks arguments."""
        if external:
            return declare(function, name=name, process=False, defaults=self._with(**options)).fit
        self.add(function, name=name, process=False, **options)
        return self.handlers[name].fit

    def adopt(self, handler: Handler) -> None:
        """Take a handler that another part of the app has made."""
        if handler.name in self.handlers:
            raise errors.HandlerInvalid(f"Two handlers are named {handler.name}; give one of them another name.")
        self.handlers[handler.name] = handler

    def defaults(self, **options: Any) -> Defaults:
        """Check the options of a handler, and add those of the app."""
        return self._with(**options)

    def options(self, name: str) -> Defaults:
        """Return how tasks of a name are run: as its handler says, or as the app does."""
        handler = self.handlers.get(name)
        return handler.defaults if handler is not None else self._elsewhere.get(name, self._defaults)

    def declare(self, name: str, **options: Any) -> None:
        """Know of a handler that runs in other processes."""
        self._elsewhere[ids.check_name(name, "name")] = self._with(**options)

    def _with(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        timeout: Any = None,
        max_retries: int | None = None,
        backoff: Any = None,
        **declared: Any,
    ) -> Defaults:
        checked = draft(
            tenant="",
            name="",
            payload="",
            defaults=self._defaults,
            queue=queue,
            priority=priority,
            timeout_ms=milliseconds(timeout),
            max_retries=max_retries,
            backoff=backoff,
        ).task
        return Defaults(
            checked.queue,
            checked.priority,
            checked.timeout_ms,
            checked.max_retries,
            None if backoff is None else spelled(backoff),
            keys.declared(**declared),
        )

    def find(self, task: str | Function | None) -> tuple[str, Handler | None, Defaults]:
        """Return a handler's name, the handler if it runs here, and its defaults.

        An app that knows no handlers at all is a client of others': it may name what it likes.
        """
        name = task if isinstance(task, str) and task in self.handlers else self._name(task)
        handler = self.handlers.get(name)
        if handler is not None:
            return name, handler, handler.defaults
        if name in self._elsewhere:
            return name, None, self._elsewhere[name]
        if self.handlers or self._elsewhere:
            raise _unknown(name, [*self.handlers, *self._elsewhere])
        return name, None, self._defaults

    def _name(self, task: str | Function | None) -> str:
        if task is None:
            return DEFAULT_NAME
        if callable(task):
            found = self._names.get(task)
            if found is None:
                shown = getattr(task, "__name__", repr(task))
                raise errors.TaskUnknownHandler(f"{shown} is not a handler of this app; decorate it with @app.task.")
            return found
        return ids.check_name(task, "name")


def _unknown(name: str, known: list[str]) -> errors.TaskUnknownHandler:
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else f" Known here: {', '.join(sorted(known)[:8])}."
    return errors.TaskUnknownHandler(f"No handler is named {name}.{hint}", name=name)
