"""Cancelling tasks, in every live state (T14)."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from ferryman.kernel.db import Row, Tx
from ferryman.tasks.joins import Aftermath, end
from ferryman.tasks.ports import Owners
from ferryman.tasks.store import reads

__all__ = ["Transactions", "cancel", "end", "since"]


class Transactions(Protocol):
    """Who can give a transaction."""

    def transaction(self) -> AbstractAsyncContextManager[Tx]:
        """Open one."""


async def cancel(
    db: Transactions,
    owners: Owners,
    ids: Collection[UUID],
    *,
    tenant: str,
    reason: str | None = None,
    after: Aftermath | None = None,
) -> Sequence[Row]:
    """Cancel what is still live among these tasks of a tenant; answer with those that were cancelled."""
    async with db.transaction() as tx:
        return await end(tx, owners, ids, tenant=tenant, reason=reason, after=after)


async def since(tx: Tx, ids: Collection[UUID], *, tenant: str, began: float) -> Sequence[UUID]:
    """Name those of these tasks that were cancelled since a moment of the monotonic clock.

    The answer is on its way for a while. So the clock is read when it has come: what is left out was cancelled before.
    """
    ages = await reads.cancelled(tx, ids, tenant=tenant)
    within = timedelta(seconds=time.monotonic() - began)
    return [id for id, age in ages.items() if age <= within]
