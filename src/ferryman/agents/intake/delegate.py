"""Another agent's turn as a call: it begins in the transaction that suspends the one who asks, and its end is the result.

The turn carries a callback with the call that it answers. Its end, whoever says it, is reported in the transaction of that end,
after the head of the one who waits was locked (the owner of a callback comes first; its head and the turn's own in one order).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ferryman.agents import rules
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake.enqueue import enqueue
from ferryman.agents.intake.report import report
from ferryman.agents.model import Accepted, Answer, Call, EndedTurn, NewAgent, Order, Report, Suspension
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import cards, heads
from ferryman.kernel import ids, payload
from ferryman.kernel.db import Tx


class Delegation(NamedTuple):
    """What a delegating call sets going: a turn, of an agent that is made for it or of one that exists."""

    order: Order
    agent: NewAgent | None

    @property
    def heads(self) -> Collection[tuple[str, str]]:
        """Whose head is locked."""
        return [(self.order.tenant, self.order.agent_id)]

    @classmethod
    async def start(
        cls,
        tx: Tx,
        calls: Sequence[tuple[Suspension, Call]],
        *,
        prepared: bool,
        parties: Parties,
        after: Aftermath,
    ) -> None:
        """Make the agents, then ask for their turns; an order that is not taken is the failed result of its call."""
        if not prepared:
            agents = [call.start.agent for _, call in calls if call.start.agent is not None]
            if agents:
                await heads.create(tx, agents)
            return
        answers = await enqueue(tx, [call.start.order for _, call in calls], parties, after=after)
        refused = [
            _refusal(each, call, answer)
            for (each, call), answer in zip(calls, answers, strict=True)
            if not isinstance(answer, Accepted)
        ]
        if refused:
            await report(tx, refused, parties, after=after)


def _refusal(suspension: Suspension, call: Call, answer: Answer) -> Report:
    code, reason = answer.code or answer.status, getattr(answer, "reason", answer.status)
    return Report(
        tenant=suspension.tenant,
        tool_call_id=call.tool_call_id,
        id=ids.new_id(),
        card_id=ids.new_id(),
        content={"status": "failed", "error": {"code": code, "message": reason, "source": "agents"}},
        author="agents",
    )


class DelegateEnds:
    """Settles the ends of turns that were asked for by others' calls: the owner of the callback `delegate`."""

    def __init__(self, parties: Parties) -> None:
        """Report under these terms."""
        self._parties = parties

    async def lock(self, _tx: Tx, refs: Sequence[str]) -> Collection[tuple[str, str]]:
        """Name the agents whose turns wait: nothing stands before their heads."""
        return set(rules.awaiting(refs).values())

    async def try_lock(self, _tx: Tx, refs: Sequence[str]) -> Mapping[str, Collection[tuple[str, str]]]:
        """Name the same, for each."""
        return {ref: [agent] for ref, agent in rules.awaiting(refs).items()}

    async def settle(self, tx: Tx, ended: Sequence[EndedTurn]) -> Sequence[str]:
        """Report the deliverables as results."""
        after = Aftermath()
        reports = [
            Report(
                tenant=each.tenant,
                tool_call_id=(each.callback_ref or "//").split("/", 2)[2],
                id=ids.new_id(),
                card_id=ids.new_id(),
                content=await _content(tx, each),
                author=each.agent_id,
            )
            for each in ended
        ]
        await report(tx, reports, self._parties, after=after, locked=True)
        return sorted(after.targets)


async def _content(tx: Tx, ended: EndedTurn) -> dict[str, Any]:
    """Return what a finished turn means to whoever asked for it; a partial one is a result, with its reason."""
    given = None
    if ended.deliverable_card_id is not None:
        found = await cards.get(tx, [ended.deliverable_card_id], tenant=ended.tenant)
        given = payload.decode(found[0].content) if found else None
    content: dict[str, Any] = {"status": ended.status.value, "result": given, "agent_turn_id": str(ended.id)}
    if ended.status is not TurnStatus.SUCCESS:
        code = ended.code or ended.status.value
        content["error"] = {"code": code, "message": ended.error or code, "source": ended.agent_id}
    return content
