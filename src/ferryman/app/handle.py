"""One task, in its creator's hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol
from uuid import UUID

from ferryman.kernel import payload
from ferryman.tasks.intake.result import End, Progress, failure
from ferryman.tasks.model import Created, TaskRecord
from ferryman.tasks.states import SUCCEEDED


class Door(Protocol):
    """What a handle asks of the door it came from."""

    async def record(self, task_id: str | UUID) -> TaskRecord:
        """Read a task as it is now."""

    async def end(self, id: UUID) -> End:
        """Wait until a task has ended."""

    def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give a task's progress whenever it changes, until it has ended."""

    async def cancel(self, *task_ids: str | UUID, reason: str | None = None) -> Sequence[UUID]:
        """Cancel tasks that have not ended; return those that were cancelled now."""


class Handle:
    """One task, in its creator's hands."""

    __slots__ = ("_door", "idempotent_hit", "task")

    def __init__(self, door: Door, created: Created) -> None:
        """Keep the record as it was when it was answered; `refresh` reads it anew."""
        self._door = door
        self.task = created.task
        self.idempotent_hit = created.idempotent_hit

    @property
    def id(self) -> UUID:
        """The task's key."""
        return self.task.id

    @property
    def task_id(self) -> str:
        """The name its creator gave it, or the text of its key."""
        return self.task.task_id

    def answer(self) -> dict[str, Any]:
        """Return the answer to the create, in the form of the source."""
        return {"idempotent_hit": self.idempotent_hit, "task": self.task.as_json()}

    async def refresh(self) -> TaskRecord:
        """Read the task as it is now."""
        self.task = await self._door.record(self.id)
        return self.task

    async def result(self, *, timeout: float | None = None) -> Any:
        """Wait for the end and return what the handler returned; a task that did not succeed raises its code."""
        end = await asyncio.wait_for(self._door.end(self.id), timeout)
        if end.state is SUCCEEDED:
            return None if end.result is None else payload.decode(end.result)
        raise failure(end, self.task_id)

    def watch(self) -> AsyncIterator[Progress]:
        """Give the progress whenever it changes, until the end."""
        return self._door.watch(self.id)

    async def cancel(self, *, reason: str | None = None) -> bool:
        """Cancel the task; tell whether it was still live."""
        return bool(await self._door.cancel(self.id, reason=reason))

    def __repr__(self) -> str:
        """Name the task."""
        return f"<task {self.task_id} {self.task.name} {self.task.state.value}>"
