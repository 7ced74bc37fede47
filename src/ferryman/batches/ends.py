"""The ends of children and of batches, in one transaction (B6 to B9, B13).

Whoever moves a task of a batch holds the batch's row first. So the last two children that end at one moment come one after the
other, and the second sees what the first has written: the batch is closed once, and never forgotten. The order of locks is
batches by id, then their parents' heads, then tasks, then what agents lock. A stop is only a message and locks no head.

The batch's end and what its parent is owed are one transaction: the tool.result card, the message, the turn that may go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from ferryman.agents import intake as agents
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.model import Accepted, Edge, EndedTurn, Report, Source, Stop
from ferryman.agents.model import Terms as TurnTerms
from ferryman.agents.ports import Rings, SettlesTurns, TurnOwners
from ferryman.batches import rules
from ferryman.batches.model import Closed, Closing, Held, Live, TaskEnd, Terms
from ferryman.batches.states import BatchStatus, TaskStatus
from ferryman.batches.store import batches, tasks
from ferryman.kernel import faults, ids, payload, telemetry
from ferryman.kernel.db import Tx
from ferryman.tasks.ports import Owners

JOINED = "joined"  # the bell for whoever waits for a batch from outside
TERMINATED = "batch_terminated"


async def hold(tx: Tx, batch_ids: Collection[UUID], *, beside: Collection[tuple[str, str]] = ()) -> dict[UUID, Held]:
    """Lock batches, and the heads of their parents, who may be told of their ends; and of agents `beside` them."""
    held = await batches.lock(tx, batch_ids)
    await agents.hold(tx, _parents(held) | set(beside))
    return held


def _parents(held: Mapping[UUID, Held]) -> set[tuple[str, str]]:
    return {(each.tenant, each.parent_agent_id) for each in held.values() if each.parent_agent_id is not None}


async def conclude(tx: Tx, batch_ids: Collection[UUID], parties: Parties, terms: Terms, *, after: Aftermath) -> None:
    """Close those of these batches, which are held, whose tasks say that they are over."""
    standing = await batches.standing(tx, batch_ids) if batch_ids else {}
    closings = []
    for id, (fail_fast, statuses) in standing.items():
        status = rules.verdict(statuses, fail_fast=fail_fast)
        if status is not None:
            closings.append(Closing(id=id, status=status))
    if closings:
        await close(tx, closings, parties, terms, after=after)


async def close(
    tx: Tx, closings: Sequence[Closing], parties: Parties, terms: Terms, *, after: Aftermath
) -> list[Closed]:
    """End batches that are held and running, stop what is under way, tell their parents; answer with those that ended."""
    closed = await batches.close(tx, closings)
    if not closed:
        return []
    reason = next((each.reason for each in closings if each.reason is not None), None)
    left = await tasks.abort(
        tx, [each.id for each in closed], reason=reason or TERMINATED, warn_after=terms.warn_after
    )  # fmt: skip
    if left:
        await _terminate(tx, left, parties, after=after)
    await tell(tx, closed, parties, terms, after=after)
    faults.point("batch.closed")
    for each in closed:
        telemetry.ended("batch", each.status, reason, 1)
    return closed


async def _terminate(tx: Tx, left: Sequence[Live], parties: Parties, *, after: Aftermath) -> None:
    """Stop children for real (B8): those that wait in line are taken back, the others get a stop; each answer is looked at."""
    for tenant in sorted({each.tenant for each in left}):
        sent = {each.turn: each for each in left if each.tenant == tenant and each.turn is not None}
        unknown = [turn for turn, each in sent.items() if each.epoch is None]
        if unknown:
            answers = await agents.cancel(tx, unknown, parties, tenant=tenant, source=Source(), after=after)
            begun = [turn for turn, answer in zip(unknown, answers, strict=True) if not isinstance(answer, Accepted)]
            there = {each.id for each in await agents.read.turns(tx, begun, tenant=tenant)} if begun else set()
            sent = {turn: each for turn, each in sent.items() if turn not in unknown or turn in there}
        # Without an epoch: a child that was suspended and went on has another by now, and is stopped all the same.
        stops = [
            Stop(tenant=tenant, agent_id=each.agent_id, turn=turn, id=ids.new_id(), reason=TERMINATED)
            for turn, each in sent.items()
        ]
        if stops:
            await agents.stop(tx, stops, after=after)


async def tell(tx: Tx, closed: Sequence[Closed], parties: Parties, terms: Terms, *, after: Aftermath) -> None:
    """Give the parents of closed batches their results (B9); a batch that was told of is not told of again."""
    owing = await batches.told(tx, [each.id for each in closed])
    found = await tasks.of(tx, owing)
    reports, edges = [], []
    for each in closed:
        if each.id not in owing:
            continue
        source = Source(agent_id=each.parent_agent_id, turn=each.parent_agent_turn_id, depth=each.recursion_depth)
        edges.append(join(each.id, "response", source, tenant=each.tenant))
        if each.parent_tool_call_id is not None:
            result = rules.result(each.status, found[each.id], limit=terms.card_limit)
            reports.append(
                Report(
                    tenant=each.tenant,
                    tool_call_id=each.parent_tool_call_id,
                    id=ids.new_id(),
                    card_id=ids.new_id(),
                    content=rules.content(each.id, result),
                    author=rules.AUTHOR,
                )
            )
    if reports:
        # A parent that has ended meanwhile waits for nothing: its report is consumed without effect.
        await agents.report(tx, reports, parties, after=after)
    if edges:
        await agents.join(tx, edges)
    after.bells.setdefault(JOINED, set()).update(str(id) for id in owing)


def join(batch: UUID, phase: Any, source: Source, *, tenant: str) -> Edge:
    """Return the edge that says that somebody waits for a batch, or that it was answered."""
    return Edge(
        tenant=tenant,
        correlation=str(batch),
        primitive="join",
        phase=phase,
        id=ids.new_id(),
        depth=max(0, source.depth),
        source=source,
    )


class BatchEnds:
    """Settles the ends of children: the owner of the callback `batch` (agents/ports.py)."""

    def __init__(
        self,
        terms: Terms,
        turn_terms: TurnTerms,
        *,
        tasks: Owners | None = None,
        others: Mapping[str, SettlesTurns] | None = None,
    ) -> None:
        """Settle under these terms; `others` own other callbacks, which what waited behind a child may carry."""
        self.terms = terms
        self.parties = Parties(turn_terms, TurnOwners({**(others or {}), rules.BATCH: self}), tasks or Owners())

    async def lock(self, tx: Tx, refs: Sequence[str]) -> Collection[tuple[str, str]]:
        """Lock the batches; answer with their parents, whose heads are locked with the others."""
        known = {found[0] for found in map(rules.referred, refs) if found is not None}
        return _parents(await batches.lock(tx, sorted(known))) if known else ()

    async def try_lock(self, tx: Tx, refs: Sequence[str]) -> Mapping[str, Collection[tuple[str, str]]]:
        """Lock the batches that nobody else holds; answer with the parents of each."""
        known = {ref: found[0] for ref in refs if (found := rules.referred(ref)) is not None}
        held, busy = await batches.try_lock(tx, sorted(set(known.values()))) if known else ({}, set[UUID]())
        parents = {id: _parents({id: each}) for id, each in held.items()}
        return {ref: parents.get(known[ref], ()) if ref in known else () for ref in refs if known.get(ref) not in busy}

    async def settle(self, tx: Tx, ended: Sequence[EndedTurn]) -> Rings:
        """Note what became of children, and close the batches of which they were the last."""
        after = Aftermath()
        await absorb(tx, ended, self.parties, self.terms, after=after)
        return Rings(after.targets, after.stops, after.bells)


async def absorb(tx: Tx, ended: Sequence[EndedTurn], parties: Parties, terms: Terms, *, after: Aftermath) -> int:
    """Set the tasks of children that have ended (B6); their batches are held. Unknown and repeated ends change nothing."""
    known = [(each, found) for each in ended if (found := rules.referred(each.callback_ref)) is not None]
    if not known:
        return 0
    views = await _views(tx, [each for each, _ in known])
    ends = [
        TaskEnd(
            id=found[1],
            turn=each.id,
            status=TaskStatus(each.status.value),
            output_box=each.output_box_id,
            error=None if each.status.value == TaskStatus.SUCCESS else each.code or views[each.id].get("error_code"),
            view=views[each.id],
        )
        for each, found in known
    ]
    touched = await tasks.end(tx, ends)
    await conclude(tx, sorted(touched), parties, terms, after=after)
    return len(touched)


async def _views(tx: Tx, ended: Sequence[EndedTurn]) -> dict[UUID, dict[str, Any]]:
    """Read what children delivered: the summary, the first fields, and of one that a tool ended what the tool said."""
    wanted: dict[str, set[UUID]] = defaultdict(set)
    for each in ended:
        wanted[each.tenant] |= {
            card for card in (each.deliverable_card_id, each.tool_result_card_id) if card is not None
        }
    contents: dict[UUID, Any] = {}
    for tenant in sorted(wanted):
        if wanted[tenant]:
            found = await agents.cards.get(tx, sorted(wanted[tenant]), tenant=tenant)
            contents |= {card.id: payload.decode(card.content) for card in found}
    return {each.id: _view(each, contents) for each in ended}


def _view(ended: EndedTurn, contents: Mapping[UUID, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if ended.deliverable_card_id is None:
        told["error_code"] = rules.NO_DELIVERABLE
    elif ended.deliverable_card_id not in contents:
        told |= {"deliverable_card_id": str(ended.deliverable_card_id), "error_code": rules.UNREADABLE}
    else:
        view = rules.view_of(contents[ended.deliverable_card_id])
        told |= {"deliverable_card_id": str(ended.deliverable_card_id), "result_fields": list(view.fields)}
        if view.summary is not None:
            told["digest"] = view.summary
    if ended.tool_result_card_id is not None:
        told["tool_result_card_id"] = str(ended.tool_result_card_id)
        if ended.tool_result_card_id in contents:
            told["tool_result"] = contents[ended.tool_result_card_id]
        else:
            told["tool_result_error"] = rules.NO_RESULT
    return told


async def expire(tx: Tx, batch_ids: Collection[UUID], parties: Parties, terms: Terms, *, after: Aftermath) -> int:
    """End batches past their deadline (B8); one that its last child ends at the same moment has one winner."""
    held = await hold(tx, sorted(batch_ids))
    closings = [Closing(id=id, status=BatchStatus.TIMEOUT, reason="deadline") for id in held]
    return len(await close(tx, closings, parties, terms, after=after))


async def cancel(
    tx: Tx, batch_ids: Collection[UUID], parties: Parties, terms: Terms, *, reason: str, after: Aftermath
) -> list[Closed]:
    """End batches that nobody wants any more, as failed, and stop their children."""
    held = await hold(tx, sorted(batch_ids))
    closings = [Closing(id=id, status=BatchStatus.FAILED, reason=reason) for id in held]
    return await close(tx, closings, parties, terms, after=after)
