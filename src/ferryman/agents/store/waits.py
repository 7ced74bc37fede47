"""Calls that turns wait for, and the results on their way into them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.agents.model import CallRecord, Report
from ferryman.agents.store.words import words
from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx, load, many

_HERE = "ferryman.agents"
_OF = load(_HERE, "turn_waiting_tools/of")
_LATE = load(_HERE, "turn_waiting_tools/late")
_LOAD = load(_HERE, "turn_waiting_tools/load")
_RECEIVE = load(_HERE, "turn_waiting_tools/receive")
_EXPIRED = load(_HERE, "turn_resume_ledger/expired")
_REQUEUE = load(_HERE, "turn_resume_ledger/requeue")


class Awaited(NamedTuple):
    """A call that a turn made: whose it is, and at which epoch it was made."""

    tenant: str
    tool_call_id: str
    agent_id: str
    turn_epoch: int


async def of(tx: Tx, calls: Collection[tuple[str, str]]) -> dict[tuple[str, str], Awaited]:
    """Find the agents whose turns made these calls: by (tenant, tool_call_id)."""
    tenants, names = [tenant for tenant, _ in calls], [call for _, call in calls]
    rows = await many(tx, _OF, tenants=tenants, calls=names)
    return {(row["tenant"], row["tool_call_id"]): Awaited(*row) for row in rows}  # type: ignore[misc]


async def late(tx: Tx, limit: int) -> Sequence[Row]:
    """Find calls past their deadline."""
    return await many(tx, _LATE, limit=limit)


async def load_calls(tx: Tx, turns: Collection[tuple[str, UUID]]) -> list[CallRecord]:
    """Read the calls that turns (tenant, id) made, with their results."""
    rows = await many(tx, _LOAD, tenants=[tenant for tenant, _ in turns], ids=[id for _, id in turns])
    return [CallRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


class Received(NamedTuple):
    """What a set of results came to: calls that somebody made, those that are new, those that count; whose workers may go on.

    `late_tasks` are those whose results came too late.
    """

    known: set[UUID]
    born: set[UUID]
    noted: set[UUID]
    targets: set[str]
    late_tasks: list[UUID]


async def receive(tx: Tx, reports: Sequence[Report]) -> Received:
    """Take results in, with their cards; heads are locked. The first for a call counts, the others are without effect."""
    rows = await many(
        tx,
        _RECEIVE,
        reports=words(
            {
                "tenant": each.tenant,
                "id": each.id,
                "message_type": each.message_type,
                "tool_call_id": each.tool_call_id,
                "card": each.card_id,
                "content": each.content,
                "author": each.author,
                "edge": ids.new_id(),
                "source_agent": each.source.agent_id,
                "source_turn": each.source.turn,
                "traceparent": each.traceparent,
            }
            for each in reports
        ),
    )
    return Received(
        {row["id"] for row in rows if row["id"] is not None},
        {row["id"] for row in rows if row["born"]},
        {row["id"] for row in rows if row["noted"]},
        {row["worker_target"] for row in rows if row["worker_target"] is not None},
        [row["task_id"] for row in rows if row["wait_status"] == "expired" and row["task_id"] is not None],
    )


async def expired(tx: Tx, limit: int) -> Sequence[Row]:
    """Find results in hand whose lease has passed."""
    return await many(tx, _EXPIRED, limit=limit)


async def requeue(tx: Tx, calls: Collection[tuple[str, str]]) -> list[Row]:
    """Bring results back whose lease has passed."""
    tenants, names = [tenant for tenant, _ in calls], [call for _, call in calls]
    return list(await many(tx, _REQUEUE, tenants=tenants, calls=names))
