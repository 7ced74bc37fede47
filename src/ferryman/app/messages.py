"""Messages for agents, in sets: those that come at one time share a trip, and each has its own answer (kernel/gather.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from ferryman.agents import intake
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake import budgets
from ferryman.agents.model import Accepted, Answer, Order, Report
from ferryman.agents.work.profiles import Budget
from ferryman.app.repeat import repeated
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Line

PATIENCE = timedelta(seconds=10)

Thing = TypeVar("Thing")


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
        self._orders: Gather[tuple[Order, Beside], Answer] = Gather(lambda some: _alone_if_refused(some, self._enqueue))
        self._reports: Gather[Report, Answer] = Gather(lambda some: _alone_if_refused(some, self._report))

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

    async def _enqueue(self, asked: list[tuple[Order, Beside]]) -> list[Answer | Exception]:
        after = Aftermath()
        async with self._lines[0].transaction() as tx:
            answers = await intake.enqueue(tx, [order for order, _ in asked], self._parties, after=after)
            for (order, beside), answer in zip(asked, answers, strict=True):
                if isinstance(answer, Accepted) and answer.created:
                    await _lay(tx, order, beside)
        after.ring(self._doorbell)
        return list(answers)

    async def _report(self, reports: list[Report]) -> list[Answer | Exception]:
        after = Aftermath()
        async with self._lines[1].transaction() as tx:
            answers = await intake.report(tx, reports, self._parties, after=after)
        after.ring(self._doorbell)
        return list(answers)


async def _lay(tx: Tx, order: Order, beside: Beside) -> None:
    """Store what a turn was given beside its instruction."""
    if beside.budget is not None and beside.budget_id is not None:
        await budgets.create(tx, beside.budget_id, tenant=order.tenant, **asdict(beside.budget))
    if beside.card is not None:
        await intake.cards.require(tx, beside.card, beside.fields, tenant=order.tenant, turn=order.turn)


async def _alone_if_refused(
    things: list[Thing], send: Callable[[list[Thing]], Awaitable[list[Answer | Exception]]]
) -> list[Answer | Exception]:
    """Send a set. If PostgreSQL refuses one of it, each goes alone: the others must not suffer by their company."""
    try:
        return await repeated(lambda: send(things), PATIENCE)
    except errors.StatementRefused as refused:
        if len(things) == 1:
            return [refused]
        return [each for thing in things for each in await _alone_if_refused([thing], send)]
