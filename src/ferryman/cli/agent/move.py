"""`ferryman agent create`, `send`, `report` and `stop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from ferryman.agents.model import Accepted
from ferryman.app.refusals import refusal
from ferryman.cli import choices, exits
from ferryman.cli.agent.look import agent_json, turn_id, turn_json
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task.create import read
from ferryman.cli.words import flag, says
from ferryman.kernel import errors, payload


async def create(
    agent_id: Annotated[str, says("The id it shall have: one word of letters, digits, _ : -")],
    profile: Annotated[str, says("What it is: the name of a registered agent.")],
    /,
    *,
    when_busy: Annotated[choices.WhenBusy, says("What becomes of a message while it is busy.")] = "enqueue",
    options: Options = PLAIN,
) -> None:
    """Make an agent of a profile, unless it is there."""
    async with options.app() as app:
        agent = await app.agents.ensure(agent_id, profile, when_busy=when_busy)
    if options.screen.json:
        options.screen.document({"agent": agent_json(agent)})
    else:
        options.screen.print(f"{agent.agent_id} is a {agent.profile}, {agent.status}.")


async def send(
    agent_id: Annotated[str, says("Whom to ask.")],
    instruction: Annotated[str, says("What to do: text, or JSON.")],
    /,
    *,
    wait: Annotated[bool, flag("Wait for the end, and print the deliverable.")] = False,
    options: Options = PLAIN,
) -> int:
    """Ask an agent for a turn; with --wait 0 if it succeeded, 1 if not."""
    screen = options.screen
    async with options.app() as app:
        turn = await app.agents.send(agent_id, _said(instruction))
        if not wait:
            if screen.json:
                screen.document({"turn": str(turn.id)})
            else:
                screen.print(str(turn.id))
            return exits.OK
        end = await turn.end()
        left = await turn.deliverable(end)
    if screen.json:
        screen.document({"turn": turn_json(end), "deliverable": left})
    else:
        screen.document(left)
        if end.turn_status != "success":
            screen.say(f"The turn ended as {end.turn_status}: {end.error or end.error_code}", style="yellow")
    return exits.OK if end.turn_status == "success" else exits.FAILED


def _said(text: str) -> Any:
    """Read an instruction: JSON where it is an object or a list, else the text as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return payload.decode(text)
    except errors.TaskInvalidPayload:
        return text


async def report(
    call: Annotated[str, says("The id of the call, as `agent timeline` and `explain` show it.")],
    given: Annotated[str | None, Parameter(name="JSON", help="The result: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    failed: Annotated[bool, flag("The JSON is an error, and the call has failed.")] = False,
    options: Options = PLAIN,
) -> int:
    """Answer a call that a turn waits for, such as an approval. The first answer counts.

    Example: ferryman agent report call_0199…_1 true
    """
    value = None if given is None else read(given, "the result")
    error = value if isinstance(value, Mapping) else {"code": "tool_failed", "message": str(value or "failed")}
    async with options.app() as app:
        if failed:
            answer = await app.agents.report(call, status="failed", error=error)
        else:
            answer = await app.agents.report(call, result=value)
    if not isinstance(answer, Accepted):
        raise refusal(answer, tool_call_id=call)
    if options.screen.json:
        options.screen.document({"status": answer.status, "code": answer.code, "effect": answer.effect})
    else:
        options.screen.print("Answered: the turn goes on." if answer.effect else "accepted: it came too late")
    return exits.OK if answer.effect else exits.CONFLICT


async def stop(
    turn: Annotated[str, says("The turn's id.")],
    /,
    *,
    reason: Annotated[str, says("Why; it is kept with the turn.")] = "stopped by hand",
    options: Options = PLAIN,
) -> int:
    """End a turn at once; one that still waits in line is taken back."""
    async with options.app() as app:
        id = turn_id(turn)
        before = await app.agents.turn(id)
        if before.terminal:
            options.screen.say(f"The turn has ended already, as {before.turn_status}.")
            return exits.FAILED
        answer = await app.agents.stop(id, reason=reason)
    if options.screen.json:
        options.screen.document({"status": answer.status, "code": answer.code})
    else:
        options.screen.print(
            f"{answer.status}: a worker ends it now." if answer.status == "accepted" else answer.status
        )
    return exits.OK if answer.status == "accepted" else exits.FAILED
