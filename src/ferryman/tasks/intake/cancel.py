"""Cancelling tasks, in every live state (T14)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.ports import Owners


class Transactions(Protocol):
    """Who can give a transaction."""

    def transaction(self) -> AbstractAsyncContextManager[Tx]:
        """Open one."""


async def cancel(
    db: Transactions, owners: Owners, ids: Collection[UUID], *, tenant: str, reason: str | None = None
) -> Sequence[Row]:
    """Cancel what is still live among these tasks of a tenant; answer with those that were cancelled."""
    async with db.transaction() as tx:
        return await end(tx, owners, ids, tenant=tenant, reason=reason)


async def end(
    tx: Tx,
    owners: Owners,
    ids: Collection[UUID],
    *,
    tenant: str | None = None,
    expired: bool = False,
    code: str | None = None,
    reason: str | None = None,
    owed: Collection[tuple[str, str | None]] | None = None,
) -> Sequence[Row]:
    """Cancel in the caller's transaction, and settle what the ends owe: parents first.

    Whom the ends are owed to is asked, unless the caller has read it with the tasks: it never changes.
    """
    if owed is None:
        owed = await store.callbacks(tx, ids, tenant=tenant)
    if owed:
        await owners.lock(tx, owed)
    rows = await store.cancel(tx, ids, tenant=tenant, expired=expired, code=code, reason=reason)
    if owed:
        await owners.settle(tx, [store.ended(row) for row in rows if row["callback"] is not None])
    return rows
