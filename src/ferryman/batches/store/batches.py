"""Batches: born, locked, judged, closed, looked for."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.batches.model import BatchRecord, Beside, Caller, Closed, Closing, Held, NewBatch, NewBatchTask
from ferryman.batches.states import BatchStatus, TaskStatus
from ferryman.kernel.db import Row, Tx, load, many

_HERE = "ferryman.batches"
_CREATE = load(_HERE, "pmo_batches/create")
_LOCK = load(_HERE, "pmo_batches/lock")
_TRY_LOCK = load(_HERE, "pmo_batches/try_lock")
_STANDING = load(_HERE, "pmo_batches/standing")
_CLOSE = load(_HERE, "pmo_batches/close")
_TOLD = load(_HERE, "pmo_batches/told")
_EXPIRED = load(_HERE, "pmo_batches/expired")
_UNTOLD = load(_HERE, "pmo_batches/untold")
_ORPHANS = load(_HERE, "pmo_batches/orphans")
_MET = load(_HERE, "pmo_batches/met")
_GET = load(_HERE, "pmo_batches/get")
_LIST = load(_HERE, "pmo_batches/list")
_LIST_RUNNING = load(_HERE, "pmo_batches/list_running")
_UNDER = load(_HERE, "pmo_batches/under")
_ANCESTORS = load(_HERE, "pmo_batches/ancestors")
_VISIBLE = load(_HERE, "pmo_batches/visible")


def words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a set of rows as the text of a JSON array."""
    return json.dumps(rows, default=str)


async def create(tx: Tx, batches: Sequence[NewBatch]) -> set[UUID]:
    """Let batches be born with their tasks; answer with those that were not there. Each is given once."""
    rows = await many(
        tx, _CREATE, batches=words([_row(each) for each in batches]),
        tasks=words([_task(each.id, task) for each in batches for task in each.tasks]),
    )  # fmt: skip
    return {row["id"] for row in rows}


def _row(batch: NewBatch) -> dict[str, Any]:
    caller = batch.caller
    return {
        "id": batch.id,
        "tenant": caller.tenant,
        "deadline_us": batch.deadline // timedelta(microseconds=1),
        "epoch": caller.epoch,
        "task_count": len(batch.tasks),
        "depth": caller.depth,
        "turn": caller.turn,
        "step": caller.step,
        "budget": caller.budget,
        "fail_fast": batch.fail_fast,
        "agent_id": caller.agent_id,
        "tool_call_id": caller.tool_call_id,
        "channel": caller.channel,
        "traceparent": caller.traceparent,
        "metadata": {"fail_fast": batch.fail_fast, "structured_output": batch.structured_output},
    }


def _task(batch: UUID, task: NewBatchTask) -> dict[str, Any]:
    return {
        "batch": batch,
        "id": task.id,
        "turn": task.turn,
        "index": task.index,
        "agent_id": task.agent_id,
        "profile": task.profile,
        "context_box": task.context_box,
        "output_box": task.output_box,
        "payload_hash": task.payload_hash,
        "args": task.args,
    }


async def lock(tx: Tx, ids: Collection[UUID]) -> dict[UUID, Held]:
    """Lock batches, in the order of their ids."""
    return {row["id"]: Held(*row) for row in await many(tx, _LOCK, ids=list(ids))}  # type: ignore[misc]


async def try_lock(tx: Tx, ids: Collection[UUID]) -> tuple[dict[UUID, Held], set[UUID]]:
    """Lock batches in the same order, unless somebody else holds them; answer with what is locked, and with those."""
    rows = await many(tx, _TRY_LOCK, ids=list(ids))
    held = {row["id"]: Held(*row) for row in rows if row["status"] is not None}  # type: ignore[misc]
    return held, {row["id"] for row in rows} - set(held)


