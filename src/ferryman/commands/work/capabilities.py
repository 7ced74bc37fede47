"""The user's capabilities as handlers of tasks (C4).

A capability gets its input by name, as a task does its payload, and returns a result. It never sees the table of async tasks:
what it tells of itself goes through the mirror, and its end through the orchestrator.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from uuid import UUID

from ferryman.commands.rules import names, plan
from ferryman.commands.work.mirror import SOON, Mirror
from ferryman.kernel import errors, payload
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work import handlers
from ferryman.tasks.work.context import Context
from ferryman.tasks.work.handlers import Function, Handler, Kind

CONTEXT = "told"


def capability(function: Function, *, task_type: str, mirror: Callable[[], Mirror], defaults: Defaults) -> Handler:
    """Return the handler of a capability."""
    inner = handlers.declare(function, name=task_type, process=False, defaults=defaults)
    made = _Capability(inner, task_type, mirror)
    asynchronous = inspect.iscoroutinefunction(function)
    run: Function = made.run if asynchronous else made.run_plain
    kind = Kind.ASYNC if asynchronous else Kind.THREAD
    return Handler(names.CAPABILITY + task_type, run, kind, CONTEXT, made.fit, defaults)


class _Capability:
    """A function, and what is done around each of its calls."""

    def __init__(self, inner: Handler, task_type: str, mirror: Callable[[], Mirror]) -> None:
        self._inner = inner
        self._type = task_type
        self._mirror = mirror

    def fit(self, text: str) -> dict[str, Any]:
        """Read the message, and check its input against the function's parameters."""
        given = payload.decode(text)
        return {"given": given, "arguments": self._inner.fit(payload.encode(given["input"]))}

    async def run(self, *, given: dict[str, Any], arguments: dict[str, Any], told: Context) -> dict[str, Any]:
        """Call an async function."""
        self._begin(given, arguments, told)
        try:
            return self._end(given, await self._inner.function(**arguments))
        finally:
            self._mirror().end(told.task)
            if told.spoke:
                await self._mirror().written()

    def run_plain(self, *, given: dict[str, Any], arguments: dict[str, Any], told: Context) -> dict[str, Any]:
        """Call a plain function, in its thread."""
        self._begin(given, arguments, told)
        try:
            return self._end(given, self._inner.function(**arguments))
        finally:
            self._mirror().end(told.task)
            if told.spoke and told.main is not None:
                written = self._mirror().written()
                asyncio.run_coroutine_threadsafe(written, told.main.get_loop()).result(2 * SOON)

    def _begin(self, given: dict[str, Any], arguments: dict[str, Any], told: Context) -> None:
        task, async_task = told.task, UUID(given["async_task_id"])
        # Not by way of `told`: a context that holds what holds it is garbage that nobody collects for a while.
        told.heard = lambda percent: self._mirror().tell(task, async_task, percent)
        if given["later"] or told.attempt > 1:
            self._mirror().tell(task, async_task, None)
        else:
            self._mirror().begin(task, async_task)
        if self._inner.context is not None:
            arguments[self._inner.context] = told

    def _end(self, given: dict[str, Any], answer: Any) -> dict[str, Any]:
        try:
            result = plan.result(answer, task_type=self._type)
        except errors.CommandInvalidRequest as error:
            raise errors.DoNotRetry(f"{self._type} returned a result that cannot be told: {error.message}") from None
        data = {"session_id": given["session_id"], "result": result.result, "correlation_id": given["command_id"]}
        return {"type": result.type, "data": data}
