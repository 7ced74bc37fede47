"""How the parts of a command are known as tasks: the names of their handlers, and whom their ends are owed to.

A worker claims what it has functions for, because each type is a handler's name of its own. Both the steps of a command and
its capabilities carry one kind of callback: their ends lock the same commands, and one kind locks them in one order. It
stands before the callbacks of children, which lock tasks: a command comes before the tasks that it started.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

CALLBACK = "async_task"

COMMAND = "command:"
RESULT = "result:"
CAPABILITY = "capability:"


class Owed(NamedTuple):
    """To whom the end of a task is owed: a command, an async task of it, or an async task that has no command."""

    command: UUID | None
    async_task: UUID | None


def ref(command: UUID | None, async_task: UUID | None = None) -> str:
    """Return the reference that a task carries."""
    return str(command or "") if async_task is None else f"{command or ''}:{async_task}"


# Each is read twice in a moment, to lock and to settle, and never again: a set of them is enough.
READ_MAX = 1_000


@lru_cache(maxsize=READ_MAX)
def owed(ref: str) -> Owed:
    """Read a reference."""
    command, _, async_task = ref.partition(":")
    return Owed(_read(command) if command else None, UUID(async_task) if async_task else None)


@lru_cache(maxsize=READ_MAX)
def _read(command: str) -> UUID:
    return UUID(command)
