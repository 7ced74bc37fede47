"""Turns are taken back, stopped, joined and woken (A5, A16)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties, close, dispatch
from ferryman.agents.model import Accepted, Answer, Edge, Rejected, Source, Stop
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads, inbox
from ferryman.kernel import ids
from ferryman.kernel.db import Tx

CANCELED = "The turn was canceled before it began."


async def cancel(
    tx: Tx, turns: Collection[UUID], parties: Parties, *, tenant: str, source: Source, after: Aftermath
) -> list[Answer]:
    """Take back turns that still wait in line; what has begun is not touched (stop it)."""
    found = await inbox.cancellable(tx, turns, tenant=tenant)
    ends = [
        rules.closed_by(row, TurnStatus.CANCELED, "canceled", CANCELED, expects=("queued",), to="skipped")
        for row in found
    ]
    done = {row["id"] for row in await close(tx, ends, parties, after=after)} if ends else set()
    edges = [
        Edge(
            tenant=tenant,
            correlation=str(row["id"]),
            primitive="cancel",
            phase="request",
            id=ids.new_id(),
            depth=max(0, source.depth),
            source=source,
            target_agent=row["agent_id"],
            target_turn=row["id"],
        )
        for row in found
        if row["id"] in done
    ]
    if edges:
        await inbox.add_edges(tx, edges)
    return [
        Accepted(turn) if turn in done else Rejected("not_queued", "The turn does not wait in line.") for turn in turns
    ]


async def stop(tx: Tx, stops: Sequence[Stop], *, after: Aftermath) -> list[Answer]:
    """Ask that turns be ended: messages only, no head is locked; a worker or the watchdog carries them out (work/stops.py)."""
    born = await inbox.stop(tx, stops)
    after.stops = True
    return [Accepted(each.id, each.epoch, created=each.id in born) for each in stops]


async def join(tx: Tx, edges: Sequence[Edge]) -> list[Answer]:
    """Note that somebody waits for others, or that it was answered; an answer must match a request at its depth."""
    answers: list[Answer] = []
    sound = []
    for tenant in sorted({each.tenant for each in edges}):
        asked = [each.correlation for each in edges if each.tenant == tenant and each.phase == "response"]
        depths = await inbox.requests(tx, asked, tenant=tenant, primitive="join") if asked else {}
        sound += [
            each
            for each in edges
            if each.tenant == tenant and (each.phase == "request" or depths.get(each.correlation) == each.depth)
        ]
    born = await inbox.add_edges(tx, sound) if sound else set()
    for each in edges:
        if each in sound:
            answers.append(Accepted(each.id, created=(each.correlation, each.primitive, each.phase) in born))
        else:
            answers.append(Rejected("protocol_violation", "There is no request to join at this depth."))
    return answers


async def wakeup(
    tx: Tx, agents: Collection[tuple[str, str]], parties: Parties, *, dispatch_next: bool = False, after: Aftermath
) -> list[Answer]:
    """Ring for agents (tenant, id); with `dispatch_next` their next turns are put before the workers first."""
    known = await heads.lock(tx, agents)
    after.targets |= {head["worker_target"] for head in known.values()}
    epochs = await dispatch(tx, list(known), parties, after=after) if dispatch_next and known else {}
    answers: list[Answer] = []
    for agent in agents:
        if agent not in known:
            answers.append(Rejected("agent_unknown", f"There is no agent {agent[1]}."))
            continue
        turn = known[agent]["active_agent_turn_id"]
        answers.append(Accepted(turn or UUID(int=0), epochs.get(turn) if turn else None))
    return answers
