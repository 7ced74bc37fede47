"""What comes in: webhooks are added, paused, removed; dead deliveries are tried anew."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from ferryman.kernel import errors, events, ids
from ferryman.kernel.db import Row, Tx
from ferryman.relays.model import Delivery, Standing, Webhook
from ferryman.relays.rules import choice, destination
from ferryman.relays.rules.destination import Network
from ferryman.relays.states import DEAD, DELIVERY, WEBHOOK
from ferryman.relays.store import deliveries, relays, webhooks

MOST_LISTED = 1000
LONGEST_REASON = 2000


async def add(
    tx: Tx,
    url: str,
    *,
    tenant: str,
    consumer: str,
    key_id: str,
    name: str | None = None,
    kinds: Iterable[str] | str | None = None,
    allowed: Iterable[Network] = (),
) -> tuple[Webhook, bool]:
    """Add a webhook that is told of what happens from now on; answer with it, and whether it was there already.

    The same name with the same url and kinds is the same webhook.
    """
    checked = destination.check_url(url, allowed=allowed)
    asked = choice.check_kinds(kinds)
    if name is not None:
        _check_name(name)
    end = await events.latest(tx)
    # Whoever reads the log for webhooks begins here at the latest: nothing that comes after this is missed.
    await events.begin(tx, consumer, after_id=end.last_id)
    id = ids.new_id()
    born = await webhooks.create(
        tx, id, tenant=tenant, name=name, url=checked, kinds=asked, after_id=end.last_id, key_id=key_id
    )
    found = await webhooks.get(tx, tenant=tenant, id=id if born else None, name=None if born else name)
    if found is None:
        raise errors.WebhookNotFound()
    if (found.url, found.kinds) != (checked, asked):
        differs = [
            field for field, same in (("url", found.url == checked), ("kinds", found.kinds == asked)) if not same
        ]
        raise errors.WebhookDuplicate(
            f"The webhook {name} differs from the request in {', '.join(differs)}.",
            conflict_fields=differs,
            id=str(found.id),
        )
    return found, not born


def _check_name(name: str) -> None:
    try:
        ids.check_name(name, "name")
    except errors.TaskInvalidRequest as wrong:
        raise errors.WebhookInvalid(wrong.message, field="name") from None
    if as_uuid(name) is not None:
        raise errors.WebhookInvalid("name: expected a name, got what could be an id.", field="name")


def as_uuid(text: str | UUID) -> UUID | None:
    """Read an id; None for a name."""
    try:
        return text if isinstance(text, UUID) else UUID(str(text))
    except ValueError:
        return None


async def get(tx: Tx, named: str | UUID, *, tenant: str) -> Webhook:
    """Read one webhook, by id or name."""
    id = as_uuid(named)
    asked = id is not None or ids.is_name(named)
    found = await webhooks.get(tx, tenant=tenant, id=id, name=None if id else str(named)) if asked else None
    if found is None:
        raise errors.WebhookNotFound(f"There is no webhook {named} for this tenant.", id=str(named))
    return found


async def list_page(
    tx: Tx, *, tenant: str, state: str | None = None, before: UUID | None = None, limit: int = 50
) -> list[Webhook]:
    """Read a page of webhooks, newest first."""
    _check_page(state, [each.value for each in WEBHOOK.states], limit)
    return await webhooks.list_page(tx, tenant=tenant, state=state, before=before, limit=limit)


async def deliveries_of(
    tx: Tx, named: str | UUID, *, tenant: str, state: str | None = None, before: UUID | None = None, limit: int = 50
) -> list[Delivery]:
    """Read a page of a webhook's deliveries, newest first."""
    _check_page(state, [each.value for each in DELIVERY.states], limit)
    found = await get(tx, named, tenant=tenant)
    return await deliveries.list_page(tx, found.id, tenant=tenant, state=state, before=before, limit=limit)


