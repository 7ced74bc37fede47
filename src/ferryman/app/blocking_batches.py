"""The synchronous door to batches: the same calls as `app.batches`, for plain code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.app.batches import Batches
from ferryman.app.blocking_turns import Runs
from ferryman.batches.intake.read import Tree
from ferryman.batches.model import BatchRecord, TaskRecord


class BlockingBatches:
    """Batches, from plain code."""

    def __init__(self, run: Runs, door: Callable[[], Batches]) -> None:
        """Call the async door on the thread that runs it."""
        self._run = run
        self._door = door

    def fork(self, tasks: Sequence[Mapping[str, Any]], **asked: Any) -> UUID:
        """Ask several agents for turns at once; the options are those of `app.batches.fork`."""
        return self._run(self._door().fork(tasks, **asked)).id

    def accept(self, asked: Mapping[str, Any], *, id: UUID | None = None) -> UUID:
        """Fork a batch from a request in the form of the source; `id` makes a repeat harmless."""
        return self._run(self._door().accept(asked, id=id)).id

    def result(self, batch: UUID, *, timeout: timedelta | float | None = None) -> Mapping[str, Any]:
        """Wait for the end of a batch and return what it came to."""
        return self._run(self._door().join(batch, timeout=timeout))

    def get(self, batch: UUID) -> BatchRecord:
        """Read a batch."""
        return self._run(self._door().get(batch))

    def list(self, **which: Any) -> Sequence[BatchRecord]:
        """Read a page of batches, newest first."""
        return self._run(self._door().list(**which))

    def tasks(self, batch: UUID) -> Sequence[TaskRecord]:
        """Read the tasks of a batch, in order."""
        return self._run(self._door().tasks(batch))

    def counts(self, batches: Collection[UUID]) -> Mapping[UUID, Mapping[str, int]]:
        """Count the tasks of batches by their status."""
        return self._run(self._door().counts(batches))

    def forked(self, turn: UUID, agent_id: str) -> Sequence[BatchRecord]:
        """Read the batches that a turn of an agent forked, in order."""
        return self._run(self._door().forked(turn, agent_id))

    def tree(self, batch: UUID) -> Tree:
        """Read a batch with its tasks, and the batches that their turns forked."""
        return self._run(self._door().tree(batch))

    def cancel(self, batch: UUID) -> bool:
        """End a batch and stop its children; false if it had ended."""
        return self._run(self._door().cancel(batch))
