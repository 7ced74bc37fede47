"""`ferryman task event`: send an event to a task that waits for it, or will."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task.create import read
from ferryman.cli.words import says


async def event(
    id: Annotated[str, says("Its id or task_id.")],
    name: Annotated[str, says("The name that its handler waits for.")],
    given: Annotated[str | None, Parameter(name="JSON", help="The payload: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    options: Options = PLAIN,
) -> int:
    """Send a task an event: it is kept until the handler's wait_event takes it, such as an approval."""
    value = None if given is None else read(given, "the payload")
    async with options.app() as app:
        number = await app.tasks.send_event(id, name, value)
    if options.screen.json:
        options.screen.document({"task_id": id, "name": name, "number": number})
    else:
        options.screen.print(f"{id}  {name} sent")
    return exits.OK
