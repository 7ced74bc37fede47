"""What others must provide: a domain says how its events are told to the outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Protocol

from ferryman.kernel import telemetry
from ferryman.kernel.events import Event
from ferryman.relays.model import Address

log = telemetry.logger("relays")


class Tells(Protocol):
    """How the events of one kind are told."""

    def address(self, event: Event) -> Address:
        """Say where it stands among the subjects."""

    def envelope(self, event: Event) -> Mapping[str, Any]:
        """Say what is sent: JSON values, with `event_id` among them."""


class Plain:
    """How events are told of which no domain says anything."""

    def address(self, event: Event) -> Address:
        """Name the kind, the object and its new state."""
        return Address(component=event.kind, target=str(event.subject), suffix=event.to_state or "told")

    def envelope(self, event: Event) -> Mapping[str, Any]:
        """Tell the columns, and the data as it stands in the log."""
        return plain(event)


def plain(event: Event) -> dict[str, Any]:
    """Return the columns of an event, and its data as it stands in the log."""
    return bare(event) | {"data": json.loads(event.data) if event.data else None}


def bare(event: Event) -> dict[str, Any]:
    """Return the columns of an event without its data: short, and it can always be told."""
    return {
        "type": f"{event.kind}_{_happened(event)}",
        "event_id": event.event_id,
        "tenant": event.tenant,
        "subject": str(event.subject),
        "subject_name": event.subject_name,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "occurred_at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "reason_code": event.reason_code,
        "reason_message": event.reason_message,
    }


def _happened(event: Event) -> str:
    if event.from_state is not None:
        return "state_changed"
    return "told" if event.to_state is None else "created"


class Tellers:
    """Who tells which kind of event; filled once, where the domains meet."""

    def __init__(self, tellers: Mapping[str, Tells] | None = None) -> None:
        """Take the tellers by kind."""
        self._tellers = dict(tellers or {})
        self._plain = Plain()

    def address(self, event: Event) -> Address:
        """Say where an event stands among the subjects."""
        try:
            return self._of(event).address(event)
        except Exception:
            log.exception("an event has no address of its own", extra={"event": event.id, "kind": event.kind})
            return self._plain.address(event)

    def body(self, event: Event) -> str:
        """Return what is sent of an event. One that cannot be told must not stop those behind it (K25): it is told bare."""
        try:
            return json.dumps(
                self._of(event).envelope(event), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        except Exception:
            log.exception("an event cannot be told whole", extra={"event": event.id, "kind": event.kind})
            return self.short(event)

    def short(self, event: Event) -> str:
        """Return the least that can be sent of an event."""
        return json.dumps(bare(event) | {"incomplete": True}, separators=(",", ":"))

    def _of(self, event: Event) -> Tells:
        return self._tellers.get(event.kind, self._plain)
