"""`ferryman ingest plan`, `backfill` and `run`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from ferryman.cli import choices, exits, spelling
from ferryman.cli.ingest.look import shown
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.task.create import moment, read
from ferryman.cli.words import says
from ferryman.ingest.model import Planned
from ferryman.kernel import errors

App = Annotated[str, says("The app that declares the source, as module:attribute.")]
Since = Annotated[str | None, says("From this instant on (a harvest: from its cursor on).")]
Until = Annotated[str | None, says("Up to this instant, not included (else now less the safety lag).")]
Strategy = Annotated[str | None, says("TIME, ID_RANGE, CURSOR_LANDMARK, VOLUME_BUDGET or HYBRID.")]
Params = Annotated[str | None, says("Parameters of the strategy: JSON, @file or -.")]
Expression = Annotated[str | None, says("What to ask for: a text, or JSON with places such as {since}.")]
Budget = Annotated[
    str | None, says("""What a task may use, as JSON: {"requests": 100, "items": 5000, "seconds": 600}.""")
]


async def plan(
    source: Annotated[str, says("Name of the source.")],
    endpoint: Annotated[str | None, says("Its endpoint, where it has several.")] = None,
    /,
    *,
    app: App,
    operation: Annotated[choices.Operation, says("What for.")] = "HARVEST",
    since: Since = None,
    until: Until = None,
    strategy: Strategy = None,
    params: Params = None,
    expression: Expression = None,
    budget: Budget = None,
    campaign: Annotated[str | None, says("A namespace of its own, in which a window can be fetched again.")] = None,
    options: Options = PLAIN,
) -> None:
    """Make a plan: slices and their tasks, which a worker of the app then does.

    Example: ferryman ingest plan crm --app shop:app --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z
    """
    asked = _asked(
        since=since,
        until=until,
        strategy=strategy,
        params=params,
        expression=expression,
        budget=budget,
        campaign=campaign,
    )
    async with options.app(app) as opened:
        _told(await opened.ingest.plan(source, endpoint, operation=operation, **asked), options)


async def backfill(
    source: Annotated[str, says("Name of the source.")],
    endpoint: Annotated[str | None, says("Its endpoint, where it has several.")] = None,
    /,
    *,
    app: App,
    since: Annotated[str, says("From this instant on.")],
    until: Until = None,
    strategy: Strategy = None,
    params: Params = None,
    expression: Expression = None,
    budget: Budget = None,
    campaign: Annotated[str | None, says("A namespace of its own, in which a window can be fetched again.")] = None,
    options: Options = PLAIN,
) -> None:
    """Plan the history of a source, up to its forward watermark; the cursor of the harvest stays as it is."""
    asked = _asked(
        since=since,
        until=until,
        strategy=strategy,
        params=params,
        expression=expression,
        budget=budget,
        campaign=campaign,
    )
    async with options.app(app) as opened:
        _told(await opened.ingest.backfill(source, endpoint, **asked), options)


async def run(
    source: Annotated[str, says("Name of the source.")],
    endpoint: Annotated[str | None, says("Its endpoint, where it has several.")] = None,
    /,
    *,
    app: App,
    since: Since = None,
    until: Until = None,
    options: Options = PLAIN,
) -> None:
    """Harvest once: plan, work until all of it has ended, show how far that came; exit with 1 if not all was fetched."""
    asked = _asked(since=since, until=until)
    async with options.app(app) as opened:
        planned = await opened.ingest.plan(source, endpoint, **asked)
        if planned.id is None:
            _told(planned, options)
            return
        async with opened.worker():
            await opened.ingest.wait(planned.id)
        shown(await opened.ingest.status(planned.id), options)
        told = await opened.explain(planned.id)
    if "fetched" not in told.codes():
        options.screen.say(f"Not everything was fetched; ferryman explain {planned.id} says what was not, and why.")
        raise SystemExit(exits.FAILED)


def _asked(
    *, since: str | None, until: str | None, strategy: str | None = None, params: str | None = None,
    expression: str | None = None, budget: str | None = None, campaign: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    asked = {
        "since": instant(since, "--since"),
        "until": instant(until, "--until"),
        "strategy": strategy,
        "params": None if params is None else read(params, "--params"),
        "expression": read(expression, "--expression") if expression and expression[0] in "{@" else expression,
        "budget": None if budget is None else read(budget, "--budget"),
        "campaign": campaign,
    }
    return {name: value for name, value in asked.items() if value is not None}


def instant(
    text: str | None,
    option: str,
    refusal: type[errors.IngestInvalidWindow] | type[errors.IngestInvalidRequest] = errors.IngestInvalidWindow,
    *,
    expected: str = "an instant",
) -> datetime | None:
    """Read a time; one without an offset is in UTC."""
    try:
        at = moment(text, option)
    except errors.TaskInvalidSchedule:
        told = f"{option}: expected {expected} such as 2026-01-31T08:00:00Z, got {text!r}."
        raise refusal(told, field=option) from None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _told(planned: Planned, options: Options) -> None:
    screen = options.screen
    if screen.json:
        screen.document(planned.as_json())
        return
    if planned.id is None:
        screen.print("Nothing to do: the window is empty.")
        return
    window = ""
    if planned.since is not None and planned.until is not None:
        window = f", {spelling.moment(planned.since)} to {spelling.moment(planned.until)}"
    there = "" if planned.made else "  (it was there already)"
    waiting = f", {planned.waiting} wait for room" if planned.waiting else ""
    failed = f", {planned.failed} failed" if planned.failed else ""
    screen.print(f"{planned.id}  {planned.status}{window}: {planned.slices} slices{waiting}{failed}{there}")
    screen.say(f"ferryman ingest status {planned.id}", style="dim")
