"""Agents and their heads: born, locked, dispatched, claimed, kept, released, suspended, finished."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.model import AgentRecord, Call, CallRecord, End, EndedTurn, NewAgent, Suspension, Taken, Terms
from ferryman.agents.states import TurnStatus
from ferryman.agents.store.words import words
from ferryman.kernel import payload
from ferryman.kernel.db import Row, Tx, load, many
from ferryman.kernel.ids import new_id
from ferryman.kernel.lease import MARGIN

_HERE = "ferryman.agents"
_CREATE = load(_HERE, "agents/create")
_GET = load(_HERE, "agents/get")
_LOCK = load(_HERE, "agent_state_head/lock")
_TRY_LOCK = load(_HERE, "agent_state_head/try_lock")
_DISPATCH = load(_HERE, "agent_state_head/dispatch")
_CLAIM = load(_HERE, "agent_state_head/claim")
_RENEW = load(_HERE, "agent_state_head/renew")
_RELEASE = load(_HERE, "agent_state_head/release")
_RECLAIM = load(_HERE, "agent_state_head/reclaim")
_SUSPEND = load(_HERE, "agent_state_head/suspend")
_FINISH = load(_HERE, "agent_state_head/finish")
_ACTIVE = load(_HERE, "agent_state_head/active")
_LAPSED = load(_HERE, "agent_state_head/lapsed")
_SHORTEN = load(_HERE, "agent_state_head/shorten")
_UNDISPATCHED = load(_HERE, "agent_state_head/undispatched")
_RETRY = load(_HERE, "agent_state_head/retry")
_UNRESUMED = load(_HERE, "agent_state_head/unresumed")
_RESUME = load(_HERE, "agent_state_head/resume")
_OVERRUN = load(_HERE, "agent_state_head/overrun")

Agents = Collection[tuple[str, str]]


@dataclass
class Rota:
    """Whose turn it is: the tenant after which a claimer asks next, and how many it has asked the last time."""

    after: str = ""
    asked: int = 0


async def create(tx: Tx, agents: Sequence[NewAgent]) -> set[tuple[str, str]]:
    """Let agents be born, idle; answer with those that were not there."""
    rows = await many(tx, _CREATE, agents=words({"id": new_id(), **each._asdict()} for each in agents))
    return {(row["tenant"], row["agent_id"]) for row in rows}


async def get(tx: Tx, agent_ids: Collection[str], *, tenant: str) -> list[AgentRecord]:
    """Read agents and what they are doing."""
    rows = await many(tx, _GET, agent_ids=list(agent_ids), tenant=tenant)
    return [AgentRecord(*row) for row in rows]  # type: ignore[misc]  # a row is a sequence


def _split(agents: Agents) -> dict[str, list[str]]:
    return {"tenants": [tenant for tenant, _ in agents], "agent_ids": [agent for _, agent in agents]}


async def lock(tx: Tx, agents: Agents) -> dict[tuple[str, str], Row]:
    """Lock heads, in the order in which everybody does, and read them; what is not in the answer does not exist."""
    rows = await many(tx, _LOCK, **_split(agents))
    return {(row["tenant"], row["agent_id"]): row for row in rows}


async def try_lock(tx: Tx, agents: Agents) -> set[tuple[str, str]]:
    """Lock heads in the same order, unless somebody else holds them; answer with those."""
    rows = await many(tx, _TRY_LOCK, **_split(agents))
    return {(row["tenant"], row["agent_id"]) for row in rows if not row["held"]}


async def dispatch(tx: Tx, agents: Agents, *, terms: Terms) -> tuple[list[Row], list[Row]]:
    """Put the next turn of each idle agent before the workers; answer with those, and with what came to nothing.

    That is a message that is no turn, or, without a message, an agent whose next turn was taken back at this moment.
    """
    rows = await many(
        tx,
        _DISPATCH,
        **_split(agents),
        patience=terms.dispatched_timeout,
        wall=terms.wall_time,
        look_after=terms.pending_wakeup,
    )
    return [row for row in rows if row["turn_epoch"] is not None], [row for row in rows if row["turn_epoch"] is None]


async def claim(
    tx: Tx,
    *,
    owner: UUID,
    profiles: Sequence[str],
    targets: Sequence[str],
    kinds: Sequence[str],
    room: int,
    terms: Terms,
    rota: Rota | None = None,
) -> list[Taken]:
    """Take turns in hand: those that begin, those whose results are there, and those that were given up.

    Every tenant with something ready has its share. A claimer that comes again brings its `rota`, and goes on where it was.
    """
    rota = rota or Rota()
    rows = await many(
        tx,
        _CLAIM,
        owner=owner,
        profiles=list(profiles),
        targets=list(targets),
        kinds=list(kinds),
        room=room,
        lease=terms.lease,
        margin=MARGIN,
        look_after=terms.inbox_processing_timeout,
        ledger_lease=terms.ledger_lease,
        after=rota.after,
    )
    rota.asked = rows[0]["tenants"]
    # With room for all of them nobody waits for another round.
    rota.after = rows[0]["last"] if rota.asked == room else ""
    return [_taken(row) for row in rows if row["id"] is not None]


def _taken(row: Row) -> Taken:
    taken, results = Taken(*row[:-3]), row["results"]  # in the order of the columns
    return taken if results is None else taken._replace(results=[_answered(each) for each in payload.decode(results)])


def _answered(columns: Sequence[Any]) -> CallRecord:
    """Read a result that came with its turn: in JSON, where ids are text."""
    turn, call, tool, nth, status, epoch, follows, card, content = columns
    return CallRecord(UUID(turn), call, tool, nth, status, epoch, follows, UUID(card), content)


async def renew(
    tx: Tx, ids: Sequence[UUID], epochs: Sequence[int], *, owner: UUID, lease: timedelta, margin: timedelta
) -> dict[UUID, bool]:
    """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
    rows = await many(tx, _RENEW, ids=list(ids), epochs=list(epochs), owner=owner, lease=lease, margin=margin)
    return {row["id"]: row["renewed"] for row in rows}


