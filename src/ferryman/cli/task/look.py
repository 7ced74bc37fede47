"""`ferryman task list`, `show` and `logs`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from ferryman.app.doctor import plain, work
from ferryman.app.ferryman import Ferryman
from ferryman.cli import choices, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.task.wait import decoded
from ferryman.cli.words import flag, says
from ferryman.kernel import errors
from ferryman.kernel.events import Event
from ferryman.tasks.intake.read import LogLine
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.rules.request import as_uuid

LINES = 1000
LOOK_SECONDS = 0.5


async def list_page(
    *,
    state: Annotated[choices.TaskState | None, says("In this state only.")] = None,
    queue: Annotated[str | None, says("Of this queue only.")] = None,
    name: Annotated[str | None, says("Of this handler only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List tasks, newest first, a page at a time."""
    last = None if before is None else as_uuid(before)
    if before is not None and last is None:
        raise errors.UsageInvalid(f"--before: expected an id of a task, got {before!r}.")
    async with options.app() as app:
        page = await app.tasks.list(state=state, queue=queue, name=name, before=last, limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"tasks": [task.as_json() for task in page], "next_before": more})
        return
    columns = ("id", "name", "queue", "state", "attempt", "due", "took", "error")
    screen.table(columns, (_row(task) for task in page))
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none.")


def _row(task: TaskRecord) -> tuple[Any, ...]:
    tries = f"{task.attempt}/{1 + task.max_retries}"
    return (
        task.task_id, task.name, task.queue, task.state.value, tries, task.due_at, _took(task),
        _short(task.last_error_reason or task.last_error_code or ""),
    )  # fmt: skip


def _took(task: TaskRecord) -> str:
    if task.started_at is None:
        return ""
    end = task.finished_at or (datetime.now(UTC) if not task.terminal and task.lease_owner else None)
    return "" if end is None else spelling.seconds(max(0.0, (end - task.started_at).total_seconds()))


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


async def show(
    id: Annotated[str, says("Its id or task_id.")],
    /,
    *,
    options: Options = PLAIN,
) -> None:
    """Show a task: its record, what happened to it, its progress and its log."""
    async with options.app() as app:
        task = await app.tasks.record(id)
        happened = await app.tasks.events(task.id)
        lines = await app.tasks.logs(task.id, limit=LINES)
        async with app.database.session() as tx:
            bound = await work.bound(tx, task.id)
    screen = options.screen
    if screen.json:
        screen.document(_document(task, happened, lines, bound))
        return
    _record(screen, task, bound)
    screen.print("\nWhat happened", style="bold")
    screen.table(("at", "after", "move", "attempt", "why"), _timeline(happened))
    if lines:
        screen.print("Log", style="bold")
        for line in lines:
            _say(screen, line)


def _document(
    task: TaskRecord, happened: Sequence[Event], lines: Sequence[LogLine], bound: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "task": {**task.as_json(), "payload": decoded(task.payload), "result": decoded(task.result)},
        "ends_by": None if bound is None else {key: plain(value) for key, value in bound.items()},
        "events": [envelope(event) for event in happened],
        "logs": [_line(line) for line in lines],
    }


def _record(screen: Screen, task: TaskRecord, bound: dict[str, Any] | None) -> None:
    error = f"{task.last_error_code}: {task.last_error_reason}" if task.last_error_code else None
    ends = f"{bound['rule']} ends this state by {spelling.moment(bound['ends_by'])}" if bound else None
    progress = f"{task.progress} % {task.progress_message or ''}".strip() if task.progress is not None else None
    screen.pairs([
        ("task_id", task.task_id), ("id", None if str(task.id) == task.task_id else task.id), ("name", task.name),
        ("state", task.state.value), ("attempt", f"{task.attempt} of {1 + task.max_retries}"), ("queue", task.queue),
        ("priority", task.priority or None), ("tenant", task.tenant), ("due", task.due_at), ("created", task.created_at),
        ("started", task.started_at), ("finished", task.finished_at), ("took", _took(task)),
        ("timeout", spelling.seconds(task.timeout_ms / 1000)), ("key", task.idempotency_key),
        ("limit key", task.limit_key), ("retry of", task.retry_of), ("error", error),
        ("progress", progress), ("leased until", task.leased_until), ("bound", ends),
        ("payload", _short(task.payload, 400)), ("result", _short(task.result or "", 400)),
    ])  # fmt: skip


def _timeline(happened: Sequence[Event]) -> list[tuple[Any, ...]]:
    rows = []
    last = happened[0].at if happened else None
    for event in happened:
        assert last is not None
        move = f"{event.from_state} → {event.to_state}" if event.from_state else f"created {event.to_state}"
        why = ": ".join(part for part in (event.reason_code, event.reason_message) if part)
        since = f"+{spelling.seconds((event.at - last).total_seconds())}"
        rows.append((spelling.moment(event.at, precise=True), since, move, event.attempt, _short(why, 100)))
        last = event.at
    return rows


async def logs(
    id: Annotated[str, says("Its id or task_id.")],
    /,
    *,
    follow: Annotated[bool, flag("Go on until the task has ended.")] = False,
    options: Options = PLAIN,
) -> None:
    """Show what a task's handler said."""
    screen = options.screen
    async with options.app() as app:
        task = await app.tasks.record(id)
        ended = asyncio.ensure_future(app.tasks.end(task.id))
        try:
            await _follow_logs(app, task.id, screen, ended if follow else None)
        finally:
            ended.cancel()


async def _follow_logs(app: Ferryman, id: UUID, screen: Screen, ended: asyncio.Future[Any] | None) -> None:
    after = 0
    while True:
        over = ended is None or ended.done()
        lines = await app.tasks.logs(id, after=after, limit=LINES)
        for line in lines:
            after = line.id
            if screen.json:
                screen.line(_line(line))
            else:
                _say(screen, line)
        if over and len(lines) < LINES:
            return
        if ended is not None and not lines:
            await asyncio.wait([ended], timeout=LOOK_SECONDS)


def _say(screen: Screen, line: LogLine) -> None:
    screen.print(f"{spelling.moment(line.at, precise=True)} [{line.attempt}] {line.level:7} {line.message}")


def _line(line: LogLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "at": plain(line.at),
        "attempt": line.attempt,
        "level": line.level,
        "message": line.message,
    }
