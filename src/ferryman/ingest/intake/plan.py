"""Plans come in: from a schedule's firing, by hand, or by API (I1 to I4).

A plan is made in one transaction: the trigger, the cursor's beginning, the plan, its slices, and tasks for as many of them as
the source has room for. What was asked before is answered with what is there. Planners of one source, endpoint and operation
go one after another, from their first look on: the second of two that ask the same at one moment meets what the first has made,
and the windows of two that ask for no window follow each other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from ferryman.ingest import coverage, cutting
from ferryman.ingest.model import Planned, Trigger
from ferryman.ingest.registry import Declared
from ferryman.ingest.rules import keys, request, windows
from ferryman.ingest.rules.request import Asked
from ferryman.ingest.store import cursors, plans
from ferryman.ingest.store.cursors import Name
from ferryman.kernel import faults, ids
from ferryman.kernel.db import Row, Tx


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan gets when nobody says otherwise."""

    safety_lag: timedelta
    first_window: timedelta
    queued_max: int
    max_attempts: int
    max_claims: int
    ends_after: timedelta


@dataclass(frozen=True, slots=True)
class _Span:
    """What a plan is to cover, and the cursor that follows it."""

    lower: int | None
    upper: int | None
    name: Name | None
    rewinds: int = 0
    begins: bool = False


async def plan(
    tx: Tx, id: UUID, declared: Declared, asked: Asked, trigger: Trigger, *, tenant: str, terms: Terms
) -> Planned:
    """Make a plan, or answer with the one that is there; none for an empty window.

    Who asks again because the answer was lost gives the same id, and is answered with what the first try made.
    """
    await plans.queue(tx, tenant=tenant, source=declared.name, endpoint=declared.endpoint, operation=asked.operation)
    before = await _before(tx, id, declared, asked, trigger, tenant=tenant, terms=terms)
    if before is not None:
        return _planned(before, made=before["id"] == id)
    span = await _span(tx, declared, asked, tenant=tenant, terms=terms)
    if span is None:
        return Planned(None, made=False)
    key, there = await _place(
        tx, _key(declared, asked, lower=span.lower, upper=span.upper, rewinds=span.rewinds), tenant=tenant
    )
    if there is not None:
        return _planned(there, made=False)
    cuts = request.cut(asked, span.lower, span.upper)
    if span.begins:
        assert span.name is not None
        assert span.lower is not None
        if not await coverage.begin(tx, span.name, span.lower, plan_id=id):
            # A worker of an older version, which stands in no line, began it meanwhile: its frontier decides.
            return await plan(tx, id, declared, asked, trigger, tenant=tenant, terms=terms)
    await plans.ensure(tx, tenant=tenant, source=declared.name)
    if not await _create(tx, id, declared, asked, trigger, key=key, span=span, tenant=tenant, terms=terms):
        met = await plans.find(tx, tenant=tenant, plan_key=key)
        assert met is not None
        return _planned(met, made=False)
    await plans.begin(tx, id)
    await cutting.store(
        tx,
        id,
        declared,
        cuts,
        operation=asked.operation,
        expression=asked.expression,
        expr_hash=asked.expr_hash,
        depth=0,
        priority=windows.PRIORITY[asked.operation],
        ends_after=terms.ends_after,
    )
    await plans.derive(tx, tenant=tenant, source=declared.name, most=terms.queued_max)
    await plans.finish(tx, id)
    made = await plans.find(tx, tenant=tenant, plan_key=key)
    assert made is not None
    await faults.apoint("ingest.planned")
    return _planned(made, made=True)


async def _before(
    tx: Tx, id: UUID, declared: Declared, asked: Asked, trigger: Trigger, *, tenant: str, terms: Terms
) -> Row | None:
    """Return what the same call, firing or whole window has made: for a harvest the frontier has moved since."""
    wanted = asked.wanted
    key = await plans.made(tx, id)
    if key is not None:
        return await plans.find(tx, tenant=tenant, plan_key=key)
    if trigger.fire_time is not None and wanted.since is None and wanted.until is None:
        key = await plans.fired(
            tx, tenant=tenant, job=trigger.job, fire_time=trigger.fire_time, source=declared.name,
            endpoint=declared.endpoint, operation=asked.operation,
        )  # fmt: skip
    elif wanted.since is not None and wanted.until is not None and asked.dimension == "time":
        edge = await plans.clock(tx) - _lag(declared, terms)
        lower, upper = keys.number(wanted.since), keys.number(min(wanted.until, edge))
        scope = request.namespace(asked, lower=lower, upper=upper)
        found = await cursors.find(tx, _name(declared, asked, *scope, tenant=tenant))
        rewinds = 0 if found is None else found["rewinds"]
        key = _key(declared, asked, lower=lower, upper=upper, rewinds=rewinds)
    return None if key is None else (await _place(tx, key, tenant=tenant))[1]


async def _place(tx: Tx, key: str, *, tenant: str) -> tuple[str, Row | None]:
    """Return what a key has made. What came to an end and was not all done gives place to another try, under the next key."""
    while True:
        there = await plans.find(tx, tenant=tenant, plan_key=key)
        if there is None or not there["spent"]:
            return key, there
        key = keys.digest("again", key)


