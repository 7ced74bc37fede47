"""`ferryman command show`, `list` and `story`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import says
from ferryman.commands.intake.read import Story, task_json
from ferryman.commands.model import AsyncTaskRecord, CommandRecord
from ferryman.kernel import errors, payload
from ferryman.tasks.rules.request import as_uuid

TASKS = ("async task", "type", "status", "progress", "tries", "started", "completed", "said")


async def show(id: Annotated[str, says("Its id.")], /, *, options: Options = PLAIN) -> None:
    """Show a command and its async tasks."""
    async with options.app() as app:
        story = await app.commands.story(id)
    screen = options.screen
    if screen.json:
        shown = {**story.command.as_json(), "payload": payload.decode(story.command.payload)}
        screen.document({"command": shown, "tasks": [task_json(each) for each in story.tasks]})
        return
    tell(screen, story.command)
    _tell_tasks(screen, story.tasks)


async def list_page(
    *,
    status: Annotated[str | None, says("RECEIVED, PROCESSING, COMPLETED or FAILED.")] = None,
    type: Annotated[str | None, says("Of this type only.")] = None,
    session: Annotated[str | None, says("Of this session only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List commands, newest first, a page at a time."""
    last: UUID | None = None if before is None else as_uuid(before)
    if before is not None and last is None:
        raise errors.UsageInvalid(f"--before: expected an id of a command, got {before!r}.")
    wanted = None if status is None else status.upper()
    async with options.app() as app:
        page = await app.commands.list(status=wanted, command_type=type, session_id=session, before=last, limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"commands": [each.as_json() for each in page], "next_before": more})
        return
    columns = ("id", "type", "session", "status", "tasks", "failed", "created", "finished", "error")
    screen.table(
        columns,
        (
            (
                str(each.id), each.command_type, each.session_id, each.status.value, each.tasks, each.failed, each.created_at,
                each.finished_at, each.error_code,
            )
            for each in page
        ),
    )  # fmt: skip
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none.")


async def story(
    id: Annotated[str, says("Its id, which is its correlation id.")], /, *, options: Options = PLAIN
) -> None:
    """Tell all that came of a command: events, tasks, results, in order."""
    async with options.app() as app:
        told = await app.commands.story(id)
    screen = options.screen
    if screen.json:
        screen.document(told.as_json())
        return
    tell(screen, told.command)
    _tell_events(screen, told)
    _tell_tasks(screen, told.tasks)


def tell(screen: Screen, command: CommandRecord) -> None:
    """Show one command to a person."""
    error = None if command.error_message is None else f"{command.error_code}: {command.error_message}"
    screen.pairs([
        ("command", str(command.id)), ("type", command.command_type), ("session", command.session_id),
        ("status", command.status.value), ("tasks", f"{command.tasks}, {command.failed} failed"), ("error", error),
        ("created", command.created_at), ("finished", command.finished_at),
        ("ends by", None if command.terminal else command.deadline_at),
    ])  # fmt: skip


def _tell_events(screen: Screen, story: Story) -> None:
    screen.print("\nWhat happened", style="bold")
    screen.table(
        ("at", "what", "name", "to", "why"),
        ((each.at, each.kind, each.subject_name, each.to_state, each.reason_message) for each in story.events),
    )


def _tell_tasks(screen: Screen, tasks: Sequence[AsyncTaskRecord]) -> None:
    if tasks:
        screen.print("\nAsync tasks", style="bold")
        screen.table(TASKS, (_row(each) for each in tasks))


def _row(task: AsyncTaskRecord) -> tuple[Any, ...]:
    tries = f"{1 + task.retry_count}/{1 + task.max_retries}"
    said = task.error_data or task.result_data
    return (
        str(task.id), task.task_type, task.status.value, f"{task.progress:g}", tries, task.started_at, task.completed_at,
        said,
    )  # fmt: skip
