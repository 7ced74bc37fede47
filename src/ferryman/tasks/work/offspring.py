"""A child in its parent's hands, and what it is told when the child could not be born (T17, T19)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from ferryman.kernel import errors, payload
from ferryman.tasks.model import Answer
from ferryman.tasks.store.steps import DONE, OPEN
from ferryman.tasks.work.revive import revived

if TYPE_CHECKING:
    from ferryman.tasks.work.memory import Memory

Result = TypeVar("Result")

REFUSED = "refused"
# What may stand against a birth (tasks/flow.py); raised as what it is.
_REFUSALS: dict[str, type[errors.FerrymanError]] = {
    each.code: each for each in (errors.TaskQueueFull, errors.TaskAlreadyLive)
}


def refusal(error: errors.FerrymanError) -> str:
    """Return how it is remembered that a child could not be born."""
    return payload.encode({"state": REFUSED, "code": error.code, "reason": error.message, "details": error.details})


class Child(Generic[Result]):
    """A task that this one has created; awaiting it waits for its result."""

    __slots__ = ("_memory", "answer", "born", "function", "id")

    born: asyncio.Future[None]

    def __init__(self, memory: Memory, id: UUID, function: Any) -> None:
        """Belong to one attempt of the parent."""
        self._memory = memory
        self.id = id
        self.function = function
        self.answer = Answer(OPEN)

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait for its end."""
        [result] = yield from self._memory.join([self]).__await__()
        return result  # type: ignore[no-any-return]

    def result(self) -> Result:
        """Return what it returned; raise what became of it instead."""
        if self.answer.state == DONE:
            return revived(self.function, self._memory.opened(self.answer))  # type: ignore[no-any-return]
        why = payload.decode(self.answer.result or "{}")
        code, reason = why.get("code") or f"TASK_{str(why.get('state')).upper()}", why.get("reason")
        if why.get("state") == REFUSED and code in _REFUSALS:
            raise _REFUSALS[code](reason, **why["details"])
        said = f": {reason}" if reason else ""
        raise errors.TaskChildFailed(
            f"The child {self.id} {why.get('state')} with {code}{said}.", task_id=str(self.id), code=code, reason=reason
        )
