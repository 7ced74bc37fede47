"""What may be asked for: every field of a create, checked before anything is stored (T8, T12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids, retry
from ferryman.tasks.model import Draft, NewTask, TaskRecord
from ferryman.tasks.rules import ending
from ferryman.tasks.rules.keys import Keys

AT = "at"
# Kinds of request that make a schedule (rules/standing.py), and the fields that belong to them alone.
RECURRING = ("cron", "daily", "every")
RECURRING_FIELDS = frozenset({"cron_expr", "timezone", "interval", "time_of_day", "catch_up", "overlap"})
DEFAULT_NAME = "default"
# Compared with an existing task when the request names them; the payload is not compared.
COMPARED = ("schedule_type", "scheduled_at", "timeout_ms", "max_retries")
FIELDS = frozenset({
    "task_id", "name", "queue", "priority", "schedule_type", "scheduled_at", "timeout_ms", "max_retries", "backoff",
    "idempotency_key", "idempotency_scope", "ends_at", "payload", "limit_key", "singleton", "debounce", "debounce_key",
})  # fmt: skip

NOTHING: frozenset[str] = frozenset()

PRIORITY_MIN, PRIORITY_MAX = -9, 9
TIMEOUT_MS_MAX = 365 * 24 * 3600 * 1000
RETRIES_MAX = 10_000
SECONDS_MAX = 1000 * 365 * 24 * 3600  # of a wait; a task has its own end long before
# Later than that, a derived time would not fit into what Python can read.
YEAR_MAX = 9000


class Defaults(NamedTuple):
    """What a request does not say."""

    queue: str = "default"
    priority: int = 0
    timeout_ms: int = 300_000
    max_retries: int = 3
    backoff: str | None = None
    keys: Keys | None = None


def draft(
    *,
    tenant: str,
    name: str,
    payload: str,
    defaults: Defaults,
    task_id: object = None,
    queue: object = None,
    priority: object = None,
    timeout_ms: object = None,
    max_retries: object = None,
    schedule_type: object = None,
    scheduled_at: object = None,
    ends_at: object = None,
    backoff: Any = None,
    idempotency_key: object = None,
    idempotency_scope: object = None,
    callback: str | None = None,
    callback_ref: str | None = None,
    traceparent: str | None = None,
) -> Draft:
    """Check a request and make the row that it asks for."""
    due = schedule(schedule_type, scheduled_at)
    id, text_id = identity(task_id)
    ends = None if ends_at is None else moment(ends_at, "ends_at")
    if ends is not None and due is not None and ends <= due:
        raise errors.TaskInvalidRequest(f"ends_at: expected a time after scheduled_at, got {ends}.", field="ends_at")
    if idempotency_scope is not None and idempotency_key is None:
        raise errors.TaskInvalidRequest(
            "idempotency_scope: expected together with idempotency_key, got it alone.", field="idempotency_scope"
        )
    task = NewTask(
        id=id,
        tenant=tenant,
        queue=defaults.queue if queue is None else ids.check_name(queue, "queue"),
        name=name,
        payload=payload,
        priority=_integer(priority, "priority", PRIORITY_MIN, PRIORITY_MAX, defaults.priority),
        timeout_ms=_integer(timeout_ms, "timeout_ms", 1, TIMEOUT_MS_MAX, defaults.timeout_ms),
        max_retries=_integer(max_retries, "max_retries", 0, RETRIES_MAX, defaults.max_retries),
        schedule_type=None if due is None else AT,
        scheduled_at=due,
        ends_at=ends,
        task_id=text_id,
        idempotency_key=None if idempotency_key is None else ids.check_key(idempotency_key, "idempotency_key"),
        idempotency_scope=None if idempotency_scope is None else ids.check_key(idempotency_scope, "idempotency_scope"),
        callback=callback,
        callback_ref=callback_ref,
        traceparent=traceparent,
        backoff=defaults.backoff if backoff is None else spelled(backoff),
    )
    named = {"schedule_type": schedule_type, "timeout_ms": timeout_ms, "max_retries": max_retries}
    given = {field for field, value in named.items() if value is not None}
    if due is not None:
        given.add("scheduled_at")
    if task_id is not None:
        given.add("task_id")
    return Draft(task, frozenset(given))


def many(like: Draft, payloads: Sequence[str]) -> list[Draft]:
    """Make the rows of many requests that differ in payload alone."""
    return [Draft(like.task._replace(id=ids.new_id(), payload=payload), like.given) for payload in payloads]


def keyed(drafts: Sequence[Draft], keys: Iterable[object] | None, scope: object) -> list[Draft]:
    """Give each of many requests its key."""
    given = [] if keys is None else list(keys)
    if keys is None or len(given) != len(drafts):
        raise errors.TaskInvalidRequest(
            f"idempotency_keys: expected one for each of {len(drafts)} payloads, got {len(given)}.",
            field="idempotency_keys",
        )
    within = None if scope is None else ids.check_key(scope, "idempotency_scope")
    named = [ids.check_key(key, "idempotency_keys") for key in given]
    return [
        draft._replace(task=draft.task._replace(idempotency_key=key, idempotency_scope=within))
        for draft, key in zip(drafts, named, strict=True)
    ]


def plain(tenant: str, name: str, payload: str, defaults: Defaults, traceparent: str | None) -> Draft:
    """Make the row for a request that names a handler and a payload and nothing else: there is nothing to check."""
    task = NewTask(
        ids.new_id(), tenant, defaults.queue, name, payload, defaults.priority, defaults.timeout_ms, defaults.max_retries,
        None, None, None, None, None, None, None, None, traceparent, defaults.backoff,
    )  # fmt: skip
    return Draft(task, NOTHING)


def spelled(backoff: Any) -> str:
    """Return how a backoff is stored."""
    return json.dumps(retry.Backoff.parse(backoff).as_json())


def identity(task_id: object) -> tuple[UUID, str | None]:
    """Return the id of a new task and the text it is known by; a task_id that is a UUID is the id itself."""
    if task_id is None:
        return ids.new_id(), None
    name = ids.check_name(str(task_id) if isinstance(task_id, UUID) else task_id, "task_id")
    known = as_uuid(name)
    return (ids.new_id(), name) if known is None else (known, None)


def as_uuid(text: str) -> UUID | None:
    """Read a UUID in its usual form; any other text is not one."""
    if len(text) != 36:
        return None
    try:
        known = UUID(text)
    except ValueError:
        return None
    return known if str(known) == text else None


def schedule(schedule_type: object, scheduled_at: object) -> datetime | None:
    """Return when the task is due, or None for now."""
    if schedule_type is None:
        if scheduled_at is None:
            return None
        raise unfit("schedule_type", "expected 'at' beside scheduled_at, got none")
    _refuse_recurring(schedule_type)
    if schedule_type != AT:
        kinds = ", ".join(repr(kind) for kind in (AT, *RECURRING))
        raise unfit("schedule_type", f"expected {kinds} or none, got {shown(schedule_type)}")
    if scheduled_at is None:
        raise unfit("scheduled_at", "expected a time for schedule_type 'at', got none")
    return moment(scheduled_at, "scheduled_at", errors.TaskInvalidSchedule)


def recurring(request: object) -> bool:
    """Tell whether a request asks for a schedule, and not for one task."""
    kind = request.get("schedule_type") if isinstance(request, Mapping) else None
    return isinstance(kind, str) and kind in RECURRING


def _refuse_recurring(schedule_type: object) -> None:
    if isinstance(schedule_type, str) and schedule_type in RECURRING:
        raise unfit(
            "schedule_type",
            f"{schedule_type!r} makes a schedule, not a task: give the request to app.accept, or use app.schedules",
        )


def moment(
    value: object,
    field: str,
    refusal: type[errors.TaskInvalidSchedule] | type[errors.TaskInvalidRequest] = errors.TaskInvalidRequest,
) -> datetime:
    """Read a time that says its offset, and return it in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise refusal(f"{field}: expected a time in ISO 8601, got {shown(value)}.", field=field) from None
    if not isinstance(value, datetime):
        raise refusal(f"{field}: expected a time, got {shown(value)}.", field=field)
    if value.utcoffset() is None:
        raise refusal(
            f"{field}: expected a time with its UTC offset (such as {value.isoformat()}Z), got a naive one.",
            field=field,
        )
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise refusal(f"{field}: expected a time that exists in UTC, got {shown(value)}.", field=field) from None
    if utc.year >= YEAR_MAX:
        raise refusal(f"{field}: expected a time before the year {YEAR_MAX}, got {utc.isoformat()}.", field=field)
    return utc


