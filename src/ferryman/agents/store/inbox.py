"""Messages: they come in, are put aside, brought back, and say how their turns ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.agents.model import Close, Edge, Order, Stop, TurnRecord
from ferryman.agents.store.words import words
from ferryman.kernel import ids
from ferryman.kernel.db import Row, Tx, load, many

_HERE = "ferryman.agents"
_ENQUEUE = load(_HERE, "agent_inbox/enqueue")
_CLOSE = load(_HERE, "agent_inbox/close")
_STOP = load(_HERE, "agent_inbox/stop")
_DELEGATED = load(_HERE, "agent_inbox/delegated")
_STOPS = load(_HERE, "agent_inbox/stops")
_TAKE = load(_HERE, "agent_inbox/take")
_CONSUME = load(_HERE, "agent_inbox/consume")
_GET = load(_HERE, "agent_inbox/get")
_MET = load(_HERE, "agent_inbox/met")
_CANCELLABLE = load(_HERE, "agent_inbox/cancellable")
_STALE = load(_HERE, "agent_inbox/stale")
_REQUEUE = load(_HERE, "agent_inbox/requeue")
_PENDING = load(_HERE, "agent_inbox/pending")
_LOST = load(_HERE, "agent_inbox/lost")
_WAITING = load(_HERE, "agent_inbox/waiting")
_FORGOTTEN = load(_HERE, "agent_inbox/forgotten")
_MERGE = load(_HERE, "agent_inbox/merge")
_LINE = load(_HERE, "agent_inbox/line")
_FOLLOWERS = load(_HERE, "agent_inbox/followers")
_EDGES = load(_HERE, "execution_edges/add")
_REQUESTS = load(_HERE, "execution_edges/requests")


async def enqueue(tx: Tx, orders: Sequence[Order], *, queued_for: timedelta) -> set[UUID]:
    """Let turns come in, with their boxes and edges; answer with those that were not there."""
    rows = await many(tx, _ENQUEUE, orders=words(map(_order, orders)), queued_for=queued_for)
    return {row["id"] for row in rows}


def _order(order: Order) -> dict[str, object]:
    instructed = order.context_box is None
    return {
        "tenant": order.tenant,
        "turn": order.turn,
        "agent_id": order.agent_id,
        "message_type": order.message_type,
        "channel": order.channel,
        "depth": order.depth,
        "context_box": ids.new_id() if instructed else order.context_box,
        "inherited": [str(each) for each in order.inherited],
        "output_box": order.output_box or ids.new_id(),
        "makes_output": order.output_box is None,
        "card": ids.new_id() if instructed else None,
        "instruction": order.instruction,
        "author": order.author,
        "source_agent": order.source.agent_id,
        "source_turn": order.source.turn,
        "source_step": order.source.step,
        "parent_step": order.source.step,
        "budget": order.budget,
        "callback": order.callback,
        "callback_ref": order.callback_ref,
        "traceparent": order.traceparent,
        "wall_ms": _wall_ms(order),
        "payload": None if order.payload is None else dict(order.payload),
        "edge": ids.new_id(),
    }


def _wall_ms(order: Order) -> int | None:
    return None if order.wall_time is None else round(order.wall_time.total_seconds() * 1000)


class Met(NamedTuple):
    """The turn that an order met: its epoch, and the fields in which it differs from what was asked for."""

    turn_epoch: int | None
    differs: list[str]


async def met(tx: Tx, orders: Mapping[int, Order]) -> dict[int, Met]:
    """Read what orders met, by their places; one that is not in the answer met nothing of its tenant's."""
    asked = words(
        {
            "place": place,
            "tenant": order.tenant,
            "turn": order.turn,
            "agent_id": order.agent_id,
            "message_type": order.message_type,
            "channel": order.channel,
            "context_box": order.context_box,
            "instruction": order.instruction,
            "payload": None if order.payload is None else dict(order.payload),
            "wall_ms": _wall_ms(order),
            "budget": order.budget,
            "allows": None if order.allows is None else dict(order.allows),
            "result_fields": None if order.result_fields is None else [{"name": name} for name in order.result_fields],
            "unsaid": sorted(order.unsaid),
        }
        for place, order in orders.items()
    )
    return {row["place"]: Met(row["turn_epoch"], row["differs"]) for row in await many(tx, _MET, orders=asked)}


async def line(tx: Tx, agents: Collection[tuple[str, str]]) -> dict[tuple[str, str], UUID]:
    """Find the turn that each of these agents (tenant, id) would do next, of those that wait."""
    rows = await many(tx, _LINE, tenants=[tenant for tenant, _ in agents], agent_ids=[agent for _, agent in agents])
    return {(row["tenant"], row["agent_id"]): row["id"] for row in rows}


async def merge(tx: Tx, messages: Collection[tuple[str, UUID, UUID]]) -> set[UUID]:
    """Let messages (tenant, id) go along with turns that wait; answer with those that do."""
    tenants, given, into = zip(*messages, strict=True)
    return {row["id"] for row in await many(tx, _MERGE, tenants=list(tenants), ids=list(given), turns=list(into))}


async def followers(tx: Tx, turns: Collection[tuple[str, str, UUID]]) -> list[Row]:
    """Find the messages that were merged into turns (tenant, agent, id) and still wait."""
    tenants, agents, given = zip(*turns, strict=True)
    return list(await many(tx, _FOLLOWERS, tenants=list(tenants), agent_ids=list(agents), ids=list(given)))


