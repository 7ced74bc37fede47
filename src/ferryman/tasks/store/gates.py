"""Tasks are claimed through gates: in a transaction, first the lock, then the count and the claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many
from ferryman.tasks.model import Claimed

_LOCK = load("ferryman.tasks", "queues/lock")
_CLAIM = load("ferryman.tasks", "queues/claim")
_ENSURE = load("ferryman.tasks", "queues/ensure")


class Asked(NamedTuple):
    """How much is wanted from a lane behind a gate, and behind which key the look begins."""

    queue: str
    tenant: str
    room: int
    after: str


class Looked(NamedTuple):
    """How a look into a lane ended: at which key (None: it saw them all), and what may still wait there.

    `open_seconds`: its rate is spent, and allows the next start then. `waits`: something may wait there for a limit. `cut`: of
    some keys it took no more than their share, though they have slots left.
    """

    queue: str
    tenant: str
    upto: str | None
    open_seconds: float | None
    waits: bool
    cut: bool = False


async def ensure(tx: Tx, queues: Sequence[str]) -> None:
    """Give queues that nobody declared a gate to lock."""
    await many(tx, _ENSURE, queues=list(queues))


async def lock(tx: Tx, queues: Sequence[str]) -> list[str]:
    """Lock the gates of these queues; those that somebody else stands at are not in the answer."""
    return [row["name"] for row in await many(tx, _LOCK, queues=list(queues))]


async def pass_through(
    tx: Tx,
    asked: Sequence[Asked],
    *,
    locked: Sequence[str],
    room: int,
    keys: int,
    owner: UUID,
    names: Sequence[str],
    kinds: Sequence[str],
    lease: timedelta,
    margin: timedelta,
) -> tuple[list[Claimed], list[Looked]]:
    """Claim what the limits allow; the gates are locked by a statement before this one, in the same transaction."""
    rows = await many(
        tx,
        _CLAIM,
        queues=[each.queue for each in asked],
        tenants=[each.tenant for each in asked],
        rooms=[each.room for each in asked],
        afters=[each.after for each in asked],
        locked=list(locked),
        room=room,
        keys=keys,
        owner=owner,
        names=names,
        kinds=kinds,
        lease=lease,
        margin=margin,
    )
    claimed = [Claimed(*row) for row in rows if row["id"] is not None]  # type: ignore[misc]  # in the order of the columns
    looked = [_looked(row) for row in rows if row["id"] is None]
    return claimed, looked


def _looked(row: Row) -> Looked:
    told = json.loads(row["payload"])
    return Looked(row["queue"], row["tenant"], row["task_id"], told["open_seconds"], told["waits"], told["cut"])
