"""Messages for agents, in sets: those that come at one time share a trip, and each has its own answer (kernel/gather.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake import budgets
from ferryman.agents.model import Accepted, Answer, Order, Report
from ferryman.agents.work.profiles import Budget
from ferryman.app.repeat import apart
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Line

PATIENCE = timedelta(seconds=10)


class Beside(NamedTuple):
    """What a turn is given beside its instruction: a budget for it and all that it leads to, fields its result must have."""

    budget_id: UUID | None
    budget: Budget | None
    card: UUID | None
    fields: Sequence[str]


NOTHING = Beside(None, None, None, ())


class Messages:
    """Carry orders for turns and results of calls, each over a line of its own."""

    def __init__(self, doorbell: Doorbell, parties: Parties, *, line: Callable[[], Line]) -> None:
        """Begin with none under way."""
        self._doorbell = doorbell
        self._parties = parties
        self._lines = [line(), line()]
        self._orders: Gather[tuple[Order, Beside], Answer] = Gather(lambda some: apart(some, self._enqueue, PATIENCE))
        self._reports: Gather[Report, Answer] = Gather(lambda some: apart(some, self._report, PATIENCE))

    async def order(self, order: Order, beside: Beside = NOTHING) -> Answer:
        """Ask for a turn."""
        return await self._orders((order, beside))

    async def report(self, report: Report) -> Answer:
        """Answer a call."""
        return await self._reports(report)

    async def close(self) -> None:
        """Let go."""
        await self._orders.stop()
        await self._reports.stop()
        for line in self._lines:
            await line.close()

    async def _enqueue(self, asked: Sequence[tuple[Order, Beside]]) -> Sequence[Answer]:
        """Send orders; of those for one turn the first, then the others: they are compared with all that it laid down."""
        firsts = {order.turn: place for place, (order, _) in reversed(list(enumerate(asked)))}
        if len(firsts) < len(asked):
            now = set(firsts.values())
            made = iter(await self._enqueue([each for place, each in enumerate(asked) if place in now]))
            met = iter(await self._enqueue([each for place, each in enumerate(asked) if place not in now]))
            return [next(made if place in now else met) for place in range(len(asked))]
        after = Aftermath()
        async with self._lines[0].transaction() as tx:
            answers = await intake.enqueue(tx, [order for order, _ in asked], self._parties, after=after)
            for (order, beside), answer in zip(asked, answers, strict=True):
                if isinstance(answer, Accepted) and answer.created:
                    await _lay(tx, order, beside)
        after.ring(self._doorbell)
        return answers

    async def _report(self, reports: Sequence[Report]) -> Sequence[Answer]:
        after = Aftermath()
        async with self._lines[1].transaction() as tx:
            answers = await intake.report(tx, reports, self._parties, after=after)
        after.ring(self._doorbell)
        return answers


async def _lay(tx: Tx, order: Order, beside: Beside) -> None:
    """Store what a turn was given beside its instruction."""
    if beside.budget is not None and beside.budget_id is not None:
        await budgets.create(tx, beside.budget_id, tenant=order.tenant, **asdict(beside.budget))
    if beside.card is not None:
        await intake.cards.require(tx, beside.card, beside.fields, tenant=order.tenant, turn=order.turn)
