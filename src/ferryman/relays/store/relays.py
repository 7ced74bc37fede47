"""Who publishes the log, and how far each of its readers is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Place
from ferryman.relays.model import Standing

_LOOK = load("ferryman.relays", "relays/look")
_TAKE = load("ferryman.relays", "relays/take")
_PLACE = load("ferryman.relays", "relays/place")
_ADVANCE = load("ferryman.relays", "relays/advance")
_RELEASE = load("ferryman.relays", "relays/release")
_SHORTEN = load("ferryman.relays", "relays/shorten")
_ORIGIN = load("ferryman.relays", "relays/origin")
_STANDINGS = load("ferryman.relays", "relays/standings")


async def look(tx: Tx, name: str, *, owner: UUID) -> float | None:
    """Ask for how many seconds somebody else holds a relay; None if nobody does."""
    row = await one(tx, _LOOK, name=name, owner=owner)
    return None if row is None else row["seconds"]


async def shorten(tx: Tx, limit: int, *, lease: timedelta) -> Sequence[Row]:
    """Let leases that lie further ahead than any can be end one lease from now: the clock was set back."""
    return await many(tx, _SHORTEN, limit=limit, lease=lease)


async def take(tx: Tx, name: str, *, owner: UUID, lease: timedelta) -> int | None:
    """Take a relay that nobody else holds; return the epoch of this claim, or None."""
    row = await one(tx, _TAKE, name=name, owner=owner, lease=lease)
    return None if row is None else row["epoch"]


async def place(tx: Tx, name: str) -> Place | None:
    """Read how far a consumer is; None if there is none of this name."""
    row = await one(tx, _PLACE, name=name)
    return None if row is None else Place(row["last_id"], row["mark_id"], row["mark_xid"])


async def advance(
    tx: Tx,
    name: str,
    place: Place,
    *,
    from_id: int,
    owner: UUID,
    epoch: int,
    lease: timedelta,
    published: EventId | None = None,
) -> bool:
    """Store the place of a relay and renew its lease.

    False if another process holds the relay, if its place was not `from_id`, or if the log does not have the event `published`.
    """
    row = await one(
        tx, _ADVANCE, name=name, from_id=from_id, owner=owner, epoch=epoch, lease=lease,
        last_id=place.last_id, mark_id=place.mark_id, mark_xid=place.mark_xid,
        event_id=None if published is None else published.number,
        logged_at=None if published is None else published.logged_at,
    )  # fmt: skip
    return row is not None


async def release(tx: Tx, name: str, *, owner: UUID, epoch: int) -> bool:
    """Hand a relay back; False when it was not held by this claim any more."""
    return await one(tx, _RELEASE, name=name, owner=owner, epoch=epoch) is not None


async def origin(tx: Tx, made: UUID) -> str:
    """Read the name of this log among others; the one given becomes it if there is none yet."""
    row = await one(tx, _ORIGIN, origin=str(made))
    if row is None:  # somebody has made it a moment ago, and this statement did not see it yet
        row = await one(tx, _ORIGIN, origin=str(made))
    assert row is not None
    name: str = row["origin"]
    return name


async def standings(tx: Tx) -> list[Standing]:
    """Read how far each reader of the log is, and who holds it."""
    return [Standing(**{name: row[name] for name in Standing._fields}) for row in await many(tx, _STANDINGS)]
