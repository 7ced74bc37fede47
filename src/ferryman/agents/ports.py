"""What others must provide: the owner of a callback settles what a finished turn owes it (a batch's child)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferryman.agents.model import Call, EndedTurn, Outcome, Suspension, Taken
from ferryman.kernel import errors
from ferryman.kernel.db import Tx


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


class SettlesTurns(Protocol):
    """The owner of one kind of callback that turns carry.

    Both phases run in the transaction that ends the turns, for the whole set at once, whoever ends them. `lock` comes before
    any head is locked: the order is batch, head, inbox and waits, tasks.
    """

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock the parents named by these callback references, in the order of their ids."""

    async def settle(self, tx: Tx, ended: Sequence[EndedTurn]) -> Rings | Sequence[str] | None:
        """Write what these ends owe their owners; answer with what to ring for, or only with the targets of workers."""


class TurnOwners:
    """Who settles which kind of callback; filled once, where the domains meet."""

    def __init__(self, settlers: Mapping[str, SettlesTurns] | None = None) -> None:
        """Take the owners by the kind that turns carry."""
        self._settlers = dict(settlers or {})

    @property
    def kinds(self) -> list[str]:
        """The kinds that can be settled here; turns of other kinds are left to processes that know them."""
        return sorted(self._settlers)

    def _of(self, kind: str) -> SettlesTurns:
        owner = self._settlers.get(kind)
        if owner is None:
            raise errors.CallbackUnknown(f"Nobody here settles callbacks of kind {kind}.", kind=kind)
        return owner

    async def lock(self, tx: Tx, owed: Iterable[tuple[str | None, str | None]]) -> None:
        """Lock the parents of a set, kind by kind in one order."""
        refs: dict[str, set[str]] = defaultdict(set)
        for kind, ref in owed:
            if kind is not None:
                refs[kind].add(ref or "")
        for kind in sorted(refs):
            await self._of(kind).lock(tx, sorted(refs[kind]))

    async def settle(self, tx: Tx, ended: Iterable[EndedTurn]) -> Rings:
        """Tell each owner the ends of its turns, a whole set at once; answer with what to ring for."""
        sets: dict[str, list[EndedTurn]] = defaultdict(list)
        for each in ended:
            sets[each.callback].append(each)
        rings = Rings()
        for kind in sorted(sets):
            rings.add(await self._of(kind).settle(tx, sets[kind]))
        return rings


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

    async def run(self, taken: Taken) -> Outcome | None:
        """Do a turn until it ends, waits for calls, or is given up; None when the claim was lost meanwhile."""
