"""Tasks that were stored: counted, and who is to be rung for them when that is committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from ferryman.kernel import errors, telemetry
from ferryman.tasks.flow import Flowed
from ferryman.tasks.model import Created, TaskRecord
from ferryman.tasks.states import CANCELLED, READY
from ferryman.tasks.work.lanes import named

Rings = dict[str, frozenset[str]]


def count(born: Iterable[tuple[TaskRecord, int]]) -> Rings:
    """Count tasks, given as records each with how many there are like it; answer with what to ring for, by topic."""
    counts: dict[str, int] = {}
    ready: set[str] = set()
    pending = False
    for task, number in born:
        counts[task.queue] = counts.get(task.queue, 0) + number
        if task.state is READY:
            ready.add(named(task.queue, task.tenant, keyed=task.limit_key is not None))
        else:
            pending = True
    for queue, number in counts.items():
        telemetry.created("task", queue, number)
    rings: Rings = {}
    if pending:
        rings["due"] = frozenset()
    if ready:
        rings["ready"] = frozenset(ready)
    return rings


def rings(flowed: Flowed) -> Rings:
    """Count what became of a set under flow control; answer with what to ring for."""
    created = [each for each in flowed.answers if isinstance(each, Created)]
    told = count((each.task, 1) for each in created if not each.idempotent_hit)
    if any(each.task.state is not READY for each in created):  # also a call that was put off once more
        told["due"] = frozenset()
    return told | displaced(flowed.displaced)


def displaced(ids: Collection[UUID]) -> Rings:
    """Count tasks that made room for newer ones; answer with what to ring for."""
    if not ids:
        return {}
    telemetry.ended("task", CANCELLED.value, errors.TaskQueueFull.code, len(ids))
    hints = frozenset(str(id) for id in ids)
    return {"cancel": hints, "done": hints}