async def close(tx: Tx, ends: Sequence[Close]) -> list[Row]:
    """End messages that no head holds; answer with those that ended."""
    rows = await many(
        tx,
        _CLOSE,
        ends=words(
            {
                "tenant": each.tenant,
                "id": each.id,
                "expects": ",".join(each.expects),
                "to_status": each.to_status,
                "status": each.status.value,
                "code": each.code,
                "error": each.error,
                "card": each.card_id,
                "content": each.content,
                "merged_into": each.merged_into,
            }
            for each in ends
        ),
    )
    return list(rows)


async def stop(tx: Tx, stops: Sequence[Stop]) -> set[UUID]:
    """Note that turns are to be stopped; answer with the messages that were not there."""
    rows = await many(
        tx,
        _STOP,
        stops=words(
            {
                "tenant": each.tenant,
                "id": each.id,
                "agent_id": each.agent_id,
                "turn": each.turn,
                "epoch": each.epoch,
                "reason": each.reason,
                "source_agent": each.source.agent_id,
                "source_turn": each.source.turn,
                "depth": max(0, each.source.depth),
                "edge": ids.new_id(),
            }
            for each in stops
        ),
    )
    return {row["id"] for row in rows}


async def delegated(tx: Tx, turns: Collection[UUID], *, tenants: Collection[str]) -> Sequence[Row]:
    """Find the live turns that these turns asked for by calls of their own."""
    return await many(tx, _DELEGATED, turns=list(turns), tenants=list(tenants))


async def stops(tx: Tx, limit: int) -> Sequence[Row]:
    """Find stops that were asked for and not carried out."""
    return await many(tx, _STOPS, limit=limit)


def _split(messages: Collection[tuple[str, UUID]]) -> dict[str, list[object]]:
    return {"tenants": [tenant for tenant, _ in messages], "ids": [id for _, id in messages]}


async def take(tx: Tx, messages: Collection[tuple[str, UUID]]) -> set[UUID]:
    """Take pending messages in hand."""
    return {row["id"] for row in await many(tx, _TAKE, **_split(messages))}


async def consume(tx: Tx, messages: Collection[tuple[str, UUID]]) -> set[UUID]:
    """Be done with messages in hand."""
    return {row["id"] for row in await many(tx, _CONSUME, **_split(messages))}


async def get(tx: Tx, turns: Collection[UUID], *, tenant: str) -> list[TurnRecord]:
    """Read turns."""
    rows = await many(tx, _GET, ids=list(turns), tenant=tenant)
    return [TurnRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


async def cancellable(tx: Tx, turns: Collection[UUID], *, tenant: str) -> list[Row]:
    """Find which of these turns still wait in line."""
    return list(await many(tx, _CANCELLABLE, ids=list(turns), tenant=tenant))


async def stale(tx: Tx, limit: int, *, patience: timedelta) -> Sequence[Row]:
    """Find messages that have been in hand for too long, of turns that nobody holds."""
    return await many(tx, _STALE, limit=limit, patience=patience)


async def requeue(
    tx: Tx, messages: Collection[tuple[str, UUID]], *, patience: timedelta, look_after: timedelta
) -> list[Row]:
    """Bring messages back that have been in hand for too long."""
    return list(await many(tx, _REQUEUE, **_split(messages), patience=patience, look_after=look_after))


async def pending(tx: Tx, limit: int, *, patience: timedelta, past: Row | None = None) -> Sequence[Row]:
    """Find messages that have waited too long to be taken in hand, behind the one that was found last."""
    at, id = (None, None) if past is None else (past["look_at"], past["id"])
    return await many(tx, _PENDING, limit=limit, patience=patience, past_at=at, past_id=id)


async def lost(tx: Tx, limit: int, *, skip_after: timedelta) -> Sequence[Row]:
    """Find messages of which no channel is known, past the time to skip them."""
    return await many(tx, _LOST, limit=limit, skip_after=skip_after)


async def waiting(tx: Tx, limit: int) -> Sequence[Row]:
    """Find agents at rest with turns that wait."""
    return await many(tx, _WAITING, limit=limit)


async def forgotten(tx: Tx, limit: int, *, kinds: Sequence[str]) -> Sequence[Row]:
    """Find live messages whose time is over and that no head holds."""
    return await many(tx, _FORGOTTEN, limit=limit, kinds=list(kinds))


async def add_edges(tx: Tx, edges: Sequence[Edge]) -> set[tuple[str, str, str]]:
    """Note who asked whom; answer with what is new: (correlation, primitive, phase)."""
    rows = await many(
        tx,
        _EDGES,
        edges=words(
            {
                "tenant": each.tenant,
                "correlation": each.correlation,
                "primitive": each.primitive,
                "phase": each.phase,
                "id": each.id,
                "depth": each.depth,
                "source_agent": each.source.agent_id,
                "source_turn": each.source.turn,
                "source_step": each.source.step,
                "target_agent": each.target_agent,
                "target_turn": each.target_turn,
                "metadata": each.metadata,
            }
            for each in edges
        ),
    )
    return {(row["correlation_id"], row["primitive"], row["edge_phase"]) for row in rows}


async def requests(tx: Tx, correlations: Collection[str], *, tenant: str, primitive: str) -> dict[str, int]:
    """Read at which depth these were asked for."""
    rows = await many(tx, _REQUESTS, correlations=list(correlations), tenant=tenant, primitive=primitive)
    return {row["correlation_id"]: row["recursion_depth"] for row in rows}
