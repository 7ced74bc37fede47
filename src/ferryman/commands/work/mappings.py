"""The user's mappings as handlers of tasks: of commands, and of results (C2, C5).

A mapping gets one thing, the command or the result, and returns what it asks for. What cannot be understood fails the command,
and is not tried again: it would be the same nonsense. What it raises is tried again, as with any task.
"""

from __future__ import annotations

import inspect
from typing import Any
from uuid import UUID

from ferryman.commands.model import Command, Fact, Plan, Result
from ferryman.commands.rules import names, plan
from ferryman.commands.rules.plan import Complete
from ferryman.kernel import errors, payload, telemetry
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work.context import Context
from ferryman.tasks.work.handlers import Function, Handler, Kind

CONTEXT = "told"


def on_command(function: Function, *, type: str, fact: str, complete: Complete, defaults: Defaults) -> Handler:
    """Return the handler of a command type; `fact` is stated with what it asks for."""
    said = f"on_command({type!r})"

    def read(given: dict[str, Any], told: Context) -> Command:
        return Command(UUID(given["command_id"]), given["type"], given["session_id"], given["payload"], told.tenant)

    def planned(command: Command, answer: Any) -> Plan:
        made = plan.read(answer, told=said, complete=complete)
        requested = Fact(fact, {"session_id": command.session_id, "input": command.payload})
        return made._replace(facts=[requested, *made.facts], session_id=command.session_id)

    return _Mapping(function, said, read, planned).handler(names.COMMAND + type, defaults)


def on_result(function: Function, *, type: str, complete: Complete, defaults: Defaults) -> Handler:
    """Return the handler of what follows results of a type."""
    said = f"on_result({type!r})"

    def read(given: dict[str, Any], told: Context) -> Result:
        return Result(
            given["type"], given["result"], UUID(given["async_task_id"]), UUID(given["command_id"]), given["session_id"],
            given["task_type"], given["input"], told.tenant,
        )  # fmt: skip

    def planned(result: Result, answer: Any) -> Plan:
        return plan.read(answer, told=said, complete=complete)._replace(session_id=result.session_id)

    return _Mapping(function, said, read, planned).handler(names.RESULT + type, defaults)


class _Mapping:
    """One function of one argument, and how its argument and its plan are made."""

    def __init__(self, function: Function, said: str, read: Function, planned: Function) -> None:
        if inspect.isclass(function) or not callable(function):
            raise errors.HandlerInvalid(f"{said}: expected a function, got {function!r}.")
        try:
            inspect.signature(function).bind(None)
        except TypeError:
            raise errors.HandlerInvalid(f"{said}: expected a function of one argument.") from None
        self._function = function
        self._read = read
        self._planned = planned

    def handler(self, name: str, defaults: Defaults) -> Handler:
        """Return it as a handler: on the event loop, or in a thread."""
        asynchronous = inspect.iscoroutinefunction(self._function)
        run: Function = self._run if asynchronous else self._run_plain
        kind = Kind.ASYNC if asynchronous else Kind.THREAD
        return Handler(name, run, kind, CONTEXT, lambda text: {"given": payload.decode(text)}, defaults)

    async def _run(self, *, given: dict[str, Any], told: Context) -> dict[str, Any]:
        known = self._read(given, told)
        return self._end(known, await self._function(known))

    def _run_plain(self, *, given: dict[str, Any], told: Context) -> dict[str, Any]:
        known = self._read(given, told)
        return self._end(known, self._function(known))

    def _end(self, given: Any, answer: Any) -> dict[str, Any]:
        try:
            made: Plan = self._planned(given, answer)
        except errors.CommandInvalidMapping as error:
            return plan.as_json(Plan(code=error.code, reason=error.message))
        return plan.as_json(made._replace(traceparent=telemetry.carry()))
