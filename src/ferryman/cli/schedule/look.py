"""`ferryman schedule list`, `show` and `next`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from ferryman.app.doctor import plain
from ferryman.cli import choices, spelling
from ferryman.cli.events import told
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.schedule.answer import rhythm
from ferryman.cli.screen import Screen
from ferryman.cli.task.wait import decoded
from ferryman.cli.words import says
from ferryman.kernel import errors
from ferryman.tasks.model import Firing, ScheduleRecord
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.rules.request import as_uuid

SHOWN = 5


async def list_page(
    *,
    state: Annotated[choices.ScheduleState | None, says("In this state only.")] = None,
    name: Annotated[str | None, says("Of this handler only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List schedules, newest first, a page at a time."""
    last = None if before is None else as_uuid(before)
    if before is not None and last is None:
        raise errors.UsageInvalid(f"--before: expected an id of a schedule, got {before!r}.")
    async with options.app() as app:
        page = await app.schedules.list(state=state, name=name, before=last, limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"schedules": [schedule.as_json() for schedule in page], "next_before": more})
        return
    columns = ("id", "name", "when", "state", "next", "last", "fired", "missed", "skipped")
    screen.table(columns, (_row(schedule) for schedule in page))
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none.")


def _row(schedule: ScheduleRecord) -> tuple[Any, ...]:
    return (
        schedule.schedule_id, schedule.name, rhythm(schedule), schedule.state.value, schedule.next_run_at,
        schedule.last_run_at, schedule.fired, schedule.missed or "", schedule.skipped or "",
    )  # fmt: skip


async def show(
    id: Annotated[str, says("Its id or the name given to it.")],
    /,
    *,
    options: Options = PLAIN,
) -> None:
    """Show a schedule: its record, its next firings, its latest tasks and what happened to it."""
    async with options.app() as app:
        schedule = await app.schedules.record(id)
        following = await app.schedules.next(schedule.id, SHOWN)
        fired = await app.schedules.firings(schedule.id, limit=SHOWN)
        happened = (await app.schedules.events(schedule.id))[-SHOWN:]
    screen = options.screen
    if screen.json:
        screen.document({
            "schedule": {**schedule.as_json(), "payload": decoded(schedule.payload)},
            "next": [plain(each) for each in following],
            "firings": [each.as_json() for each in fired],
            "events": [envelope(event) for event in happened],
        })  # fmt: skip
        return
    _record(screen, schedule)
    if following:
        screen.print("\nNext", style="bold")
        _times(screen, schedule, following)
    if fired:
        screen.print("\nLatest tasks", style="bold")
        screen.table(("fired for", "task", "state", "error"), (_fired(each) for each in fired))
    screen.print("\nWhat happened", style="bold")
    rows = [(spelling.moment(event.at, precise=True), told(event), event.reason_message) for event in happened]
    screen.table(("at", "what", "why"), rows)


def _record(screen: Screen, schedule: ScheduleRecord) -> None:
    named = None if str(schedule.id) == schedule.schedule_id else schedule.id
    screen.pairs([
        ("schedule_id", schedule.schedule_id), ("id", named), ("name", schedule.name), ("state", schedule.state.value),
        ("when", rhythm(schedule)), ("catch_up", schedule.catch_up), ("overlap", schedule.overlap),
        ("queue", schedule.queue), ("priority", schedule.priority or None), ("tenant", schedule.tenant),
        ("in the code", "yes" if schedule.declared else None), ("created", schedule.created_at),
        ("last fired for", schedule.last_run_at), ("fires next", schedule.next_run_at), ("ends at", schedule.ends_at),
        ("ended", schedule.ended_at), ("fired", schedule.fired), ("missed", schedule.missed or None),
        ("skipped", schedule.skipped or None), ("timeout", spelling.seconds(schedule.timeout_ms / 1000)),
        ("retries", schedule.max_retries), ("key", schedule.idempotency_key), ("payload", schedule.payload[:400]),
    ])  # fmt: skip


def _fired(firing: Firing) -> tuple[Any, ...]:
    return firing.fire_time, firing.task_id, firing.state.value, firing.last_error_reason or firing.last_error_code


def _times(screen: Screen, schedule: ScheduleRecord, following: Sequence[datetime]) -> None:
    zone = ZoneInfo(schedule.timezone) if schedule.timezone not in (None, "UTC") else None
    for each in following:
        there = f"  ({each.astimezone(zone):%a %Y-%m-%d %H:%M %Z})" if zone else f"  ({each:%a})"
        screen.print(f"{spelling.moment(each)}{there}")


async def upcoming(
    id: Annotated[str, says("Its id or the name given to it.")],
    /,
    *,
    count: Annotated[int, says("How many, 1 to 1000.")] = SHOWN,
    options: Options = PLAIN,
) -> None:
    """List the next firings; of a paused schedule those that a resume would lead to."""
    async with options.app() as app:
        schedule = await app.schedules.record(id)
        following = await app.schedules.next(schedule.id, count)
    screen = options.screen
    if screen.json:
        screen.document({"schedule_id": schedule.schedule_id, "next": [plain(each) for each in following]})
        return
    _times(screen, schedule, following)
    if not following:
        screen.say("There are none to come.")
