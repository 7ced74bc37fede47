"""Tasks and their runs: claimed, renewed, settled."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.ingest.model import Begun, Budget, Claimed, Outcome
from ferryman.ingest.rules import slicing
from ferryman.ingest.window import START
from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.ingest"
_HOLD = load(_HERE, "ingest_source/hold")
_STRIKE = load(_HERE, "ingest_source/strike")
_CLAIM = load(_HERE, "ingest_task/claim")
_EXECUTE = load(_HERE, "ingest_task/execute")
_RENEW = load(_HERE, "ingest_task/renew")
_LOCK = load(_HERE, "ingest_task/lock")
_SETTLE = load(_HERE, "ingest_task/settle")
_LAPSED = load(_HERE, "ingest_task/lapsed")
_SHORTEN = load(_HERE, "ingest_task/shorten")
_RECLAIM = load(_HERE, "ingest_task/reclaim")
_EXPIRED = load(_HERE, "ingest_task/expired")
_CANCEL = load(_HERE, "ingest_task/cancel")
_UNDECIDED = load(_HERE, "ingest_task/undecided")
_DECIDE = load(_HERE, "ingest_task/decide")
_DEPTH = load(_HERE, "ingest_task/depth")

SOURCES_MAX = 200


class Busy(Exception):
    """Somebody else holds the row of a claim; nothing was written."""


async def claim(
    tx: Tx,
    *,
    owner: UUID,
    known: Iterable[tuple[str, str]],
    room: int,
    partition: int,
    lease: timedelta,
    margin: timedelta,
) -> Sequence[Claimed]:
    """Hold the sources that have something in line, then claim; two statements of one transaction."""
    pairs = sorted(known)
    declared = {
        "known_sources": [source for source, _ in pairs],
        "known_endpoints": [endpoint for _, endpoint in pairs],
    }
    held = await many(tx, _HOLD, **declared, limit=SOURCES_MAX)
    if not held:
        return ()
    rows = await many(
        tx,
        _CLAIM,
        tenants=[row["tenant"] for row in held],
        sources=[row["source"] for row in held],
        **declared,
        owner=owner,
        room=room,
        partition=partition,
        lease=lease,
        margin=margin,
    )
    return [_claimed(row) for row in rows]


def _claimed(row: Row) -> Claimed:
    spec = json.loads(row["spec"])
    cut = slicing.read(spec, lower=row["lower"], upper=row["upper"], estimate=row["estimate"])
    return Claimed(
        id=row["id"], epoch=row["epoch"], attempt=row["attempt"], run_id=row["run_id"], plan_id=row["plan_id"],
        tenant=row["tenant"], source=row["source"], endpoint=row["endpoint"], operation=row["operation"], cut=cut,
        covered=row["covered"], depth=row["depth"],
        budget=Budget(row["max_requests"], row["max_items"], row["max_seconds"]), used=row["used"],
        max_attempts=row["max_attempts"], params=json.loads(row["params"]),
    )  # fmt: skip


async def execute(tx: Tx, task: Claimed, *, owner: UUID) -> Begun | None:
    """Begin the run of a claim; None if it is stale."""
    row = await one(tx, _EXECUTE, id=task.id, epoch=task.epoch, owner=owner, plan_id=task.plan_id)
    if row is None:
        return None
    position: str | None = task.cut.start or START
    if row["has_next"] is not None:
        position = row["after_token"] if row["has_next"] else None
    return Begun(position, row["requests"], row["items"], row["seconds"], row["pages"], row["usual"])


async def renew(
    tx: Tx, ids: Sequence[UUID], epochs: Sequence[int], *, owner: UUID, lease: timedelta, margin: timedelta
) -> Mapping[UUID, bool]:
    """Say that a holder lives; answer for each that is still its whether it was renewed."""
    rows = await many(tx, _RENEW, ids=list(ids), epochs=list(epochs), owner=owner, lease=lease, margin=margin)
    return {row["id"]: row["renewed"] for row in rows}


async def settle(tx: Tx, outcome: Outcome, *, lapsed: bool = False) -> Row | None:
    """End a claim, with its run and its open batches; None if it is stale, and Busy while somebody else holds its row."""
    verdict = outcome.verdict
    locked = await one(tx, _LOCK, id=outcome.id)
    if locked is not None and not locked["held"]:
        raise Busy
    return await one(
        tx,
        _SETTLE,
        id=outcome.id,
        epoch=outcome.epoch,
        owner=outcome.owner,
        status=verdict.task.value,
        run_status=verdict.run.value,
        batch_status=verdict.batch.value,
        code=verdict.code,
        reason=verdict.reason,
        delay=verdict.delay.total_seconds(),
        used=verdict.used,
        forgiven=verdict.forgiven,
        covered=outcome.covered,
        requests=outcome.requests,
        stats=json.dumps(dict(outcome.stats)),
        lapsed=lapsed,
    )


async def strike(tx: Tx, *, tenant: str, source: str, most: int, pause: timedelta) -> Row | None:
    """Count a failed request; the answer says how many there were, and until when the breaker is open."""
    return await one(tx, _STRIKE, tenant=tenant, source=source, most=most, pause=pause)


async def lapsed(tx: Tx, limit: int) -> Sequence[Row]:
    """Find tasks whose holder is gone."""
    return await many(tx, _LAPSED, limit=limit)


async def shorten(tx: Tx, limit: int, *, lease: timedelta) -> Sequence[Row]:
    """Let leases that lie further ahead than any can be end one lease from now: the clock was set back."""
    return await many(tx, _SHORTEN, limit=limit, lease=lease)


async def reclaim(tx: Tx, *, owner: UUID, held: Collection[UUID]) -> Sequence[Row]:
    """Find what is leased to a worker that does not know of it."""
    return await many(tx, _RECLAIM, owner=owner, held=list(held))


async def expired(tx: Tx, limit: int) -> Sequence[Row]:
    """Find tasks that still wait at their ends_at."""
    return await many(tx, _EXPIRED, limit=limit)


async def cancel(tx: Tx, ids: Sequence[UUID], *, code: str, reason: str) -> Sequence[Row]:
    """Cancel what waits."""
    return await many(tx, _CANCEL, ids=list(ids), code=code, reason=reason)


async def undecided(tx: Tx, limit: int, *, known: Iterable[tuple[str, str]]) -> Sequence[Row]:
    """Find what waits for the planner's word, of the sources known here."""
    pairs = sorted(known)
    return await many(
        tx,
        _UNDECIDED,
        limit=limit,
        known_sources=[source for source, _ in pairs],
        known_endpoints=[endpoint for _, endpoint in pairs],
    )


async def decide(tx: Tx, id: UUID, decision: str) -> bool:
    """Say the planner's word; False if it was said."""
    return await one(tx, _DECIDE, id=id, decision=decision) is not None


async def depth(tx: Tx) -> Sequence[Row]:
    """Count what waits and runs, by source."""
    return await many(tx, _DEPTH)
