"""What others must provide: the owner of a callback settles what a finished turn owes it (a batch's child)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from ferryman.agents.model import Call, EndedTurn, Outcome, Suspension, Taken
from ferryman.kernel.db import Tx
from ferryman.kernel.owners import CallbackOwners, Settler


@dataclass
class Rings:
    """What there is to ring for after the commit: workers' targets, stops that were asked for, and other bells by topic."""

    targets: set[str] = field(default_factory=set)
    stops: bool = False
    bells: dict[str, set[str]] = field(default_factory=dict)

    def add(self, more: Rings | Iterable[str] | None) -> None:
        """Take along what another owner has; targets alone may be given as such."""
        if isinstance(more, Rings):
            self.targets |= more.targets
            self.stops |= more.stops
            for topic, hints in more.bells.items():
                self.bells.setdefault(topic, set()).update(hints)
        else:
            self.targets.update(more or ())


# `lock` comes before any head is locked: the order is batch, head, inbox and waits, tasks. It answers with the agents (tenant,
# id) whose heads its `settle` will touch: those are locked after it, all of them in one order. Where it has a `try_lock`, that
# answers with them for each reference, and leaves out what somebody else holds.
SettlesTurns: TypeAlias = Settler[EndedTurn, Rings | Sequence[str] | None]


class TurnOwners(CallbackOwners[EndedTurn, Rings | Sequence[str] | None]):
    """Who settles which kind of callback of turns."""

    async def parents(self, tx: Tx, owed: Iterable[tuple[str | None, str | None]]) -> set[tuple[str, str]]:
        """Lock what stands before heads; answer with the agents whose heads come next."""
        answers = await self.lock(tx, owed)
        return {agent for answer in answers for agent in _agents(answer)}

    async def try_parents(
        self, tx: Tx, owed: Iterable[tuple[str | None, str | None]]
    ) -> dict[tuple[str, str], Collection[tuple[str, str]]]:
        """Lock what stands before heads and can be had at once; answer with that, and with the agents whose heads come next."""
        found: dict[tuple[str, str], Collection[tuple[str, str]]] = {}
        for kind, refs, answer in await self.try_lock(tx, owed):
            each = answer if isinstance(answer, Mapping) else dict.fromkeys(refs, _agents(answer))
            found |= {(kind, ref): each[ref] for ref in refs}
        return found

    async def settle(self, tx: Tx, ended: Iterable[EndedTurn]) -> Rings:
        """Tell each owner the ends of its turns; answer with what to ring for."""
        rings = Rings()
        async for answer in self.told(tx, ended):
            rings.add(answer)
        return rings


def _agents(answer: object) -> Collection[tuple[str, str]]:
    return answer if isinstance(answer, Collection) else ()


class Starts(Protocol):
    """What a call that is no tool's task sets going in the transaction that suspends its turn: another turn, a batch."""

    @property
    def heads(self) -> Collection[tuple[str, str]]:
        """The agents (tenant, id) whose heads it will lock: they are locked together with the turns', in one order."""

    @classmethod
    async def start(
        cls, tx: Tx, calls: Sequence[tuple[Suspension, Call]], *, prepared: bool, parties: Any, after: Any
    ) -> None:
        """Set a set of calls going: once before any head is locked, to make what must be there, and then `prepared`."""


class Runs(Protocol):
    """What does the turns of some profiles: the programming model."""

    @property
    def profiles(self) -> Sequence[str]:
        """The profiles it knows."""

    async def prepare(self, tx: Tx, taken: Sequence[Taken]) -> None:
        """Read what a set of turns needs, just after it was taken in hand: one trip for all instead of one for each."""

    def forget(self, ids: Collection[UUID]) -> None:
        """Let go of what was prepared for turns that will not be run here after all."""

    async def run(self, taken: Taken) -> Outcome | None:
        """Do a turn until it ends, waits for calls, or is given up.

        None when the claim was lost meanwhile, or what the turn needs could not be read: its lease ends the claim then.
        """
