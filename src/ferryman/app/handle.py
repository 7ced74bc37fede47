"""Tasks in their creator's hands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Any, Protocol, overload
from uuid import UUID

from ferryman.kernel import payload
from ferryman.kernel.codec import Seal
from ferryman.kernel.timed import timed
from ferryman.tasks.intake.create import Alike
from ferryman.tasks.intake.result import End, Progress, failure
from ferryman.tasks.model import Created, TaskRecord
from ferryman.tasks.states import SUCCEEDED


class Door(Protocol):
    """What a handle asks of the door it came from."""

    seal: Seal

    def of(self, tenant: str) -> Door:
        """Return the same door for one tenant, whatever task is running."""

    async def record(self, task_id: str | UUID) -> TaskRecord:
        """Read a task as it is now."""

    async def end(self, id: UUID) -> End:
        """Wait until a task has ended, and say how."""

    def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give a task's progress whenever it changes, until it has ended."""

    async def send_event(self, task_id: str | UUID, name: str, given: Any = None, /) -> int:
        """Send an event to a task that has not ended."""

    async def cancel(self, *task_ids: str | UUID, reason: str | None = None) -> Sequence[UUID]:
        """Cancel tasks that have not ended; return those that were cancelled now."""


class Handle:
    """One task, in its creator's hands."""

    __slots__ = ("_given_door", "idempotent_hit", "task")

    def __init__(self, door: Door, created: Created) -> None:
        """Keep the record as it was when it was answered; `refresh` reads it anew."""
        self._given_door = door
        self.task = created.task
        self.idempotent_hit = created.idempotent_hit

    @property
    def _door(self) -> Door:
        """The door of its own tenant: a handle may be used in another handler than the one that made it, or in none."""
        return self._given_door.of(self.task.tenant)

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
        end = await timed(self._door.end(self.id), timeout)
        if end.state is SUCCEEDED:
            return None if end.result is None else payload.decode(self._door.seal.open(end.result))
        raise failure(end, self.task_id)

    def watch(self) -> AsyncIterator[Progress]:
        """Give the progress whenever it changes, until the end."""
        return self._door.watch(self.id)

    async def send_event(self, name: str, given: Any = None, /) -> int:
        """Send the task an event, which `ctx.wait_event(name)` in its handler takes."""
        return await self._door.send_event(self.id, name, given)

    async def cancel(self, *, reason: str | None = None) -> bool:
        """Cancel the task; tell whether it was still live."""
        return bool(await self._door.cancel(self.id, reason=reason))

    def __repr__(self) -> str:
        """Name the task."""
        return f"<task {self.task_id} {self.task.name} {self.task.state.value}>"


class Handles(Sequence[Handle]):
    """Many tasks created at once: each handle is made when somebody takes it in hand, because most are never looked at."""

    def __init__(self, door: Door, sets: Sequence[tuple[Alike, TaskRecord]]) -> None:
        """Keep the sets, each with the record of its first task."""
        self._door = door
        self._sets = sets
        self._ends = list(accumulate(len(alike.ids) for alike, _ in sets))

    def __len__(self) -> int:
        """Count them."""
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Handle: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Handle]: ...
    def __getitem__(self, place: int | slice) -> Handle | Sequence[Handle]:
        """Take one in hand, or several."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} tasks")
        nth = bisect_right(self._ends, place)
        alike, first = self._sets[nth]
        offset = place - (self._ends[nth] - len(alike.ids))
        id = alike.ids[offset]
        task = first._replace(id=id, task_id=str(id), payload=alike.payloads[offset])
        return Handle(self._door, Created(task, idempotent_hit=False))

    def __repr__(self) -> str:
        """Count them for a person."""
        return f"<{len(self)} tasks>"
