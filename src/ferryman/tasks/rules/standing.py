"""What may be asked of a schedule: a standing order for tasks, checked before anything is stored (T8, T10, T12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, Final

from ferryman.kernel import duration, errors
from ferryman.tasks.model import NewSchedule, NewTask, ScheduleDraft, ScheduleRecord
from ferryman.tasks.rules import cron, request, rhythm
from ferryman.tasks.rules.request import shown, unfit

CRON, DAILY, EVERY = request.RECURRING
CATCH_UP: Final = ("latest", "all", "none")
OVERLAP: Final = ("allow", "skip", "cancel_previous")
UTC: Final = "UTC"
MIDNIGHT: Final = "00:00"

FIELDS = (request.FIELDS - {"scheduled_at"}) | request.RECURRING_FIELDS
# Which kinds a field belongs to.
_BELONGS: Final = {
    "cron_expr": (CRON,),
    "timezone": (CRON, DAILY),
    "time_of_day": (DAILY,),
    "interval": (EVERY,),
    "scheduled_at": (request.AT,),
}
# Compared with an existing schedule when the request names them; the payload is not compared.
COMPARED = ("schedule_type", "cron_expr", "timezone", "interval_ms", "timeout_ms", "max_retries")

INTERVAL_MIN = timedelta(seconds=1)
INTERVAL_MAX = timedelta(days=366)
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::00)?")


def fields(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request from outside; an unknown one is refused by name."""
    kind = asked.get("schedule_type")
    for field in sorted(str(each) for each in asked if each not in FIELDS):
        if field in _BELONGS:
            raise unfit(
                field, f"expected only beside schedule_type {_either(_BELONGS[field])}, got it beside {shown(kind)}"
            )
        raise errors.TaskInvalidRequest(
            f"{field}: expected one of {', '.join(sorted(FIELDS))}; this field is unknown.", field=field
        )
    return dict(asked)


def draft(
    *,
    tenant: str,
    name: str,
    payload: str,
    defaults: request.Defaults,
    schedule_type: object,
    cron_expr: object = None,
    timezone: object = None,
    interval: object = None,
    time_of_day: object = None,
    catch_up: object = None,
    overlap: object = None,
    ends_at: object = None,
    declared: bool = False,
    **others: Any,
) -> ScheduleDraft:
    """Check a request and make the schedule that it asks for; the other fields are those of a task."""
    said = {"cron_expr": cron_expr, "timezone": timezone, "interval": interval, "time_of_day": time_of_day}
    expression, zone, interval_ms = _rhythm(schedule_type, said)
    task = request.draft(tenant=tenant, name=name, payload=payload, defaults=defaults, **others).task
    ends = None if ends_at is None else request.moment(ends_at, "ends_at", errors.TaskInvalidSchedule)
    schedule = NewSchedule(
        schedule_type=str(schedule_type),
        cron_expr=expression,
        timezone=zone,
        interval_ms=interval_ms,
        catch_up=_one_of(catch_up, "catch_up", CATCH_UP),
        overlap=_one_of(overlap, "overlap", OVERLAP),
        ends_at=ends,
        schedule_id=task.task_id,
        declared=declared,
        **_shared(task),
    )
    named = {
        "schedule_type": schedule_type,
        "cron_expr": time_of_day if cron_expr is None else cron_expr,
        "timezone": zone,
        "interval_ms": interval_ms,
        "timeout_ms": others.get("timeout_ms"),
        "max_retries": others.get("max_retries"),
        "task_id": others.get("task_id"),
    }
    return ScheduleDraft(schedule, frozenset(field for field, value in named.items() if value is not None))


def _shared(task: NewTask) -> dict[str, Any]:
    """Return what a schedule takes over from the task that it would make now."""
    names = set(NewTask._fields) & set(NewSchedule._fields)
    return {name: getattr(task, name) for name in names - {"schedule_type", "ends_at"}}