async def release(
    tx: Tx, ids: Sequence[UUID], epochs: Sequence[int], *, owner: UUID | None = None, lapsed: bool = False
) -> tuple[set[UUID], set[UUID]]:
    """Give up running turns for others to take over: the holder's own word, or the watchdog's about lapsed leases.

    The answer names those that were given up and those that were busy; the rest was stale.
    """
    rows = await many(tx, _RELEASE, ids=list(ids), epochs=list(epochs), owner=owner, lapsed=lapsed)
    return {row["id"] for row in rows if row["moved"]}, {row["id"] for row in rows if not row["moved"]}


async def reclaim(tx: Tx, *, owner: UUID, held: Collection[UUID]) -> list[tuple[UUID, int]]:
    """Find what is leased to an owner that does not know of it."""
    rows = await many(tx, _RECLAIM, owner=owner, held=list(held))
    return [(row["id"], row["turn_epoch"]) for row in rows]


async def suspend(tx: Tx, suspensions: Sequence[Suspension]) -> tuple[set[UUID], set[UUID]]:
    """Suspend turns on their calls; answer with those that are, and with those that were busy; the rest was stale."""
    rows = await many(
        tx,
        _SUSPEND,
        suspensions=words(
            {
                "tenant": each.tenant,
                "agent_id": each.agent_id,
                "turn": each.id,
                "epoch": each.epoch,
                "owner": each.owner,
                "calls": [_call(call) for call in each.calls],
            }
            for each in suspensions
        ),
    )
    return {row["id"] for row in rows if row["moved"]}, {row["id"] for row in rows if not row["moved"]}


def _call(call: Call) -> dict[str, object]:
    return {
        "tool_call_id": call.tool_call_id,
        "tool_name": call.tool_name,
        "nth": call.nth,
        "card_id": call.card_id,
        "content": call.content,
        "step_id": call.step_id,
        "task_id": None if call.task is None else call.task.task.id,
        "after_execution": call.after_execution,
        "seconds": call.timeout.total_seconds(),
    }


