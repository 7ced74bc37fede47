"""Deliveries: births, claims, ends, and questions about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.kernel.event_id import EventId
from ferryman.relays.model import Claimed, Delivery, NewDelivery, Outcome
from ferryman.relays.states import DeliveryState

_CREATE = load("ferryman.relays", "webhook_deliveries/create")
_CLAIM = load("ferryman.relays", "webhook_deliveries/claim")
_SETTLE = load("ferryman.relays", "webhook_deliveries/settle")
_RECLAIM = load("ferryman.relays", "webhook_deliveries/reclaim")
_SHORTEN = load("ferryman.relays", "webhook_deliveries/shorten")
_EXPIRED = load("ferryman.relays", "webhook_deliveries/expired")
_EXPIRE = load("ferryman.relays", "webhook_deliveries/expire")
_RETRY = load("ferryman.relays", "webhook_deliveries/retry")
_GET = load("ferryman.relays", "webhook_deliveries/get")
_LIST = load("ferryman.relays", "webhook_deliveries/list")
_PAST = load("ferryman.relays", "webhook_deliveries/past")
_FORGET = load("ferryman.relays", "webhook_deliveries/forget")
_DEPTH = load("ferryman.relays", "webhook_deliveries/depth")

_BUSY = "busy"


def record(row: Row) -> Delivery:
    """Read a delivery from its row."""
    values = {name: row[name] for name in Delivery._fields}
    values["event_id"] = _event_of(row)
    values["state"] = DeliveryState(values["state"])
    return Delivery(**values)


def _event_of(row: Row) -> str:
    """Return the identity that the receiver sees. A delivery of an earlier version has no token, nor has its body."""
    return EventId(row["event_id"], row["event_token"] or None).name


async def create(tx: Tx, deliveries: Sequence[NewDelivery], *, ends_after: timedelta) -> int:
    """Give birth to deliveries; return how many were not there before."""
    rows = await many(
        tx,
        _CREATE,
        ids=[each.id for each in deliveries],
        webhook_ids=[each.webhook_id for each in deliveries],
        event_ids=[each.event.number for each in deliveries],
        event_tokens=[each.event.token or 0 for each in deliveries],
        tenants=[each.tenant for each in deliveries],
        kinds=[each.kind for each in deliveries],
        bodies=[each.body for each in deliveries],
        webhooks=list({each.webhook_id for each in deliveries}),
        ends_after=ends_after,
    )
    return len(rows)


async def claim(
    tx: Tx, webhooks: Collection[UUID], *, owner: UUID, each: int, limit: int, lease: timedelta
) -> list[Claimed]:
    """Claim what is due of webhooks that this transaction holds."""
    rows = await many(tx, _CLAIM, webhooks=list(webhooks), owner=owner, each=each, limit=limit, lease=lease)
    return [Claimed(**{name: row[name] for name in Claimed._fields} | {"event_id": _event_of(row)}) for row in rows]


async def settle(tx: Tx, outcomes: Sequence[Outcome], *, owner: UUID) -> tuple[dict[UUID, str], set[UUID]]:
    """Store what became of claims; return what each came to, and those that were busy. Whose claim was stale is in neither."""
    rows = await many(
        tx,
        _SETTLE,
        owner=owner,
        ids=[each.id for each in outcomes],
        epochs=[each.epoch for each in outcomes],
        words=[each.word for each in outcomes],
        statuses=[each.status for each in outcomes],
        errors=[each.error for each in outcomes],
        waits=[timedelta(seconds=each.delay) for each in outcomes],
    )
    return (
        {row["id"]: row["word"] for row in rows if row["word"] != _BUSY},
        {row["id"] for row in rows if row["word"] == _BUSY},
    )


async def reclaim(tx: Tx, *, owner: UUID, held: Collection[UUID]) -> int:
    """Hand back what is leased to a sender that does not know of it."""
    return len(await many(tx, _RECLAIM, owner=owner, held=list(held)))


async def shorten(tx: Tx, limit: int, *, lease: timedelta) -> Sequence[Row]:
    """Let leases that lie further ahead than any can be end one lease from now: the clock was set back."""
    return await many(tx, _SHORTEN, limit=limit, lease=lease)


async def expired(tx: Tx, limit: int) -> Sequence[Row]:
    """Find what is owed still at its end, and hold it."""
    return await many(tx, _EXPIRED, limit=limit)


async def expire(tx: Tx, ids: Sequence[UUID]) -> int:
    """End what is owed still at its end."""
    return len(await many(tx, _EXPIRE, ids=list(ids)))


async def retry(tx: Tx, id: UUID, *, tenant: str, new_id: UUID, ends_after: timedelta) -> bool:
    """Try a dead delivery anew as a new one; False if it is not dead, or was tried anew before."""
    return await one(tx, _RETRY, id=id, tenant=tenant, new_id=new_id, ends_after=ends_after) is not None


async def get(tx: Tx, *, tenant: str, id: UUID | None = None, retry_of: UUID | None = None) -> Delivery | None:
    """Read one delivery of a tenant, by its own id or by that of the one it tries anew."""
    row = await one(tx, _GET, tenant=tenant, id=id, retry_of=retry_of)
    return None if row is None else record(row)


async def list_page(
    tx: Tx, webhook_id: UUID, *, tenant: str, state: str | None, before: UUID | None, limit: int
) -> list[Delivery]:
    """Read a page of a webhook's deliveries, newest first."""
    rows = await many(tx, _LIST, webhook_id=webhook_id, tenant=tenant, state=state, before=before, limit=limit)
    return [record(row) for row in rows]


async def past(tx: Tx, limit: int, *, kept: timedelta, dead_kept: timedelta) -> Sequence[Row]:
    """Find what ended longer ago than such are kept, and hold it."""
    return await many(tx, _PAST, limit=limit, kept=kept, dead_kept=dead_kept)


async def forget(tx: Tx, ids: Sequence[UUID]) -> int:
    """Delete what has ended."""
    await many(tx, _FORGET, ids=list(ids))
    return len(ids)


async def depth(tx: Tx) -> Row:
    """Count what is owed and what is being sent."""
    row = await one(tx, _DEPTH)
    assert row is not None
    return row
