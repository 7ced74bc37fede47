"""What webhooks and deliveries are made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel.event_id import EventId
from ferryman.relays.states import DeliveryState, WebhookState


class Address(NamedTuple):
    """Where an event stands among the subjects: channel, component, target, suffix.

    What is volatile goes out under `str`: it is kept nowhere, and is lost when nobody listens.
    """

    component: str
    target: str
    suffix: str
    channel: str = "main"
    volatile: bool = False


class Webhook(NamedTuple):
    """One receiver of events."""

    id: UUID
    tenant: str
    name: str | None
    url: str
    kinds: tuple[str, ...] | None
    state: WebhookState
    after_id: int
    key_id: str
    secret_version: int
    created_at: datetime
    updated_at: datetime
    rotated_at: datetime | None
    disabled_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        told = self._asdict() | {"id": str(self.id), "kinds": None if self.kinds is None else list(self.kinds)}
        del told["after_id"]
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}


class Delivery(NamedTuple):
    """One event for one webhook."""

    id: UUID
    webhook_id: UUID
    tenant: str
    event_id: str
    kind: str
    state: DeliveryState
    attempts: int
    next_at: datetime
    ends_at: datetime
    leased_until: datetime | None
    created_at: datetime
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None
    retry_of: UUID | None

    def as_json(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        told = self._asdict()
        for name in ("id", "webhook_id", "retry_of"):
            told[name] = None if told[name] is None else str(told[name])
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}


class NewDelivery(NamedTuple):
    """An event that a webhook is to be told."""

    id: UUID
    webhook_id: UUID
    event: EventId
    tenant: str
    kind: str
    body: str


class Claimed(NamedTuple):
    """A delivery that this process sends."""

    id: UUID
    epoch: int
    webhook_id: UUID
    event_id: str
    attempts: int
    body: str
    url: str
    secret_version: int
    both_secrets: bool


class Outcome(NamedTuple):
    """What became of one claim: delivered, dead, again after a delay, or back undone."""

    id: UUID
    epoch: int
    word: str
    status: int | None = None
    error: str | None = None
    delay: float = 0.0


class Standing(NamedTuple):
    """How far a reader of the log is, and who reads."""

    name: str
    last_id: int
    behind: int
    behind_seconds: float
    updated_at: datetime
    lease_owner: UUID | None
    leased_until: datetime | None

    def as_json(self) -> dict[str, Any]:
        """Return what a caller outside Python is shown."""
        told = self._asdict() | {"lease_owner": None if self.lease_owner is None else str(self.lease_owner)}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}
