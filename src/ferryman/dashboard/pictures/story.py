"""The story of a command as a sequence: what was stated, and what its capabilities did, one below the other as it happened."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from ferryman.commands.intake.read import Story
from ferryman.commands.model import AsyncTaskRecord
from ferryman.dashboard.pictures import lanes
from ferryman.dashboard.pictures.colours import colour
from ferryman.dashboard.pictures.lanes import Lane, Span
from ferryman.kernel.events import Event

FACT = "fact"


def draw(story: Story, *, now: datetime) -> Markup:
    """Return the picture of a command and all that came of it."""
    return lanes.draw(rows(story), now=now, says="What came of the command, in order")


def rows(story: Story) -> list[Lane]:
    """Return the lanes of a story: the command, then facts and async tasks in the order of their birth."""
    command = story.command
    head = Lane(
        command.command_type,
        colour(command.status),
        [Span(command.created_at, command.finished_at, colour(command.status), command.status.lower())],
        note=command.status.lower(),
        deadline=None if command.terminal else command.deadline_at,
    )
    told = [(each.at, 0, _fact(each)) for each in story.events if each.kind == FACT]
    done = [(each.started_at or each.created_at, 1, _task(each)) for each in story.tasks]
    return [head, *(lane for _, _, lane in sorted([*told, *done], key=lambda each: each[:2]))]


def _fact(event: Event) -> Lane:
    return Lane(
        event.subject_name or "",
        "grey",
        moments=[Span(event.at, None, "grey", event.subject_name or "")],
        note="fact",
        depth=1,
    )


def _task(task: AsyncTaskRecord) -> Lane:
    status = task.status.lower()
    progress = "" if task.terminal or not task.progress else f" {task.progress:.0f} %"
    tries = f", {task.retry_count} retries" if task.retry_count else ""
    spans = [] if task.started_at is None else [Span(task.started_at, task.completed_at, colour(status), status)]
    if task.started_at is None or task.created_at < task.started_at:
        spans.insert(0, Span(task.created_at, task.started_at or task.completed_at, "violet", "waits"))
    return Lane(
        task.task_type or task.message_type,
        colour(status),
        spans,
        note=f"{status}{progress}{tries}",
        href=None if task.task is None else f"/tasks/{task.task}",
        deadline=None if task.terminal else task.deadline_at,
        depth=1,
    )
