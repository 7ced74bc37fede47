"""`ferryman schedule pause`, `resume`, `trigger` and `delete`."""

from __future__ import annotations

from typing import Annotated

from ferryman.cli import spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import says

Named = Annotated[str, says("Its id or the name given to it.")]
Why = Annotated[str | None, says("Why, for the log.")]


async def pause(id: Named, /, *, reason: Why = None, options: Options = PLAIN) -> None:
    """Let a schedule rest until it is resumed; tasks that it has fired go on."""
    async with options.app() as app:
        moved = await app.schedules.pause(id, reason=reason)
        record = await app.schedules.record(id)
    _say(options, record.as_json(), moved, f"{record.schedule_id}  {'paused' if moved else 'was paused already'}")


async def resume(id: Named, /, *, options: Options = PLAIN) -> None:
    """Let a paused schedule fire again, from now on; what it missed meanwhile is not made up for."""
    async with options.app() as app:
        moved = await app.schedules.resume(id)
        record = await app.schedules.record(id)
    due = f", next at {spelling.moment(record.next_run_at)}" if record.next_run_at else ""
    _say(options, record.as_json(), moved, f"{record.schedule_id}  {'active' if moved else 'was active already'}{due}")


async def trigger(id: Named, /, *, options: Options = PLAIN) -> None:
    """Fire a schedule now, active or paused; when it fires next stays as it is."""
    async with options.app() as app:
        handle = await app.schedules.trigger(id)
    screen = options.screen
    if screen.json:
        screen.document(handle.answer())
        return
    screen.print(f"{handle.task_id}  {handle.task.state.value}")
    screen.say(f"ferryman task show {handle.task_id}", style="dim")


async def delete(id: Named, /, *, reason: Why = None, options: Options = PLAIN) -> None:
    """End a schedule for good; tasks that it has fired go on, and its name is free again."""
    async with options.app() as app:
        record = await app.schedules.record(id)
        moved = await app.schedules.delete(record.id, reason=reason)
        record = await app.schedules.record(record.id)
    _say(options, record.as_json(), moved, f"{record.schedule_id}  {'ended' if moved else 'had ended already'}")


def _say(options: Options, document: dict[str, object], moved: bool, text: str) -> None:
    screen = options.screen
    if screen.json:
        screen.document({"moved": moved, "schedule": document})
    else:
        screen.print(text)
