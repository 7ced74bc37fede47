"""An event of a task as the outside sees it (T13). The log keeps narrow rows; this is built on reading."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.kernel.events import Event

KIND = "task"
SOURCE = "gateway.scheduler"
SESSION_KEY = "scheduler:default"


def envelope(event: Event) -> dict[str, Any]:
    """Return the envelope of a task's move, or of its birth."""
    return {
        "type": "task_created" if event.from_state is None else "task_state_changed",
        "source": SOURCE,
        "session_key": SESSION_KEY,
        "event_id": f"evt_{event.id}",
        "payload": {
            "task_id": event.subject_name or str(event.subject),
            "from_state": event.from_state,
            "to_state": event.to_state,
            "occurred_at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "attempt": event.attempt,
            "reason_code": event.reason_code,
            "reason_message": event.reason_message,
            "idempotent_hit": False,
        },
    }
