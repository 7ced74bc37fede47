"""`ferryman task cancel`: some by their ids, or all that fit a description."""

from __future__ import annotations

import sys
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from rich.prompt import Confirm

from ferryman.app.tasks import Tasks
from ferryman.cli import choices, exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import flag, says
from ferryman.kernel import errors
from ferryman.tasks.states import TASK

SET = 500
LIVE = tuple(state.value for state in TASK.states if state not in TASK.terminal)


async def cancel(
    *ids: Annotated[str, Parameter(help="Ids or task_ids.")],
    queue: Annotated[str | None, says("All of this queue.")] = None,
    name: Annotated[str | None, says("All of this handler.")] = None,
    state: Annotated[choices.LiveState | None, says("All in this state.")] = None,
    reason: Annotated[str | None, says("Why, for the log.")] = None,
    yes: Annotated[bool, flag("Cancel all that fit without asking.")] = False,
    options: Options = PLAIN,
) -> int:
    """Cancel tasks that have not ended; a running handler is told at once."""
    described = {"queue": queue, "name": name, "state": state}
    by = ", ".join(f"{key} {value}" for key, value in described.items() if value is not None)
    if bool(ids) == bool(by):
        raise errors.UsageInvalid("Give ids, or describe what to cancel by --queue, --name or --state; one of the two.")
    screen = options.screen
    async with options.app() as app:
        if ids:
            return await _named(app.tasks, ids, screen, reason=reason)
        if not yes and not _sure(screen, by):
            return exits.USAGE
        return await _fitting(app.tasks, screen, queue=queue, name=name, state=state, reason=reason)


async def _named(tasks: Tasks, ids: tuple[str, ...], screen: Screen, *, reason: str | None) -> int:
    records = [await tasks.record(id) for id in ids]
    told = set(await tasks.cancel(*(record.id for record in records), reason=reason))
    ended = [record.task_id for record in records if record.id not in told]
    if screen.json:
        screen.document({"cancelled": [str(id) for id in told], "already_ended": ended})
    else:
        for record in records:
            screen.print(f"{record.task_id}  {'cancelled' if record.id in told else 'had ended already'}")
    return exits.OK


def _sure(screen: Screen, by: str) -> bool:
    if not sys.stdin.isatty() or screen.json:
        raise errors.UsageInvalid(f"This cancels every live task of {by}: add --yes.")
    return Confirm.ask(f"Cancel every live task of {by}?", console=screen.err, default=False)


async def _fitting(
    tasks: Tasks, screen: Screen, *, queue: str | None, name: str | None, state: str | None, reason: str | None
) -> int:
    cancelled = 0
    with screen.bar() as bar:
        shown = bar.add_task("cancelling", total=None, word="")
        for each in LIVE if state is None else (state,):
            before: UUID | None = None
            while page := await tasks.list(state=each, queue=queue, name=name, before=before, limit=SET):
                before = page[-1].id
                cancelled += len(await tasks.cancel(*(task.id for task in page), reason=reason))
                bar.update(shown, word=f"{cancelled}")
        bar.update(shown, total=1, completed=1)
    if screen.json:
        screen.document({"cancelled_count": cancelled})
    else:
        screen.print(f"{cancelled} cancelled.")
    return exits.OK