def milliseconds(timeout: Any) -> int | None:
    """Return a timeout given in Python, a timedelta or seconds, as it is stored."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not seconds > 0
        or seconds * 1000 > TIMEOUT_MS_MAX
    ):
        raise errors.TaskInvalidRequest(f"timeout: expected more than 0 s, got {shown(timeout)}.", field="timeout")
    return max(1, round(seconds * 1000))


def _integer(value: object, field: str, least: int, most: int, default: int) -> int:
    return default if value is None else whole(value, field, least, most)


def whole(value: object, field: str, least: int, most: int) -> int:
    """Return the value if it is a whole number within these bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise errors.TaskInvalidRequest(
            f"{field}: expected a whole number from {least} to {most}, got {shown(value)}.", field=field
        )
    return value


def reason(given: object) -> str | None:
    """Return why somebody cancels, as it can be stored."""
    if given is not None and not isinstance(given, str):
        raise errors.TaskInvalidRequest(f"reason: expected text, got {shown(given)}.", field="reason")
    return None if given is None else ending.readable(given)


def fields(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request from outside; an unknown one is refused by name."""
    if not isinstance(request, Mapping):
        raise errors.TaskInvalidRequest(f"Expected an object, got {shown(request)}.")
    unknown = sorted(str(field) for field in request if field not in FIELDS)
    _refuse_recurring(request.get("schedule_type"))
    if unknown and unknown[0] in RECURRING_FIELDS:
        raise unfit(unknown[0], f"expected only beside schedule_type {', '.join(RECURRING)}")
    if unknown:
        raise errors.TaskInvalidRequest(
            f"{unknown[0]}: expected one of {', '.join(sorted(FIELDS))}; this field is unknown.", field=unknown[0]
        )
    return dict(request)


def conflicts(asked: Draft, existing: TaskRecord) -> list[str]:
    """Name the compared fields in which a request differs from the task it met (T12)."""
    return [
        field for field in COMPARED if field in asked.given and getattr(asked.task, field) != getattr(existing, field)
    ]


def unfit(field: str, what: str) -> errors.TaskInvalidSchedule:
    """Make the refusal of a field that says when."""
    return errors.TaskInvalidSchedule(f"{field}: {what}.", field=field)


def shown(value: object) -> str:
    """Return how a value that is refused is shown."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
