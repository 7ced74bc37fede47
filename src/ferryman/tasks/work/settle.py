"""Ending tasks together with what their ends owe (K6): one transaction, parents locked first."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.kernel import faults
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import TASK


async def settle(
    tx: Tx, owners: Owners, outcomes: Sequence[Outcome], *, lapsed: bool = False
) -> tuple[Sequence[Row], set[UUID]]:
    """Settle a set in the caller's transaction; answer with those that moved and those that were busy."""
    owed = [(each.callback, each.callback_ref) for each in outcomes if each.callback and each.state in TASK.terminal]
    if owed:
        await owners.lock(tx, owed)
    rows, busy = await store.settle(tx, outcomes, lapsed=lapsed)
    ended = [store.ended(row) for row in rows if row["callback"] is not None and row["state"] in TASK.terminal]
    if ended:
        await owners.settle(tx, ended)
    faults.point("settle.inside")
    return rows, busy
