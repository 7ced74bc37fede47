"""What an app registers for commands: mappings, follow-ups and capabilities, as handlers of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferryman.app.registry import Registry
from ferryman.commands.model import Asked, Message
from ferryman.commands.rules import names, request, types
from ferryman.commands.work import mappings
from ferryman.commands.work.capabilities import capability
from ferryman.commands.work.mirror import Mirror
from ferryman.kernel import errors
from ferryman.tasks.rules.request import Defaults, draft, milliseconds

Function = Callable[..., Any]

UNSAID = (None,) * 4
# Keys of flow control are not among them: a step that met another's task would owe its end to another command.
OPTIONS = frozenset({"queue", "priority", "timeout", "max_retries", "backoff"})


class Mappings:
    """The functions of one app, by type."""

    def __init__(self, handlers: Registry) -> None:
        """Register with the app's handlers."""
        self._handlers = handlers
        self.mirror: Mirror | None = None  # there is one while the app is open

    def on_command(self, function: Function, *types_: str, fact: str | None, **options: Any) -> None:
        """Register the mapping of these command types."""
        for type in self._checked(types_, "on_command"):
            stated = request.check_type(fact or types.fact_of(type), "fact")
            self._handlers.adopt(
                mappings.on_command(
                    function,
                    type=type,
                    fact=stated,
                    complete=self.complete,
                    defaults=self._defaults(options),
                )
            )

    def on_result(self, function: Function, *types_: str, **options: Any) -> None:
        """Register what follows results of these types."""
        for type in self._checked(types_, "on_result"):
            self._handlers.adopt(
                mappings.on_result(function, type=type, complete=self.complete, defaults=self._defaults(options))
            )

    def capability(self, function: Function, type: str, **options: Any) -> None:
        """Register a capability, under the type of its tasks, its messages or its results."""
        [checked] = self._checked((type,), "capability")
        defaults = self._defaults(options)
        self._handlers.adopt(
            capability(function, task_type=types.normalised(checked), mirror=self._mirrored, defaults=defaults)
        )

    def _defaults(self, options: dict[str, Any]) -> Defaults:
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise errors.HandlerInvalid(
                f"{unknown[0]}: expected one of {', '.join(sorted(OPTIONS))}; it has no meaning here."
            )
        return self._handlers.defaults(**options)

    @staticmethod
    def _checked(given: tuple[str, ...], door: str) -> list[str]:
        if not given:
            raise errors.HandlerInvalid(f"@app.{door}: expected a type, such as 'Character.Request'.")
        try:
            return [request.check_type(each, "type") for each in given]
        except errors.CommandInvalidRequest as error:
            raise errors.HandlerInvalid(f"@app.{door}: {error.message}") from None

    def _mirrored(self) -> Mirror:
        if self.mirror is None:
            raise errors.NotOpen()
        return self.mirror

    @property
    def routes(self) -> list[str]:
        """The types of results that have follow-ups here."""
        return sorted(
            name.removeprefix(names.RESULT) for name in self._handlers.handlers if name.startswith(names.RESULT)
        )

    def options(self, name: str) -> Defaults:
        """Return how tasks of a name are run, as far as this app knows."""
        return self._handlers.options(name)

    def complete(self, message: Message, task_type: str) -> Asked:
        """Give a message the options of its capability, and check those it names itself."""
        known = self.options(names.CAPABILITY + task_type)
        if not isinstance(message.outside, bool):
            raise request.refusal(f"expected true or false, got {request.shown(message.outside)}", "outside")
        said = (message.queue, message.priority, message.timeout, message.max_retries)
        made = known if said == UNSAID else self._made(message, known)
        self._handlers.serves(made.queue)
        return Asked(
            message.type, task_type, dict(message.input), message.outside,
            request.seconds(message.delay, "delay", zero=True) or 0.0, request.seconds(message.deadline, "deadline"),
            made.timeout_ms, made.max_retries, made.queue, made.priority, made.backoff,
        )  # fmt: skip

    @staticmethod
    def _made(message: Message, known: Defaults) -> Defaults:
        task = draft(
            tenant="", name="", payload="", defaults=known, queue=message.queue, priority=message.priority,
            timeout_ms=milliseconds(message.timeout), max_retries=message.max_retries,
        ).task  # fmt: skip
        return Defaults(task.queue, task.priority, task.timeout_ms, task.max_retries, task.backoff)
