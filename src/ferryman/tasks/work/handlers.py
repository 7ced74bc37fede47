"""What users register: a function, how it is run, and what fits it (T16).

A handler is an async function, a plain function (run in a thread) or, declared so, a plain function run in a child process.
Its parameters are the payload's keys, checked against their type hints; a single parameter named `payload` gets the payload
whole; a parameter annotated `Context` gets the task's context.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from ferryman.kernel import errors
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work.context import Context

Function = Callable[..., Any]
Fit = Callable[[str], dict[str, Any]]

WHOLE = "payload"
_FORBIDDEN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class Kind(StrEnum):
    """Where a handler runs."""

    ASYNC = "async"
    THREAD = "thread"
    PROCESS = "process"


class Handler(NamedTuple):
    """A registered function."""

    name: str
    function: Function
    kind: Kind
    context: str | None
    fit: Fit
    defaults: Defaults


def declare(function: Function, *, name: str, process: bool, defaults: Defaults) -> Handler:
    """Read a function's signature once, and say at once what is wrong with it."""
    if inspect.isclass(function) or not hasattr(function, "__qualname__"):
        raise errors.HandlerInvalid(f"{name}: expected a function, got {function!r}.")
    asynchronous = inspect.iscoroutinefunction(function)
    if asynchronous and process:
        raise errors.HandlerInvalid(f"{name}: a handler that runs in a child process is a plain function, not async.")
    if process and "<locals>" in function.__qualname__:
        raise errors.HandlerInvalid(f"{name}: a handler that runs in a child process stands at the top of a module.")
    parameters, context = _parameters(function, name)
    if context is not None and process:
        raise errors.HandlerInvalid(f"{name}: a child process cannot be given a Context.")
    kind = Kind.ASYNC if asynchronous else Kind.PROCESS if process else Kind.THREAD
    return Handler(name, function, kind, context, _fit(name, parameters), defaults)


def _parameters(function: Function, name: str) -> tuple[dict[str, inspect.Parameter], str | None]:
    """Return the parameters that come from the payload, with their hints resolved, and the one that gets the context."""
    signature = inspect.signature(function)
    hints = _hints(function, name)
    found: dict[str, inspect.Parameter] = {}
    context: str | None = None
    for parameter in signature.parameters.values():
        if parameter.kind in _FORBIDDEN:
            raise errors.HandlerInvalid(f"{name}: parameter {parameter.name} must be possible to give by name.")
        hint = hints.get(parameter.name, Any)
        if hint is Context:
            context = parameter.name
        else:
            found[parameter.name] = parameter.replace(annotation=hint)
    return found, context


def _hints(function: Function, name: str) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise errors.HandlerInvalid(f"{name}: a type hint cannot be resolved: {error}.") from error


def _fit(name: str, parameters: Mapping[str, inspect.Parameter]) -> Fit:
    """Return the check of a payload, made at its first use: most processes never run most handlers."""
    made: list[Fit] = []

    def fit(text: str) -> dict[str, Any]:
        if not made:
            made.append(_validator(name, parameters))
        return made[0](text)

    return fit


@cache
def prepare() -> None:
    """Load what checks payloads, which takes a while: not when the first claims are in hand and their leases run."""
    _validator("nothing", {})


def _validator(name: str, parameters: Mapping[str, inspect.Parameter]) -> Fit:
    from typing import NotRequired

    import pydantic
    from typing_extensions import TypedDict

    if list(parameters) == [WHOLE] and parameters[WHOLE].kind is not inspect.Parameter.VAR_KEYWORD:
        whole = pydantic.TypeAdapter(parameters[WHOLE].annotation)
        return lambda text: {WHOLE: _checked(name, whole, text)}
    fields: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for parameter in parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            extra = "allow"
        elif parameter.default is inspect.Parameter.empty:
            fields[parameter.name] = parameter.annotation
        else:
            fields[parameter.name] = NotRequired[parameter.annotation]
    make: Any = TypedDict  # from a signature, which no type checker can follow
    shape = make(f"{name} payload", fields)
    shape.__pydantic_config__ = pydantic.ConfigDict(extra=extra)
    adapter = pydantic.TypeAdapter(shape)
    return lambda text: _checked(name, adapter, text)


def _checked(name: str, adapter: Any, text: str) -> Any:
    import pydantic

    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "payload"
        message = f"The payload does not fit {name}: {where}: {first['msg']}."
        raise errors.TaskInvalidPayload(message, field=where, problems=error.error_count()) from None
