"""The planner's word about what ended with something left: halves, one remainder, or nothing (I7, I10)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import expression, keys, reslicing, slicing
from ferryman.ingest.store import plans, tasks
from ferryman.kernel import ids, telemetry
from ferryman.kernel.db import Row, Tx

log = telemetry.logger("ingest")


async def decide(tx: Tx, left: Sequence[Row], *, queued_max: int, ends_after: timedelta) -> int:
    """Decide about each, and derive what has room."""
    for row in left:
        await _decide(tx, row, ends_after=ends_after)
    for tenant, source in {(row["tenant"], row["source"]) for row in left}:
        await plans.derive(tx, tenant=tenant, source=source, most=queued_max)
    return len(left)


async def _decide(tx: Tx, row: Row, *, ends_after: timedelta) -> None:
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
    made = [_slice(row, each) for each in decision.cuts]
    await plans.cut(
        tx,
        row["plan_id"],
        made,
        depth=row["depth"] + (decision.word == reslicing.BISECT),
        priority=row["priority"],
        ends_after=ends_after,
    )
    await plans.replace(tx, row["slice_id"], [id for id, *_ in made])


def _slice(row: Row, cut: Cut) -> tuple[UUID, Cut, str, Mapping[str, Any]]:
    signature = keys.signature(
        row["source"], row["endpoint"], row["operation"], expr_hash=row["expr_hash"], spec=cut.spec()
    )
    asked = expression.render(json.loads(row["expression"]), cut)
    return ids.new_id(), cut, signature, {"request": asked}
