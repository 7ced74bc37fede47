"""Writing what turns must remember, in sets.

Many turns of a worker make steps and write cards at the same time. Each waits for its own to be durable; what comes while a set
is on its way goes with the next (kernel/gather.py), over a line of their own. Everything carries the fence of its claim: what a
stale holder says is refused, and its handler is told. While the database is away a set is kept and sent again; a repeat meets
its own rows. A set that PostgreSQL refuses is halved until the bad one stands alone; so is one that it cannot write now because
of a few rows, or that was broken off in the middle, as one that is too large for the time that a statement has; what stands
alone then goes with later sets until it can.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from ferryman.agents.model import Amount, Card, Step
from ferryman.agents.store import budgets, cards, steps
from ferryman.kernel import errors, faults, outage, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.gather import Again, Gather
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import Line

log = logging.getLogger("ferryman.agents")

Thing = TypeVar("Thing")
Value = TypeVar("Value")


class Use(NamedTuple):
    """So much of a budget for one call of a turn."""

    tenant: str
    budget: UUID
    turn: UUID
    name: str
    amount: Amount


class Written(NamedTuple):
    """A step to be remembered, with the cards that it leaves and what it used of a budget."""

    step: Step
    cards: tuple[Card, ...] = ()
    use: Use | None = None


class Scribe:
    """Write for the turns of one worker."""

    def __init__(self, line: Line, *, owner: UUID) -> None:
        """Write over one line, under the worker's boot id."""
        self._line = line
        self.owner = owner
        self._steps: Gather[Written, None] = Gather(self._remember)
        self._uses: Gather[Use, bool] = Gather(self._reserve)

    def remember(self, written: Written) -> Awaitable[None]:
        """Write what a step came to."""
        return self._steps(written)

    def reserve(self, use: Use) -> Awaitable[bool]:
        """Reserve a part of a budget; false when there is not so much left."""
        return self._uses(use)

    async def close(self) -> None:
        """Let go of whatever is not written: its worker is gone, and what comes later would be refused."""
        await self._steps.stop()
        await self._uses.stop()

    # Sets

    async def _remember(self, things: list[Written]) -> Sequence[Exception | None]:
        async def ask(some: Sequence[Written]) -> list[Exception | None]:
            plain = not any(each.cards or each.use for each in some)
            if plain:
                held = await steps.remember(self._line, [each.step for each in some])
            else:
                async with self._line.transaction() as tx:
                    held = await self._remember_all(tx, some)
            faults.point("step.committed")
            return [None if each.step.turn in held else _lost() for each in some]

        faults.point("step.before")
        return await self._whole(things, ask)

    async def _remember_all(self, tx: Tx, some: Sequence[Written]) -> set[UUID]:
        held = await steps.remember(tx, [each.step for each in some])
        mine = [each for each in some if each.step.turn in held]
        written = [(card, each.step.epoch) for each in mine for card in each.cards]
        if written:
            await cards.append(tx, written)
        for use in sorted(each.use for each in mine if each.use is not None):
            await budgets.spend(tx, use.amount, tenant=use.tenant, id=use.budget, turn=use.turn, name=use.name)
        return held

    async def _reserve(self, things: list[Use]) -> Sequence[bool | Exception]:
        async def ask(some: Sequence[Use]) -> list[bool | Exception]:
            # Locked in one order; the sum that a reservation compares with needs a statement after the lock.
            answers: dict[int, bool] = {}
            async with self._line.transaction() as tx:
                for place in sorted(range(len(some)), key=lambda n: some[n]):
                    use = some[place]
                    found = await budgets.lock(tx, tenant=use.tenant, id=use.budget)
                    answers[place] = found is not None and await budgets.reserve(
                        tx, use.amount, tenant=use.tenant, id=use.budget, turn=use.turn, name=use.name
                    )
            return [answers[place] for place in range(len(some))]

        return await self._whole(things, ask)

    async def _whole(
        self, things: Sequence[Thing], ask: Callable[[Sequence[Thing]], Awaitable[Sequence[Value]]]
    ) -> list[Value | Exception]:
        """Ask for a set; what PostgreSQL refuses is found by halving, and told to its caller alone (K25).

        While the database is away it is asked again: whoever waits is ended by its wall time or its lease, not by us.
        """
        try:
            return list(await outlast(lambda: ask(things), over=outage.of_any_set, told=_wait))
        except Exception as error:
            if len(things) == 1 and outage.passes(error):
                return [Again(error)]
            if len(things) == 1:
                log.exception("what a turn wrote was refused")
                return [error]
            half = len(things) // 2
            return [*await self._whole(things[:half], ask), *await self._whole(things[half:], ask)]


def _wait(failures: int, error: errors.FerrymanError) -> None:
    if failures == 1:
        log.warning("steps of turns wait for the database", extra={"reason": error.message})


def _lost() -> errors.TurnLost:
    telemetry.fenced("turn", "step", 1)
    return errors.TurnLost()
