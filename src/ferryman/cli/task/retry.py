"""`ferryman task retry`: some by their ids, or all that fit a description."""

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
from ferryman.tasks.states import CANCELLED, FAILED

SET = 500
RETRIED = (FAILED.value, CANCELLED.value)


async def retry(
    *ids: Annotated[str, Parameter(help="Ids or task_ids.")],
    queue: Annotated[str | None, says("All of this queue.")] = None,
    name: Annotated[str | None, says("All of this handler.")] = None,
    state: Annotated[choices.LostState | None, says("All in this state; else failed.")] = None,
    yes: Annotated[bool, flag("Retry all that fit without asking.")] = False,
    options: Options = PLAIN,
) -> int:
    """Try failed or cancelled tasks anew: each as a new task that names the old one.

    By a description, those that were tried anew before are left alone.
    """
    described = {"queue": queue, "name": name, "state": state}
    by = ", ".join(f"{key} {value}" for key, value in described.items() if value is not None)
    if bool(ids) == bool(by):
        raise errors.UsageInvalid("Give ids, or describe what to retry by --queue, --name or --state; one of the two.")
    screen = options.screen
    async with options.app() as app:
        if ids:
            return await _named(app.tasks, ids, screen)
        if not yes and not _sure(screen, by):
            return exits.USAGE
        return await _fitting(app.tasks, screen, queue=queue, name=name, state=state or FAILED.value)


async def _named(tasks: Tasks, ids: tuple[str, ...], screen: Screen) -> int:
    records = [await tasks.record(id) for id in ids]
    made = {each.old: each.new for each in await tasks.retry(*(record.id for record in records))}
    left = [record for record in records if record.id not in made]
    if screen.json:
        screen.document({
            "retried": [{"task": str(old), "retry": str(new)} for old, new in made.items()],
            "left": [record.task_id for record in left],
        })  # fmt: skip
    else:
        for record in records:
            told = f"retried as {made[record.id]}" if record.id in made else f"left: {_why(record.state.value)}"
            screen.print(f"{record.task_id}  {told}")
    return exits.CONFLICT if left else exits.OK


def _why(state: str) -> str:
    return "it is being retried already" if state in RETRIED else f"it is {state}"


def _sure(screen: Screen, by: str) -> bool:
    if not sys.stdin.isatty() or screen.json:
        raise errors.UsageInvalid(f"This retries every task of {by} that failed: add --yes.")
    return Confirm.ask(f"Retry every task of {by} that failed?", console=screen.err, default=False)


async def _fitting(tasks: Tasks, screen: Screen, *, queue: str | None, name: str | None, state: str) -> int:
    retried = seen = 0
    before: UUID | None = None
    with screen.bar() as bar:
        shown = bar.add_task("retrying", total=None, word="")
        while page := await tasks.list(state=state, queue=queue, name=name, before=before, limit=SET):
            before = page[-1].id
            seen += len(page)
            retried += len(await tasks.retry(*(task.id for task in page), untried=True))
            bar.update(shown, word=f"{retried} of {seen}")
        bar.update(shown, total=1, completed=1)
    if screen.json:
        screen.document({"retried_count": retried, "seen_count": seen})
    else:
        screen.print(f"{retried} retried of {seen}.")
    return exits.OK
