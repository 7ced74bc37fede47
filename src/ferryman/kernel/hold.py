"""What a worker holds: each claim from the answer that brought it to the answer that settled it.

What cannot be ended here is let go, but stays known: only its lease may end it, so nobody must hand it back.

A worker that stood still may claim again what was taken from it meanwhile, while the handler of its first claim still runs.
There is one claim of a thing at a time: the second is held, and the first is over, whatever its handler makes of that. Nor does
the fence tell them apart where a backup was put back: it comes again. So what runs is known by itself, and not by its id.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Generic
from uuid import UUID

from ferryman.kernel.crew import Item, Outcome

LET_GO_MAX = 10_000


class Holding(Generic[Item]):
    """One claim."""

    __slots__ = ("item", "left", "renewed", "running", "task")

    def __init__(self, item: Item, since: float) -> None:
        """Remember when its lease began at the earliest, by this process's own steady clock."""
        self.item = item
        self.renewed = since
        self.running = False
        self.left = 0  # how often its outcome could not be written at once
        self.task: asyncio.Task[None] | None = None


class Hold(Generic[Item]):
    """All claims of one worker."""

    def __init__(self) -> None:
        """Begin with none."""
        self.held: dict[UUID, Holding[Item]] = {}
        self.working: set[Holding[Item]] = set()  # whose handlers have not ended, held or not
        self.running = 0
        self._let_go: dict[UUID, int] = {}

    def take(self, item: Item, *, since: float) -> Holding[Item]:
        """Hold what was claimed; it was asked for at `since`."""
        self._let_go.pop(item.id, None)
        holding = self.held[item.id] = Holding(item, since)
        return holding

    def runs(self, holding: Holding[Item]) -> None:
        """Count a claim that is worked on."""
        holding.running = True
        self.running += 1
        self.working.add(holding)

    def holds(self, holding: Holding[Item]) -> bool:
        """Tell whether this very claim is held."""
        return self.held.get(holding.item.id) is holding

    def ran(self, holding: Holding[Item]) -> None:
        """Count it no longer; it is held until its outcome has been answered."""
        holding.running = False
        self.running -= 1

    def find(self, id: UUID, epoch: int) -> Holding[Item] | None:
        """Return the claim with this fence, if it is still held."""
        holding = self.held.get(id)
        return holding if holding is not None and holding.item.epoch == epoch else None

    def leave(self, outcomes: Iterable[Outcome]) -> dict[int, list[Outcome]]:
        """Count that these could not be written at once; return them by how often that was so."""
        sets: dict[int, list[Outcome]] = defaultdict(list)
        for each in outcomes:
            holding = self.find(each.id, each.epoch)
            if holding is not None:
                holding.left += 1
            sets[1 if holding is None else holding.left].append(each)
        return sets

    def drop(self, holding: Holding[Item]) -> None:
        """Hold no longer what cannot be ended here; it stays known."""
        del self.held[holding.item.id]
        self._let_go[holding.item.id] = holding.item.epoch
        while len(self._let_go) > LET_GO_MAX:
            del self._let_go[next(iter(self._let_go))]

    def known(self) -> set[UUID]:
        """Return what is held, or was let go without being settled."""
        return {*self.held, *self._let_go}
