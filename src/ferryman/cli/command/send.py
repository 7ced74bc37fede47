"""`ferryman command send`, `cancel` and `complete`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ferryman.app.ferryman import Ferryman
from ferryman.cli import exits
from ferryman.cli.command.look import tell
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task.create import length, read
from ferryman.cli.words import flag, says
from ferryman.commands.model import Sent
from ferryman.commands.states import CommandStatus
from ferryman.kernel import errors


async def send(
    type: Annotated[str, says("Type of the command, such as Character.Request.")],
    given: Annotated[str | None, Parameter(name="JSON", help="The payload: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    session: Annotated[str | None, says("The session it belongs to.")] = None,
    key: Annotated[str | None, says("Idempotency key: the same key answers with the command that exists.")] = None,
    scope: Annotated[str | None, says("Scope of its events (else the first part of its type).")] = None,
    deadline: Annotated[str | None, says("How long it may take as a whole, such as 10m.")] = None,
    app: Annotated[str | None, says("The app, as module:attribute: brings the options of its mapping.")] = None,
    wait: Annotated[bool, flag("Wait for its end.")] = False,
    wait_for: Annotated[str | None, says("Wait, but no longer than this, such as 60s.")] = None,
    options: Options = PLAIN,
) -> int:
    """Send a command, and answer when it is stored: with its id, by which all that comes of it is found.

    Example: ferryman command send Character.Request '{"kind": "hero"}' --session novel-1 --wait
    """
    payload = None if given is None else read(given, "the payload")
    within = None if deadline is None else length(deadline, "--deadline")
    async with options.app(app) as opened:
        sent = await opened.commands.send(
            type, payload, session_id=session, idempotency_key=key, scope=scope, deadline=within
        )
        if wait or wait_for is not None:
            return await _until_end(opened, sent, options, within=wait_for)
    screen = options.screen
    if screen.json:
        screen.document(sent.answer())
        return exits.OK
    there = "  (it was there already)" if sent.idempotent_hit else ""
    screen.print(f"{sent.id}  {sent.command.status.value}{there}")
    screen.say(f"ferryman command story {sent.id}", style="dim")
    return exits.OK


async def _until_end(app: Ferryman, sent: Sent, options: Options, *, within: str | None) -> int:
    seconds = None if within is None else length(within, "--wait-for").total_seconds()
    screen = options.screen
    try:
        command = await app.commands.wait(sent.id, timeout=seconds)
    except TimeoutError:
        screen.say(f"Command {sent.id} has not ended after {within}; it goes on without us.")
        return exits.TIMED_OUT
    if screen.json:
        screen.document(sent.answer() | command.as_json())
    else:
        tell(screen, command)
    return exits.OK if command.status is CommandStatus.COMPLETED else exits.FAILED


async def cancel(
    id: Annotated[str, says("Its id.")],
    /,
    *,
    reason: Annotated[str | None, says("Why; it is stored with the command.")] = None,
    options: Options = PLAIN,
) -> int:
    """Cancel a command that has not ended, with all that it started."""
    async with options.app() as app:
        done = await app.commands.cancel(id, reason=reason)
    screen = options.screen
    if screen.json:
        screen.document({"command_id": id, "cancelled": done})
    else:
        screen.print(f"{id}  {'cancelled' if done else 'had ended already'}")
    return exits.OK if done else exits.CONFLICT


async def complete(
    id: Annotated[str, says("The id of the async task.")],
    given: Annotated[str | None, Parameter(name="JSON", help="The result: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    type: Annotated[str | None, says("Type of the result, such as Character.Design.Generated.")] = None,
    failed: Annotated[bool, flag("The JSON is an error, and the task has failed.")] = False,
    options: Options = PLAIN,
) -> int:
    """Give the result of an async task whose work is done outside."""
    told = None if given is None else read(given, "the result")
    result, error = (None, told or {}) if failed else (told, None)
    async with options.app() as app:
        answer = await app.commands.complete(async_task_id=id, type=type, result=result, error=error)
    screen = options.screen
    if screen.json:
        screen.document({"async_task_id": id, "changed": answer.changed, "code": answer.code})
    else:
        screen.print(f"{id}  {'ended' if answer.changed else answer.code}")
    if answer.changed:
        return exits.OK
    return exits.NOT_FOUND if answer.code == errors.AsyncTaskNotFound.code else exits.CONFLICT