async def standing(tx: Tx, ids: Collection[UUID]) -> dict[UUID, tuple[bool, list[TaskStatus]]]:
    """Read what the tasks of running batches are, each status once, and whether the batch is to fail fast."""
    rows = await many(tx, _STANDING, ids=list(ids))
    return {row["id"]: (row["fail_fast"], [TaskStatus(each) for each in row["statuses"]]) for row in rows}


async def close(tx: Tx, closings: Sequence[Closing]) -> list[Closed]:
    """End running batches; answer with those that were."""
    said = [{"id": each.id, "status": each.status.value, "reason": each.reason} for each in closings]
    return [Closed(*row) for row in await many(tx, _CLOSE, closings=words(said))]  # type: ignore[misc]


async def told(tx: Tx, ids: Collection[UUID]) -> set[UUID]:
    """Note that the parents of closed batches have their results."""
    return {row["id"] for row in await many(tx, _TOLD, ids=list(ids))}


async def expired(tx: Tx, limit: int) -> Sequence[Row]:
    """Find running batches past their deadline."""
    return await many(tx, _EXPIRED, limit=limit)


async def untold(tx: Tx, limit: int) -> Sequence[Row]:
    """Find closed batches whose parents were not told."""
    return await many(tx, _UNTOLD, limit=limit)


async def orphans(tx: Tx, limit: int, *, turns: Collection[UUID] | None = None) -> Sequence[Row]:
    """Find running batches whose parent's turn has ended."""
    return await many(tx, _ORPHANS, limit=limit, turns=None if turns is None else list(turns))


async def get(tx: Tx, ids: Collection[UUID], *, tenant: str) -> list[BatchRecord]:
    """Read batches."""
    return [BatchRecord(*row) for row in await many(tx, _GET, ids=list(ids), tenant=tenant)]  # type: ignore[misc]


async def met(tx: Tx, asked: Mapping[int, NewBatch]) -> dict[int, Beside]:
    """Read what the batches that were met were asked for beside their tasks."""
    said = [{"place": place, "id": each.id, **(each.allows or {})} for place, each in asked.items()]
    rows = await many(tx, _MET, words=words(said))
    return {row["place"]: Beside(row["parent_channel_id"], row["allowed"]) for row in rows}


async def listed(tx: Tx, *, tenant: str, status: str | None, before: UUID | None, limit: int) -> list[BatchRecord]:
    """Read a page of batches, newest first."""
    if status == BatchStatus.RUNNING:
        rows = await many(tx, _LIST_RUNNING, tenant=tenant, before=before, limit=limit)
    else:
        rows = await many(tx, _LIST, tenant=tenant, status=status, before=before, limit=limit)
    return [BatchRecord(*row) for row in rows]  # type: ignore[misc]


async def under(tx: Tx, turns: Mapping[UUID, str], *, tenant: str) -> list[BatchRecord]:
    """Read the batches that turns (by their agents) forked."""
    rows = await many(tx, _UNDER, turns=list(turns), agents=sorted(set(turns.values())), tenant=tenant)
    return [BatchRecord(*row) for row in rows]  # type: ignore[misc]


async def ancestors(tx: Tx, turns: Mapping[UUID, str]) -> dict[UUID, set[str]]:
    """Name the agents whose turns led to each of these (by their tenants), and its own."""
    found: dict[UUID, set[str]] = {turn: set() for turn in turns}
    for row in await many(tx, _ANCESTORS, turns=list(turns), tenants=list(turns.values())):
        found[row["turn"]].add(row["agent_id"])
    return found


async def visible(tx: Tx, boxes: Collection[UUID], caller: Caller) -> dict[UUID, list[UUID]]:
    """Read the cards of those boxes that a caller may see."""
    rows = await many(
        tx,
        _VISIBLE,
        ids=list(boxes),
        tenant=caller.tenant,
        agent_id=caller.agent_id,
        turn=caller.turn,
        context_box=caller.context_box,
        output_box=caller.output_box,
    )
    return {row["id"]: list(row["card_ids"]) for row in rows}
