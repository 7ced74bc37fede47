"""What the doors to tasks and schedules must know of an app's handlers, and how they read what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ferryman.kernel import errors
from ferryman.tasks.rules.request import Defaults
from ferryman.tasks.work.handlers import Handler

Function = Callable[..., Any]


class Known(Protocol):
    """What a door must know of the app's handlers."""

    def find(self, task: str | Function | None) -> tuple[str, Handler | None, Defaults]:
        """Return the name of a handler, the handler if it is here, and its defaults; refuse one that nobody declared."""

    def serves(self, name: str) -> None:
        """Refuse a queue that an app which declares its queues has not declared."""


@contextmanager
def placed(place: int) -> Iterator[None]:
    """Let a refusal of one of many requests say which."""
    try:
        yield
    except errors.FerrymanError as error:
        error.message = f"Request {place}: {error.message}"
        error.details["index"] = place
        raise


def said(**fields: Any) -> dict[str, Any]:
    """Return the fields of a request that have a value."""
    return {field: value for field, value in fields.items() if value is not None}


def or_empty(given: Any) -> Any:
    """Return a payload, or an empty one where none was given."""
    return {} if given is None else given


def alone(given: Any, arguments: dict[str, Any]) -> Any:
    """Return a payload that was given whole, and not as keyword arguments too."""
    if arguments:
        raise errors.TaskInvalidPayload("Give the payload whole or as keyword arguments, not both.")
    return given
