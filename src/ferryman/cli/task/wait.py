"""`ferryman task wait` and `ferryman task result`: wait for the end, with a bar that fills meanwhile."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from ferryman.app.handle import Handle
from ferryman.app.tasks import Tasks
from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import flag, says
from ferryman.kernel import duration, errors, payload
from ferryman.tasks.intake.result import failure
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.states import SUCCEEDED


async def wait(
    id: Annotated[str, says("Its id or task_id.")],
    /,
    *,
    timeout: Annotated[str | None, says("Wait no longer than this, such as 60s.")] = None,
    options: Options = PLAIN,
) -> int:
    """Wait until a task has ended, showing its progress; 0 if it succeeded, 1 if not."""
    async with options.app() as app:
        return await until_end(app.tasks, await app.tasks.get(id), options, within=timeout)


async def result(
    id: Annotated[str, says("Its id or task_id.")],
    /,
    *,
    wait: Annotated[bool, flag("Wait for its end first.")] = False,
    options: Options = PLAIN,
) -> int:
    """Print what a task's handler returned, as JSON; 1 if it did not succeed."""
    async with options.app() as app:
        handle = await app.tasks.get(id)
        if wait:
            await app.tasks.end(handle.id)
        task = await handle.refresh()
        if not task.terminal:
            raise errors.UsageInvalid(f"Task {task.task_id} is {task.state.value}: add --wait.")
        if task.state is not SUCCEEDED:
            raise failure(await app.tasks.end(task.id), task.task_id)
        options.screen.document(decoded(task.result))
        return exits.OK


async def until_end(tasks: Tasks, handle: Handle, options: Options, *, within: str | None) -> int:
    """Follow a task to its end, then show how it ended."""
    screen = options.screen
    seconds = None if within is None else _seconds(within)
    try:
        async with asyncio.timeout(seconds):
            await _follow(handle, screen)
    except TimeoutError:
        record = await tasks.record(handle.id)
        if screen.json:
            screen.document(_answer(handle, record))
        screen.say(f"Task {record.task_id} is {record.state.value} after {within}; it goes on without us.")
        return exits.TIMED_OUT
    record = await tasks.record(handle.id)
    if screen.json:
        screen.document(_answer(handle, record))
    else:
        tell_end(screen, record)
    return exits.OK if record.state is SUCCEEDED else exits.FAILED


async def _follow(handle: Handle, screen: Screen) -> None:
    said: tuple[int | None, str | None] | None = None
    with screen.bar() as bar:
        shown = bar.add_task(f"{handle.task.name} {handle.task_id[-12:]}", total=100, word="")
        async for now in handle.watch():
            word = f"{now.state.value} {now.message or ''}".strip()
            done = 100 if now.state is SUCCEEDED else now.percent or 0
            bar.update(shown, completed=done, word=word)
            if not screen.json and not screen.lively and (now.percent, word) != said:
                said = (now.percent, word)
                screen.say(word if now.percent is None else f"{now.percent} % {word}")


def tell_end(screen: Screen, task: TaskRecord) -> None:
    """Say how a task ended: its result on stdout, or why not on stderr."""
    if task.state is SUCCEEDED:
        screen.out.print_json(task.result or "null", ensure_ascii=False, highlight=screen.out.is_terminal)
    else:
        why = f": {task.last_error_code}: {task.last_error_reason}" if task.last_error_code else ""
        screen.say(f"Task {task.task_id} {task.state.value} at attempt {task.attempt}{why}.", style="red")


def decoded(text: str | None) -> Any:
    """Return JSON that was kept as text."""
    return None if text is None else payload.decode(text)


def _answer(handle: Handle, record: TaskRecord) -> dict[str, Any]:
    task = {**record.as_json(), "result": decoded(record.result)}
    return {"idempotent_hit": handle.idempotent_hit, "task": task}


def _seconds(text: str) -> float:
    try:
        return duration.parse(text).total_seconds()
    except ValueError as error:
        raise errors.UsageInvalid(f"--timeout: expected {error}, got {text!r}.") from None
