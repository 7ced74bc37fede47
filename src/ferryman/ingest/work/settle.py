"""The end of a claim, with all that follows from it in one transaction: coverage, cursor, tasks for which there is room now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ferryman.ingest import coverage
from ferryman.ingest.model import Outcome
from ferryman.ingest.rules import ending
from ferryman.ingest.store import plans, tasks
from ferryman.ingest.store.cursors import Lineage
from ferryman.kernel import faults
from ferryman.kernel.db import Row, Tx


async def settle(tx: Tx, outcome: Outcome, *, queued_max: int, lapsed: bool = False) -> Row | None:
    """End a claim; None if it is stale, Busy if somebody else holds it, and then nothing has changed."""
    row = await tasks.settle(tx, outcome, lapsed=lapsed)
    if row is None:
        return None
    if outcome.covered is not None and row["cursor_id"] is not None:
        lineage = Lineage(row["plan_id"], row["slice_id"], row["id"], row["run_id"])
        await coverage.advance(tx, row["cursor_id"], tenant=row["tenant"], lineage=lineage)
    await plans.derive(tx, tenant=row["tenant"], source=row["source"], most=queued_max)
    await faults.apoint("ingest.ending")
    return row


async def lose(tx: Tx, late: Sequence[Row], *, queued_max: int) -> int:
    """Take tasks from holders that are gone: back into the line, or stuck for good."""
    ended = 0
    for row in late:
        verdict = ending.lost(epoch=row["epoch"], forgiven=row["forgiven"], max_claims=row["max_claims"])
        outcome = Outcome(row["id"], row["epoch"], row["lease_owner"], verdict, stats={"lost": True})
        with suppress(tasks.Busy):  # the next look comes
            ended += await settle(tx, outcome, queued_max=queued_max, lapsed=True) is not None
    return ended


async def give_back(tx: Tx, unknown: Sequence[Row], *, queued_max: int) -> int:
    """Hand back what a worker holds without knowing of it."""
    ended = 0
    for row in unknown:
        outcome = Outcome(row["id"], row["epoch"], row["lease_owner"], ending.handed_back())
        with suppress(tasks.Busy):
            ended += await settle(tx, outcome, queued_max=queued_max) is not None
    return ended