def _check_page(state: str | None, known: list[str], limit: object) -> None:
    if state is not None and state not in known:
        raise errors.WebhookInvalid(f"state: expected {', '.join(known)}, got {state!r}.", field="state")
    if not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        raise errors.WebhookInvalid(f"limit: expected 1 to {MOST_LISTED}, got {limit!r}.", field="limit")


async def pause(tx: Tx, named: str | UUID, *, tenant: str, reason: str | None = None) -> tuple[Webhook, bool]:
    """Send nothing to a webhook for now; say whether that is new."""
    found = await get(tx, named, tenant=tenant)
    moved = await webhooks.pause(tx, found.id, tenant=tenant, reason=_reason(reason))
    return await _after(tx, found, moved)


async def resume(tx: Tx, named: str | UUID, *, tenant: str, reason: str | None = None) -> tuple[Webhook, bool]:
    """Send to a paused webhook again; say whether that is new."""
    found = await get(tx, named, tenant=tenant)
    moved = await webhooks.resume(tx, found.id, tenant=tenant, reason=_reason(reason))
    return await _after(tx, found, moved)


async def remove(tx: Tx, named: str | UUID, *, tenant: str, reason: str | None = None) -> tuple[Webhook, bool]:
    """End a webhook, and with it what it was owed; say whether that is new."""
    found = await get(tx, named, tenant=tenant)
    moved = await webhooks.disable(tx, found.id, tenant=tenant, reason=_reason(reason))
    return await _after(tx, found, moved)


async def rotate(tx: Tx, named: str | UUID, *, tenant: str, key_id: str) -> Webhook:
    """Give a webhook another secret; for a day the one before signs too."""
    found = await get(tx, named, tenant=tenant)
    if await webhooks.rotate(tx, found.id, tenant=tenant, key_id=key_id) is None:
        raise errors.InvalidTransition(
            f"The webhook {named} was removed.", code=WEBHOOK.code, from_=found.state, id=str(found.id)
        )
    return await get(tx, found.id, tenant=tenant)


def _reason(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or "\x00" in given or len(given) > LONGEST_REASON or not _whole(given):
        raise errors.WebhookInvalid(
            f"reason: expected a text of at most {LONGEST_REASON} characters that can be stored.", field="reason"
        )
    return given


def _whole(text: str) -> bool:
    """Say whether a text has no half of a surrogate pair, which cannot be stored."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


async def _after(tx: Tx, found: Webhook, moved: bool) -> tuple[Webhook, bool]:
    now = await get(tx, found.id, tenant=found.tenant) if moved else found
    return now, moved


async def retry(tx: Tx, id: UUID, *, tenant: str, ends_after: timedelta) -> tuple[Delivery, bool]:
    """Try a dead delivery anew, as a new one; answer with it, and whether it was there already."""
    new_id = ids.new_id()
    if await deliveries.retry(tx, id, tenant=tenant, new_id=new_id, ends_after=ends_after):
        born = await deliveries.get(tx, tenant=tenant, id=new_id)
        assert born is not None
        return born, False
    known = await deliveries.get(tx, tenant=tenant, id=id)
    if known is None:
        raise errors.DeliveryNotFound(f"There is no delivery {id} for this tenant.", id=str(id))
    existing = await deliveries.get(tx, tenant=tenant, retry_of=id)
    if existing is not None:
        return existing, True
    why = "its webhook was removed" if known.state is DEAD else f"it is {known.state.value}"
    raise errors.DeliveryNotDead(f"The delivery {id} cannot be tried anew: {why}.", id=str(id), state=known.state.value)


async def standings(tx: Tx) -> list[Standing]:
    """Read how far each reader of the log is, and who holds it."""
    return await relays.standings(tx)


async def calls(tx: Tx, *, key_id: str) -> Row:
    """Count the active webhooks whose secrets are made of another key, and the deliveries that died in the last day."""
    return await webhooks.calls(tx, key_id=key_id)