def _key(declared: Declared, asked: Asked, *, lower: int | None, upper: int | None, rewinds: int) -> str:
    return request.key(
        asked, source=declared.name, endpoint=declared.endpoint, lower=lower, upper=upper, rewinds=rewinds
    )


async def _create(
    tx: Tx, id: UUID, declared: Declared, asked: Asked, trigger: Trigger, *, key: str, span: _Span, tenant: str, terms: Terms
) -> bool:  # fmt: skip
    fire_time = trigger.fire_time or await plans.clock(tx)
    instance = await plans.trigger(
        tx, id=ids.new_id(), tenant=tenant, job=trigger.job, fire_time=fire_time, trigger_type=trigger.kind,
        source=declared.name, endpoint=declared.endpoint, operation=asked.operation, params=json.dumps(dict(asked.params)),
    )  # fmt: skip
    timed = asked.dimension == "time" and span.lower is not None and span.upper is not None
    config = declared.snapshot() | {
        "max_attempts": terms.max_attempts,
        "max_claims": terms.max_claims,
        "queued_max": terms.queued_max,
        "safety_lag_seconds": _lag(declared, terms).total_seconds(),
    }
    return await plans.create(
        tx,
        {
            "id": id, "schedule_instance_id": instance,
            "cursor_id": None if span.name is None else coverage.identity(span.name),
            "window_from": keys.moment(span.lower or 0) if timed else None,
            "window_to": keys.moment(span.upper or 0) if timed else None,
            "lower": span.lower, "upper": span.upper, "ends_after": terms.ends_after, "tenant": tenant, "plan_key": key,
            "source": declared.name, "endpoint": declared.endpoint, "operation": asked.operation,
            "strategy": asked.strategy, "expr_hash": asked.expr_hash, "campaign": asked.campaign,
            "expression": json.dumps(dict(asked.expression)), "params": json.dumps(dict(asked.params)),
            "config": json.dumps(config), "budget": json.dumps(asked.budget.as_json()),
        },
    )  # fmt: skip


async def _span(tx: Tx, declared: Declared, asked: Asked, *, tenant: str, terms: Terms) -> _Span | None:
    """Say what is to be covered; None if that is nothing."""
    if asked.dimension == "landmark":
        return _Span(None, None, None)
    if asked.operation != windows.HARVEST:
        bounds = await _bounds(tx, declared, asked, None, tenant=tenant, terms=terms)
        if bounds is None:
            return None
        name = _name(declared, asked, *request.namespace(asked, lower=bounds[0], upper=bounds[1]), tenant=tenant)
        return _Span(*bounds, name, begins=await cursors.find(tx, name) is None)
    name = _name(declared, asked, *request.namespace(asked, lower=None, upper=None), tenant=tenant)
    found = await cursors.find(tx, name)
    frontier, rewinds = None, 0
    if found is not None:
        held = await cursors.hold(tx, found["id"])
        assert held is not None
        frontier, rewinds = await cursors.frontier(tx, found["id"]), held["rewinds"]
    harvested = await _bounds(tx, declared, asked, frontier, tenant=tenant, terms=terms)
    return None if harvested is None else _Span(*harvested, name, rewinds, begins=found is None)


async def _bounds(
    tx: Tx, declared: Declared, asked: Asked, frontier: int | None, *, tenant: str, terms: Terms
) -> tuple[int, int] | None:
    if asked.dimension == "id":
        first, last = request.bounds(asked)
        lower = first if frontier is None else max(frontier, frontier if first is None else first)
        lower = 0 if lower is None else lower
        return (lower, last) if lower < last else None
    watermark = None
    if asked.operation == windows.BACKFILL:
        watermark = await _watermark(tx, declared, asked, tenant=tenant)
    window = windows.window(
        asked.operation,
        asked.wanted,
        now=await plans.clock(tx),
        lag=_lag(declared, terms),
        first=terms.first_window,
        frontier=None if frontier is None else keys.moment(frontier),
        watermark=None if watermark is None else keys.moment(watermark),
    )
    return None if window is None else (keys.number(window.since), keys.number(window.until))


async def _watermark(tx: Tx, declared: Declared, asked: Asked, *, tenant: str) -> int | None:
    scope, scope_key = ("EXPR", asked.expr_hash) if asked.expression else ("GLOBAL", "")
    name = Name(tenant, declared.name, declared.endpoint, windows.HARVEST, scope, scope_key, "TIME")
    row = await cursors.find(tx, name)
    position: int | None = None if row is None else row["position"]
    return position


def _name(declared: Declared, asked: Asked, scope: str, scope_key: str, *, tenant: str) -> Name:
    kind = "ID" if asked.dimension == "id" else "TIME"
    return Name(tenant, declared.name, declared.endpoint, asked.operation, scope, scope_key, kind)


def _lag(declared: Declared, terms: Terms) -> timedelta:
    return terms.safety_lag if declared.safety_lag is None else declared.safety_lag


def _planned(row: Row, *, made: bool) -> Planned:
    return Planned(
        row["id"], made, row["status"], row["window_from"], row["window_to"], row["slices"], row["ready"], row["waiting"],
        row["failed"],
    )  # fmt: skip
