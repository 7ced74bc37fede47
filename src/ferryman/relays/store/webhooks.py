"""Webhooks: their births and moves, and questions about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.kernel import telemetry
from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.relays.model import Webhook
from ferryman.relays.states import WebhookState

log = telemetry.logger("relays")

_CREATE = load("ferryman.relays", "webhooks/create")
_GET = load("ferryman.relays", "webhooks/get")
_LIST = load("ferryman.relays", "webhooks/list")
_TOLD = load("ferryman.relays", "webhooks/told")
_SET_BACK = load("ferryman.relays", "webhooks/set_back")
_PAUSE = load("ferryman.relays", "webhooks/pause")
_RESUME = load("ferryman.relays", "webhooks/resume")
_LOCK = load("ferryman.relays", "webhooks/lock")
_DISABLE = load("ferryman.relays", "webhooks/disable")
_ROTATE = load("ferryman.relays", "webhooks/rotate")
_HOLD = load("ferryman.relays", "webhooks/hold")
_CALLS = load("ferryman.relays", "webhooks/calls")


def record(row: Row) -> Webhook:
    """Read a webhook from its row."""
    values = {name: row[name] for name in Webhook._fields}
    values["state"] = WebhookState(values["state"])
    values["kinds"] = None if values["kinds"] is None else tuple(values["kinds"])
    return Webhook(**values)


async def create(
    tx: Tx,
    id: UUID,
    *,
    tenant: str,
    name: str | None,
    url: str,
    kinds: Sequence[str] | None,
    after_id: int,
    key_id: str,
) -> bool:
    """Give birth to a webhook; False if its name is taken."""
    given = None if kinds is None else list(kinds)
    row = await one(
        tx, _CREATE, id=id, tenant=tenant, name=name, url=url, kinds=given, after_id=after_id, key_id=key_id
    )
    return row is not None


async def get(tx: Tx, *, tenant: str, id: UUID | None, name: str | None) -> Webhook | None:
    """Read one webhook of a tenant."""
    row = await one(tx, _GET, tenant=tenant, id=id, name=name)
    return None if row is None else record(row)


async def list_page(tx: Tx, *, tenant: str, state: str | None, before: UUID | None, limit: int) -> list[Webhook]:
    """Read a page of a tenant's webhooks, newest first."""
    return [record(row) for row in await many(tx, _LIST, tenant=tenant, state=state, before=before, limit=limit)]


async def told(tx: Tx, tenants: Collection[str]) -> list[Webhook]:
    """Read whoever may be owed an event of these tenants."""
    return [record(row) for row in await many(tx, _TOLD, tenants=list(tenants))]


async def set_back(tx: Tx, resume_id: int) -> None:
    """Let webhooks that begin after `resume_id` begin there, because their reader was set back to it."""
    for row in await many(tx, _SET_BACK, resume_id=resume_id):
        log.warning(
            "the webhook %s began after event %s, which was lost, and begins after %s", row["id"], row["was"], resume_id
        )


async def pause(tx: Tx, id: UUID, *, tenant: str, reason: str | None) -> bool:
    """Send nothing to it for now; False if it was not active."""
    return await one(tx, _PAUSE, id=id, tenant=tenant, reason=reason) is not None


async def resume(tx: Tx, id: UUID, *, tenant: str, reason: str | None) -> bool:
    """Send to it again; False if it was not paused."""
    return await one(tx, _RESUME, id=id, tenant=tenant, reason=reason) is not None


async def disable(tx: Tx, id: UUID, *, tenant: str, reason: str | None) -> bool:
    """End it, and with it what it was owed; False if it had ended."""
    await one(tx, _LOCK, id=id, tenant=tenant)
    return await one(tx, _DISABLE, id=id, tenant=tenant, reason=reason) is not None


async def rotate(tx: Tx, id: UUID, *, tenant: str, key_id: str) -> int | None:
    """Give it another secret; return its version, or None if it had ended."""
    row = await one(tx, _ROTATE, id=id, tenant=tenant, key_id=key_id)
    return None if row is None else row["secret_version"]


async def hold(tx: Tx, *, key_id: str, each: int, limit: int) -> list[UUID]:
    """Hold webhooks that have something due and room for it."""
    return [row["id"] for row in await many(tx, _HOLD, key_id=key_id, each=each, limit=limit)]


async def calls(tx: Tx, *, key_id: str) -> Row:
    """Count the active webhooks whose secrets are made of another key, and what died in the last day."""
    row = await one(tx, _CALLS, key_id=key_id)
    assert row is not None
    return row
