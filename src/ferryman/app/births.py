"""Tasks that were stored: counted, and who is to be rung for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ferryman.kernel import telemetry
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.states import READY
from ferryman.tasks.work.lanes import named


def count(born: Iterable[tuple[TaskRecord, int]]) -> dict[str, frozenset[str]]:
    """Count tasks, given as records each with how many there are like it; answer with what to ring for, by topic."""
    counts: Counter[str] = Counter()
    ready: set[str] = set()
    pending = False
    for task, number in born:
        counts[task.queue] += number
        if task.state is READY:
            ready.add(named(task.queue, task.tenant, keyed=task.limit_key is not None))
        else:
            pending = True
    for queue, number in counts.items():
        telemetry.created("task", queue, number)
    rings = {"due": frozenset[str]()} if pending else {}
    return rings | {"ready": frozenset(ready)} if ready else rings