async def finish(tx: Tx, ends: Sequence[End]) -> tuple[list[Row], set[UUID], list[UUID]]:
    """End turns; answer with those that ended, those that were busy (the rest was stale), and tasks nobody waits for now."""
    rows = await many(
        tx,
        _FINISH,
        ends=words(
            {
                "tenant": each.tenant,
                "agent_id": each.agent_id,
                "turn": each.id,
                "epoch": each.epoch,
                "owner": each.owner,
                "expects": ",".join(each.expects),
                "overdue": each.overdue,
                "bump": each.bump,
                "status": each.status.value,
                "code": each.code,
                "error": each.error,
                "card": each.card_id,
                "content": each.content,
                "fallback": each.fallback,
                "result_card": each.result_card,
                "forced": each.forced,
                "message_status": each.message_status,
            }
            for each in ends
        ),
    )
    return (
        [row for row in rows if row["moved"]],
        {row["id"] for row in rows if row["moved"] is False},
        [row["task"] for row in rows if row["task"] is not None],
    )


def ended(row: Row) -> EndedTurn:
    """Read an end from a row of finish or close."""
    return EndedTurn(
        id=row["id"],
        tenant=row["tenant"],
        agent_id=row["agent_id"],
        status=TurnStatus(row["status"]),
        code=row["code"],
        error=row["error"],
        output_box_id=row["output_box_id"],
        deliverable_card_id=row["deliverable_card_id"],
        tool_result_card_id=row["tool_result_card_id"],
        callback=row["callback"],
        callback_ref=row["callback_ref"],
    )


async def active(tx: Tx, ids: Collection[UUID]) -> list[Row]:
    """Find the heads on which these turns are active; nothing is locked."""
    return list(await many(tx, _ACTIVE, ids=list(ids)))


async def lapsed(tx: Tx, limit: int, *, kinds: Sequence[str], patience: timedelta, cap: int) -> Sequence[Row]:
    """Find running turns whose lease has passed."""
    return await many(tx, _LAPSED, limit=limit, kinds=list(kinds), patience=patience, cap=cap)


async def shorten(tx: Tx, limit: int, *, lease: timedelta) -> Sequence[Row]:
    """Let leases that lie further ahead than any can be end one lease from now: the clock was set back."""
    return await many(tx, _SHORTEN, limit=limit, lease=lease)


async def undispatched(
    tx: Tx, limit: int, *, over: bool, kinds: Sequence[str], retry_after: timedelta
) -> Sequence[Row]:
    """Find dispatched turns that nobody picked up: to be tried again, or `over`."""
    return await many(tx, _UNDISPATCHED, limit=limit, over=over, kinds=list(kinds), retry_after=retry_after)


async def retry(
    tx: Tx,
    ids: Sequence[UUID],
    epochs: Sequence[int],
    fresh: Sequence[UUID],
    *,
    retry_after: timedelta,
    look_after: timedelta,
) -> list[Row]:
    """Put the envelopes of dispatched turns into the inbox again."""
    given = {"ids": list(ids), "epochs": list(epochs), "fresh": list(fresh)}
    return list(await many(tx, _RETRY, **given, retry_after=retry_after, look_after=look_after))


async def unresumed(tx: Tx, limit: int) -> Sequence[Row]:
    """Find suspended turns that wait for nothing and were not put before the workers."""
    return await many(tx, _UNRESUMED, limit=limit)


async def resume(tx: Tx, ids: Sequence[UUID], epochs: Sequence[int]) -> list[Row]:
    """Put suspended turns that wait for nothing before the workers."""
    return list(await many(tx, _RESUME, ids=list(ids), epochs=list(epochs)))


async def overrun(tx: Tx, limit: int, *, kinds: Sequence[str]) -> Sequence[Row]:
    """Find suspended turns whose wall time has passed."""
    return await many(tx, _OVERRUN, limit=limit, kinds=list(kinds))
