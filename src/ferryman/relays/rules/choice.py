"""Which events a webhook is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ferryman.kernel import errors, ids

if TYPE_CHECKING:
    from ferryman.kernel.events import Event
    from ferryman.relays.model import Webhook

MOST: Final = 100
# The life of deliveries is in the log too. To deliver it would make more of it, for ever.
UNTOLD: Final = "webhook_delivery"


def check_kinds(given: Iterable[str] | str | None) -> tuple[str, ...] | None:
    """Return the kinds that a webhook asks for, each once; None for all."""
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise errors.WebhookInvalid(f"kinds: expected names, got {type(given).__name__}.", field="kinds")
    kinds = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not 1 <= len(kinds) <= MOST:
        raise errors.WebhookInvalid(f"kinds: expected 1 to {MOST} of them, or none for all.", field="kinds")
    for kind in kinds:
        try:
            ids.check_name(kind, "kinds")
        except errors.TaskInvalidRequest as wrong:
            raise errors.WebhookInvalid(wrong.message, field="kinds") from None
        if kind.partition(".")[0] == UNTOLD:
            raise errors.WebhookInvalid(f"kinds: {UNTOLD} is not sent; that would make more of it.", field="kinds")
    return kinds


def wants(webhook: Webhook, event: Event) -> bool:
    """Say whether a webhook is told of an event: of its tenant, later than itself, of a kind it asks for, not its own."""
    if event.kind == UNTOLD or event.tenant != webhook.tenant or event.id <= webhook.after_id:
        return False
    if event.subject == webhook.id:
        return False
    if webhook.kinds is None:
        return True
    return event.kind in webhook.kinds or f"{event.kind}.{event.to_state}" in webhook.kinds
