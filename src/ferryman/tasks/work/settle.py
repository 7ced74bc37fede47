"""Ending tasks together with what their ends owe (K6): one transaction, parents locked first."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.kernel import faults
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.joins import Aftermath, end_children
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import TASK


async def settle(
    tx: Tx, owners: Owners, outcomes: Sequence[Outcome], *, lapsed: bool = False, after: Aftermath | None = None
) -> tuple[Sequence[Row], set[UUID]]:
    """Settle a set in the caller's transaction; answer with those that moved and those that were busy.

    What there is to ring for after the commit is put into `after`.
    """
    after = after or Aftermath()
    owed = [(each.callback, each.callback_ref) for each in outcomes if each.callback and each.state in TASK.terminal]
    if owed:
        await owners.lock(tx, owed)
    rows, busy = await store.settle(tx, outcomes, lapsed=lapsed)
    ended = [store.ended(row) for row in rows if row["callback"] is not None and row["state"] in TASK.terminal]
    if ended:
        after.lanes += await owners.settle(tx, ended)
    bore = {each.id for each in outcomes if each.bore}
    orphaned = [row["id"] for row in rows if row["id"] in bore and row["state"] in TASK.terminal]
    if orphaned:
        await end_children(tx, owners, orphaned, after=after)
    faults.point("settle.inside")
    return rows, busy
