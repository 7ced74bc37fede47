"""`ferryman task create`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ferryman.app.handle import Handle
from ferryman.app.schedules import Schedule
from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task import wait as waiting
from ferryman.cli.words import flag, says
from ferryman.kernel import duration, errors, payload

STDIN = ("-", "@-")
UNCHECKED = (
    "Without --app nothing is known of the handler: what you did not say is as the settings have it, "
    "and the payload was not checked."
)


async def create(
    name: Annotated[str | None, Parameter(help="Name of the handler.")] = None,
    given: Annotated[str | None, Parameter(name="JSON", help="The payload: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    request: Annotated[str | None, says("A whole request as JSON, @file or -, instead of NAME and options.")] = None,
    at: Annotated[str | None, says("When: 2030-01-31T08:00:00Z, or +90s from now.")] = None,
    id: Annotated[str | None, says("A task_id of your own.")] = None,
    queue: Annotated[str | None, says("The queue (else default).")] = None,
    priority: Annotated[int | None, says("-9 to 9, lower first.")] = None,
    timeout: Annotated[str | None, says("How long one try may take, such as 30s.")] = None,
    retries: Annotated[int | None, says("How many more tries after the first.")] = None,
    backoff: Annotated[str | None, says("Pause before a retry: 2s, or JSON as in the API.")] = None,
    key: Annotated[str | None, says("Idempotency key: the same key answers with the task that exists.")] = None,
    scope: Annotated[str | None, says("Scope of the idempotency key.")] = None,
    ends_at: Annotated[str | None, says("Cancel it if it still waits then.")] = None,
    limit_key: Annotated[str | None, says("Share slots with tasks of the same queue and key.")] = None,
    singleton: Annotated[str | None, says("While one with this key lives, that one is the answer.")] = None,
    app: Annotated[
        str | None,
        says(
            "The app, as module:attribute: checks the payload, brings the handler's defaults; without it the settings' "
            "defaults hold."
        ),
    ] = None,
    wait: Annotated[bool, flag("Wait for its end and show the result.")] = False,
    wait_for: Annotated[str | None, says("Wait, but no longer than this, such as 60s.")] = None,
    options: Options = PLAIN,
) -> int:
    """Create a task, and answer when it is stored; a request for cron, daily or every makes a schedule.

    Examples: ferryman task create greet '{"name": "Ada"}' --wait, ferryman task create report @june.json --at +2h --key june,
    echo '{"schedule_type": "at", …}' | ferryman task create --request -
    """
    fields = {
        "task_id": id, "queue": queue, "priority": priority, "max_retries": retries, "idempotency_key": key,
        "idempotency_scope": scope, "ends_at": moment(ends_at, "--ends-at"), "limit_key": limit_key, "singleton": singleton,
        "timeout_ms": milliseconds(timeout), "backoff": pauses(backoff),
    }  # fmt: skip
    if at is not None:
        fields |= {"schedule_type": "at", "scheduled_at": moment(at, "--at")}
    fields = {field: value for field, value in fields.items() if value is not None}
    asked = _asked(request, name, given, fields)
    async with options.app(app) as opened:
        handle = await opened.accept(asked)
        if app is None and not handle.idempotent_hit and not options.json:
            options.screen.say(UNCHECKED, style="dim")
        if isinstance(handle, Schedule):
            from ferryman.cli.schedule import answer  # which reads its options as we do

            answer.told(handle, options)
            return exits.OK
        if wait or wait_for is not None:
            return await waiting.until_end(opened.tasks, handle, options, within=wait_for)
        _told(handle, options)
    return exits.OK


def _asked(request: str | None, name: str | None, given: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    if request is None:
        if name is None:
            raise errors.UsageInvalid("Name the handler, or give a whole --request.")
        return {"name": name, "payload": {} if given is None else read(given, "the payload"), **fields}
    if name is not None or fields:
        told = name or min(fields)
        raise errors.UsageInvalid(f"--request is the whole request; {told} beside it is one too many.")
    whole = read(request, "--request")
    if not isinstance(whole, dict):
        raise errors.UsageInvalid(f"--request: expected a JSON object, got {type(whole).__name__}.")
    return whole


def read(given: str, told: str) -> Any:
    """Read JSON that was typed, or lies in a file (@name), or comes in on stdin (-)."""
    if given in STDIN:
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.UsageInvalid(f"{told}: {given[1:]} cannot be read: {error}.") from error
    else:
        text = given
    try:
        return payload.decode(text)
    except errors.FerrymanError as error:
        raise errors.TaskInvalidPayload(f"{told} is not JSON: {error.message}") from error


def moment(text: str | None, told: str) -> datetime | None:
    """Read a time, or how far from now it is."""
    if text is None:
        return None
    try:
        if text.startswith("+"):
            return datetime.now(UTC) + duration.parse(text[1:])
        found = datetime.fromisoformat(text)
    except ValueError:
        raise errors.TaskInvalidSchedule(
            f"{told}: expected a time such as 2030-01-31T08:00:00Z or +90s, got {text!r}.", field=told
        ) from None
    return found


def milliseconds(text: str | None) -> int | None:
    """Read a timeout."""
    return None if text is None else round(length(text, "--timeout").total_seconds() * 1000)


def length(text: str, told: str) -> timedelta:
    """Read a length of time."""
    try:
        return duration.parse(text)
    except ValueError as error:
        raise errors.UsageInvalid(f"{told}: expected {error}, got {text!r}.") from None


def pauses(text: str | None) -> Any:
    """Read a backoff: a pause, or JSON."""
    if text is None:
        return None
    return read(text, "--backoff") if text[:1] in "{[" else length(text, "--backoff").total_seconds()


def _told(handle: Handle, options: Options) -> None:
    screen = options.screen
    if screen.json:
        screen.document(handle.answer())
        return
    task = handle.task
    if handle.idempotent_hit:
        screen.print(f"{task.task_id}  {task.state.value}  (it was there already)")
    elif task.schedule_type:
        screen.print(f"{task.task_id}  {task.state.value}, due {task.due_at:%Y-%m-%d %H:%M:%S}Z")
    else:
        screen.print(f"{task.task_id}  {task.state.value}")
    screen.say(f"ferryman task show {task.task_id}", style="dim")
