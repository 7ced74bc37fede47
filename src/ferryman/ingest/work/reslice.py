"""The planner's word about what ended with something left: halves, one remainder, or nothing (I7, I10)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from ferryman.ingest import cutting
from ferryman.ingest.registry import Sources
from ferryman.ingest.rules import reslicing, slicing
from ferryman.ingest.store import plans, tasks
from ferryman.kernel import telemetry
from ferryman.kernel.db import Row, Tx

log = telemetry.logger("ingest")


async def decide(tx: Tx, left: Sequence[Row], sources: Sources, *, queued_max: int, ends_after: timedelta) -> int:
    """Decide about each, and derive what has room."""
    for row in left:
        await _decide(tx, row, sources, ends_after=ends_after)
    for tenant, source in sorted({(row["tenant"], row["source"]) for row in left}):
        await plans.derive(tx, tenant=tenant, source=source, most=queued_max)
    return len(left)


async def _decide(tx: Tx, row: Row, sources: Sources, *, ends_after: timedelta) -> None:
    cut = slicing.read(json.loads(row["spec"]), lower=row["lower"], upper=row["upper"])
    decision = reslicing.decide(
        cut,
        code=row["error_code"],
        covered=row["covered"],
        after=row["after_token"],
        has_next=row["has_next"],
        depth=row["depth"],
    )
    if not await tasks.decide(tx, row["id"], decision.word):
        return
    log.info("what remains of a slice: %s", decision.word, extra={"task": str(row["id"]), "source": row["source"]})
    if not decision.cuts:
        return
    successors = await cutting.store(
        tx,
        row["plan_id"],
        sources.declared[row["source"], row["endpoint"]],
        decision.cuts,
        operation=row["operation"],
        expression=json.loads(row["expression"]),
        expr_hash=row["expr_hash"],
        depth=row["depth"] + (decision.word == reslicing.BISECT),
        priority=row["priority"],
        ends_after=ends_after,
    )
    await plans.replace(tx, row["slice_id"], successors)
