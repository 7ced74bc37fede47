"""An event of a task or a schedule as the outside sees it (T13). The log keeps narrow rows; this is built on reading."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.kernel.events import Event

KIND = "task"
SCHEDULE = "schedule"
SOURCE = "gateway.scheduler"
SESSION_KEY = "scheduler:default"


def envelope(event: Event) -> dict[str, Any]:
    """Return the envelope of a move, a birth, or a schedule's firing."""
    return {
        "type": kind(event),
        "source": SOURCE,
        "session_key": SESSION_KEY,
        "event_id": event.event_id,
        "payload": _schedule(event) if event.kind == SCHEDULE else _task(event),
    }


def kind(event: Event) -> str:
    """Return what an event tells of."""
    if event.from_state is not None:
        return f"{event.kind}_state_changed"
    if event.kind != SCHEDULE or event.to_state is not None:
        return f"{event.kind}_created"
    return "schedule_changed" if "changed" in data(event) else "schedule_fired"


def data(event: Event) -> dict[str, Any]:
    """Return what an event tells beyond its columns."""
    told: dict[str, Any] = json.loads(event.data) if event.data else {}
    return told


def _task(event: Event) -> dict[str, Any]:
    return {
        "task_id": event.subject_name or str(event.subject),
        "from_state": event.from_state,
        "to_state": event.to_state,
        "occurred_at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "attempt": event.attempt,
        "reason_code": event.reason_code,
        "reason_message": event.reason_message,
        "idempotent_hit": False,
    }


def _schedule(event: Event) -> dict[str, Any]:
    return {
        "schedule_id": event.subject_name or str(event.subject),
        "from_state": event.from_state,
        "to_state": event.to_state,
        "occurred_at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "reason_message": event.reason_message,
        **data(event),
    }
