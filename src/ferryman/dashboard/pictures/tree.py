"""A batch as a tree that fills in: its tasks, the batches that their turns forked, and when each was at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup

from ferryman.batches.intake.read import Tree
from ferryman.batches.model import TaskRecord
from ferryman.dashboard import names, spelling
from ferryman.dashboard.pictures import lanes, marks
from ferryman.dashboard.pictures.colours import colour
from ferryman.dashboard.pictures.lanes import Lane, Span

# In the order in which a strip shows them: what is done, what is under way, what is to come.
ORDER = ("success", "partial", "failed", "timeout", "canceled", "dispatched", "pending")
HEIGHT = 10


def draw(tree: Tree, *, now: datetime) -> Markup:
    """Return the picture of a batch and all that it led to."""
    return lanes.draw(rows(tree), now=now, says="The tasks of the batch as a tree, over time")


def rows(tree: Tree, *, depth: int = 0) -> list[Lane]:
    """Return the lanes of a tree: a batch, its tasks, and under each task what its turn forked."""
    batch = tree.batch
    done = sum(task.finished_at is not None for task in tree.tasks)
    made = [
        Lane(
            f"batch {spelling.short(batch.id)}",
            colour(batch.status),
            [Span(batch.created_at, batch.finished_at, colour(batch.status), batch.status)],
            note=f"{done}/{batch.task_count} {batch.status}",
            href=f"/batches/{batch.id}",
            deadline=None if batch.terminal else batch.deadline_at,
            depth=depth,
        )
    ]
    for task in tree.tasks:
        made.append(_task(task, depth + 1))
        for below in tree.under.get(task.id, ()):
            made += rows(below, depth=depth + 2)
    return made


def _task(task: TaskRecord, depth: int) -> Lane:
    waited = Span(task.created_at, task.dispatched_at or task.finished_at, "violet", "waits to be sent")
    spans = [waited]
    if task.dispatched_at is not None:
        spans.append(Span(task.dispatched_at, task.finished_at, colour(task.status), task.error_detail or task.status))
    return Lane(
        f"{task.task_index} {names.agent(task.agent_id)}",
        colour(task.status),
        spans,
        note=task.status,
        href=None if task.current_agent_turn_id is None else f"/turns/{task.current_agent_turn_id}",
        depth=depth,
    )


def strip(counts: Mapping[str, int], *, whole: int) -> Markup:
    """Return how many of a batch's tasks are in which state, as one bar."""
    parts, at = [], 0.0
    told: Sequence[str] = [f"{counts[state]} {state}" for state in ORDER if counts.get(state)]
    for state in ORDER:
        count = counts.get(state, 0)
        if count:
            wide = count / max(1, whole)
            parts.append(
                marks.bar(
                    at, at + wide, y=0, height=HEIGHT, class_=f"fill-{colour(state)}", says=f"{count} {state}", least=0
                )
            )
            at += wide
    return marks.canvas(parts, height=HEIGHT, class_="strip", says=", ".join(told) or "nothing yet")
