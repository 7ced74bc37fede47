"""`ferryman schedule create`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from ferryman.cli import choices
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.schedule import answer
from ferryman.cli.task.create import milliseconds, moment, pauses, read
from ferryman.cli.words import says
from ferryman.kernel import errors
from ferryman.tasks.rules import standing


async def create(
    name: Annotated[str | None, Parameter(help="Name of the handler.")] = None,
    given: Annotated[str | None, Parameter(name="JSON", help="The payload: JSON, @file, or - for stdin.")] = None,
    /,
    *,
    request: Annotated[str | None, says("A whole request as JSON, @file or -, instead of NAME and options.")] = None,
    cron: Annotated[str | None, says("Five fields, such as '0 8 * * mon-fri'.")] = None,
    daily: Annotated[str | None, says("A time of day, such as 08:30.")] = None,
    every: Annotated[str | None, says("An interval, such as 15m.")] = None,
    timezone: Annotated[str | None, says("Of --cron and --daily (else UTC), such as Europe/Berlin.")] = None,
    catch_up: Annotated[choices.CatchUp | None, says("What to do about missed firings; else latest.")] = None,
    overlap: Annotated[choices.Overlap | None, says("What to do while a task is live; else allow.")] = None,
    id: Annotated[str | None, says("A name of your own for the schedule.")] = None,
    queue: Annotated[str | None, says("The queue of its tasks (else default).")] = None,
    priority: Annotated[int | None, says("-9 to 9, lower first.")] = None,
    timeout: Annotated[str | None, says("How long one try may take, such as 30s.")] = None,
    retries: Annotated[int | None, says("How many more tries after the first.")] = None,
    backoff: Annotated[str | None, says("Pause before a retry: 2s, or JSON as in the API.")] = None,
    key: Annotated[str | None, says("Idempotency key: the same key answers with the schedule that exists.")] = None,
    scope: Annotated[str | None, says("Scope of the idempotency key.")] = None,
    ends_at: Annotated[str | None, says("Fire no more from then on.")] = None,
    limit_key: Annotated[str | None, says("Share slots with tasks of the same queue and key.")] = None,
    singleton: Annotated[str | None, says("While a task with this key lives, a firing makes none.")] = None,
    app: Annotated[
        str | None, says("The app, as module:attribute: checks the payload, brings the handler's defaults.")
    ] = None,
    options: Options = PLAIN,
) -> None:
    """Create a schedule, and answer when it is stored; each of its firings is a task.

    Examples: ferryman schedule create report --cron '0 8 * * mon-fri' --timezone Europe/Berlin,
    ferryman schedule create poll '{"feed": "news"}' --every 15m --overlap skip --id poll-news
    """
    fields = {
        "task_id": id, "queue": queue, "priority": priority, "max_retries": retries, "idempotency_key": key,
        "idempotency_scope": scope, "ends_at": moment(ends_at, "--ends-at"), "timeout_ms": milliseconds(timeout),
        "backoff": pauses(backoff), "catch_up": catch_up, "overlap": overlap, "limit_key": limit_key, "singleton": singleton,
        **_rhythm(cron, daily, every, timezone, whole=request is not None),
    }  # fmt: skip
    fields = {field: value for field, value in fields.items() if value is not None}
    asked = _asked(request, name, given, fields)
    async with options.app(app) as opened:
        answer.told(await opened.schedules.accept(asked), options)


def _rhythm(
    cron: str | None, daily: str | None, every: str | None, timezone: str | None, *, whole: bool
) -> dict[str, Any]:
    said = {standing.CRON: cron, standing.DAILY: daily, standing.EVERY: every}
    kinds = [kind for kind, value in said.items() if value is not None]
    if whole and not kinds and timezone is None:
        return {}
    if len(kinds) != 1:
        raise errors.UsageInvalid("Say when by one of --cron, --daily and --every.")
    zone = timezone if timezone is not None or kinds[0] == standing.EVERY else standing.UTC
    return {"schedule_type": kinds[0], "cron_expr": cron, "time_of_day": daily, "interval": every, "timezone": zone}


def _asked(request: str | None, name: str | None, given: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    if request is None:
        if name is None:
            raise errors.UsageInvalid("Name the handler, or give a whole --request.")
        return {"name": name, "payload": {} if given is None else read(given, "the payload"), **fields}
    if name is not None or fields:
        raise errors.UsageInvalid(f"--request is the whole request; {name or min(fields)} beside it is one too many.")
    whole = read(request, "--request")
    if not isinstance(whole, dict):
        raise errors.UsageInvalid(f"--request: expected a JSON object, got {type(whole).__name__}.")
    return whole
