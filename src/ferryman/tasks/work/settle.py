"""Ending tasks together with what their ends owe (K6): one transaction, parents locked first."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ferryman.kernel import faults
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.joins import CHILD, Aftermath, end_children
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import TASK


async def settle(
    tx: Tx, owners: Owners, outcomes: Sequence[Outcome], *, lapsed: bool = False, after: Aftermath | None = None
) -> tuple[Sequence[Row], set[UUID]]:
    """Settle a set in the caller's transaction; answer with those that moved and those that were busy.

    Busy is also what owes its end to a parent that somebody else holds. What there is to ring for after the commit is put into
    `after`.
    """
    after = after or Aftermath()
    left = await _lock(tx, owners, outcomes)
    if left:
        outcomes = [each for each in outcomes if each.id not in left]
    rows, busy = await store.settle(tx, outcomes, lapsed=lapsed) if outcomes else ([], set())
    busy |= left
    ended = [store.ended(row) for row in rows if row["callback"] is not None and row["state"] in TASK.terminal]
    if ended:
        after.lanes += await owners.settle(tx, ended)
    bore = {each.id for each in outcomes if each.bore}
    orphaned = [row["id"] for row in rows if row["id"] in bore and row["state"] in TASK.terminal]
    if orphaned:
        await end_children(tx, owners, orphaned, after=after)
    faults.point("settle.inside")
    return rows, busy


async def _lock(tx: Tx, owners: Owners, outcomes: Sequence[Outcome]) -> set[UUID]:
    """Lock the parents of a set; answer with those of it whose parents could not be had."""
    owing = [each for each in outcomes if each.callback and each.state in TASK.terminal]
    if not owing:
        return set()
    reached = await owners.try_lock(tx, [(each.callback, each.callback_ref) for each in owing])
    had = {(each.kind, ref) for each in reached for ref in each.refs}
    left = [each for each in owing if (each.callback, each.callback_ref or "") not in had]
    # A parent may be free again before its own outcome is written: it would cancel its children, whose ends are here and wait.
    parents = {each.callback_ref for each in left if each.callback == CHILD}
    return {each.id for each in left} | {each.id for each in outcomes if parents and str(each.id) in parents}