def _rhythm(kind: object, said: dict[str, object]) -> tuple[str | None, str | None, int | None]:
    """Return the cron expression and its timezone, or the interval in milliseconds."""
    if not isinstance(kind, str) or kind not in request.RECURRING:
        raise unfit("schedule_type", f"expected {_either(request.RECURRING)}, got {shown(kind)}")
    for field, value in said.items():
        if value is not None and kind not in _BELONGS[field]:
            raise unfit(field, f"expected only beside schedule_type {_either(_BELONGS[field])}, got it beside {kind!r}")
    if kind == EVERY:
        return None, None, _milliseconds(said["interval"])
    if kind == DAILY:
        return _daily(said["time_of_day"]), _zone(said["timezone"], kind), None
    return _expression(said["cron_expr"]), _zone(said["timezone"], kind), None


def _expression(given: object) -> str:
    if not isinstance(given, str):
        raise unfit(
            "cron_expr", f"expected text such as '0 8 * * mon-fri', got {'none' if given is None else shown(given)}"
        )
    try:
        return cron.parse(given).text
    except ValueError as error:
        raise unfit("cron_expr", str(error)) from None


def _zone(given: object, kind: str) -> str:
    if not isinstance(given, str):
        got = "none" if given is None else shown(given)
        raise unfit("timezone", f"expected the name of a time zone for schedule_type {kind!r}, such as UTC, got {got}")
    try:
        return rhythm.zone(given).key
    except ValueError as error:
        raise unfit("timezone", str(error)) from None


def _daily(given: object) -> str:
    if isinstance(given, time) and given.tzinfo is None and not given.second and not given.microsecond:
        return f"{given.minute} {given.hour} * * *"
    found = _TIME_OF_DAY.fullmatch(MIDNIGHT if given is None else given) if isinstance(given, str | None) else None
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise unfit("time_of_day", f"expected hours and minutes such as '08:30', got {shown(given)}")
    return f"{int(found[2])} {int(found[1])} * * *"


def _milliseconds(given: object) -> int:
    told = f"from {duration.show(INTERVAL_MIN)} to {duration.show(INTERVAL_MAX)}"
    try:
        interval = duration.parse(given)
    except ValueError as error:
        got = "none" if given is None else shown(given)
        raise unfit("interval", f"expected {error}, {told}, got {got}") from None
    if not INTERVAL_MIN <= interval <= INTERVAL_MAX:
        raise unfit("interval", f"expected {told}, got {shown(given)}")
    whole, rest = divmod(interval, timedelta(milliseconds=1))
    if rest:
        raise unfit("interval", f"expected whole milliseconds, got {shown(given)}")
    return whole


def _one_of(given: object, field: str, known: tuple[str, ...]) -> str:
    if given is None:
        return known[0]
    if not isinstance(given, str) or given not in known:
        raise unfit(field, f"expected {_either(known)}, got {shown(given)}")
    return given


def _either(known: tuple[str, ...]) -> str:
    return " or ".join(repr(each) for each in known)


def first_run(schedule: NewSchedule, *, now: datetime) -> datetime:
    """Return when a new schedule fires first; one that never would is refused."""
    found = rhythm.first(of(schedule, since=now), now=now, ends_at=schedule.ends_at)
    if found is not None:
        return found
    if schedule.ends_at is not None and rhythm.first(of(schedule, since=now), now=now, ends_at=None) is not None:
        raise unfit("ends_at", f"expected a time after the first firing, got {schedule.ends_at.isoformat()}")
    raise unfit("cron_expr", f"{schedule.cron_expr!r} never fires: no such day exists")


def of(schedule: NewSchedule | ScheduleRecord, *, since: datetime) -> rhythm.Calendar | rhythm.Every:
    """Return the rhythm of a schedule; an interval is counted from a moment."""
    return rhythm.rhythm(
        cron_expr=schedule.cron_expr, timezone=schedule.timezone, interval_ms=schedule.interval_ms, since=since
    )


def conflicts(asked: ScheduleDraft, existing: ScheduleRecord) -> list[str]:
    """Name the compared fields in which a request differs from the schedule it met (T12)."""
    differing = [
        field
        for field in COMPARED
        if field in asked.given and getattr(asked.schedule, field) != getattr(existing, field)
    ]
    return ["interval" if field == "interval_ms" else field for field in differing]
