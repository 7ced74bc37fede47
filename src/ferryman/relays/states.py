"""What a webhook and a delivery can be, and what ends them."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move


class WebhookState(StrEnum):
    """A webhook is called, or waits to be told to, or is no more."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


ACTIVE, PAUSED, DISABLED = WebhookState.ACTIVE, WebhookState.PAUSED, WebhookState.DISABLED

# At rest, active or paused: what is owed are its deliveries, and each of them has an end of its own.
WEBHOOK = Machine(
    name="WEBHOOK",
    table="webhooks",
    states=WebhookState,
    initial={ACTIVE},
    moves=[
        move("pause", out_of=[ACTIVE], to=PAUSED),
        move("resume", out_of=[PAUSED], to=ACTIVE),
        move("disable", out_of=[ACTIVE, PAUSED], to=DISABLED),
    ],
    present={"disabled_at": {DISABLED}},
    resting={ACTIVE, PAUSED},
    ends_by={},
    code="WEBHOOK_INVALID_TRANSITION",
)


class DeliveryState(StrEnum):
    """One event for one webhook: it is owed, or it was taken, or it is a dead letter."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


PENDING, DELIVERED, DEAD = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD

# A claim is no move: what is being sent is pending, with a lease. Dead is final; trying anew makes a new delivery.
DELIVERY = Machine(
    name="DELIVERY",
    table="webhook_deliveries",
    states=DeliveryState,
    initial={PENDING},
    moves=[
        move("deliver", out_of=[PENDING], to=DELIVERED, fenced=True),
        move("give_up", out_of=[PENDING], to=DEAD, fenced=True),
        move("expire", out_of=[PENDING], to=DEAD, repair=True),
        move("drop", out_of=[PENDING], to=DEAD),
    ],
    present={"finished_at": {DELIVERED, DEAD}},
    ends_by={PENDING: Bound(rule="K10-dead", column="ends_at")},
    code="DELIVERY_INVALID_TRANSITION",
)
