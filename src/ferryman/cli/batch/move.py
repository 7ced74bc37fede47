"""`ferryman batch fork` and `cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from ferryman.cli import exits
from ferryman.cli.batch.look import batch_id, until_end
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task.create import read
from ferryman.cli.words import flag, says
from ferryman.kernel import errors


async def fork(
    request: Annotated[str, Parameter(name="JSON", help="The batch: JSON, @file, or - for stdin.")],
    /,
    *,
    app: Annotated[str | None, says("The app that knows the profiles of new agents, as module:attribute.")] = None,
    wait: Annotated[bool, flag("Wait for the end, and print the result.")] = False,
    follow: Annotated[bool, flag("Draw it as a tree that fills in, until its end.")] = False,
    options: Options = PLAIN,
) -> int:
    """Ask several agents for turns at once; with --wait or --follow 0 if all succeeded, 1 if not.

    Example: ferryman batch fork '{"tasks": [{"target_strategy": "reuse", "target_ref": "ada", "instruction": "go"}]}' --wait
    """
    screen = options.screen
    asked = _asked(request)
    async with options.app(app) as opened:
        tasks = asked.pop("tasks", None)
        batch = await opened.batches.fork(tasks, **asked)
        if follow:
            return await until_end(opened.batches, batch.id, screen)
        if wait:
            result = await batch.result()
            screen.document(result)
            return exits.OK if result["status"] == "success" else exits.FAILED
    if screen.json:
        screen.document({"batch": str(batch.id)})
    else:
        screen.print(str(batch.id))
    return exits.OK


def _asked(text: str) -> dict[str, Any]:
    given = read(text, "The batch")
    if not isinstance(given, Mapping):
        raise errors.UsageInvalid(f"Expected an object with tasks, got {type(given).__name__}.")
    for name in ("id", "channel", "budget"):
        if name in given:
            raise errors.UsageInvalid(f"{name}: is not known here; expected tasks, fail_fast, deadline_seconds.")
    return dict(given)


async def cancel(
    batch: Annotated[str, says("Its id.")],
    /,
    *,
    options: Options = PLAIN,
) -> int:
    """End a batch, stop its children and all that they forked."""
    async with options.app() as app:
        done = await app.batches.cancel(batch_id(batch))
        record = await app.batches.get(batch_id(batch))
    if options.screen.json:
        options.screen.document({"canceled": done, "status": record.status})
    elif done:
        options.screen.print("Ended: its children are being stopped.")
    else:
        options.screen.print(f"It had ended already, as {record.status}.")
    return exits.OK if done else exits.FAILED
