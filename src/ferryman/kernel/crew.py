"""What a domain does for the pump, and what the pump must know of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from ferryman.kernel.pool import Line


class Held(Protocol):
    """What the pump must know of a claimed thing."""

    @property
    def id(self) -> UUID:
        """Its key."""

    @property
    def epoch(self) -> int:
        """The fence of this claim."""


class Told(Protocol):
    """What the pump must know of an outcome."""

    @property
    def id(self) -> UUID:
        """The key of what it is about."""

    @property
    def epoch(self) -> int:
        """The fence of the claim that it ends."""


Item = TypeVar("Item", bound=Held)
Outcome = TypeVar("Outcome", bound=Told)


@dataclass(frozen=True, slots=True)
class Turned(Generic[Item]):
    """What a turn came to: what was claimed, whether there is more; whose outcomes were busy (left), whose stale.

    A crew that settles first and claims afterwards says when it asked for the claims, by the steady clock: their leases begin
    then, and not with the turn.
    """

    items: Sequence[Item] = ()
    more: bool = False
    left: Collection[UUID] = ()
    stale: Collection[UUID] = ()
    asked: float | None = None


class Crew(Protocol[Item, Outcome]):
    """What a domain does for the pump."""

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Item]:
        """Settle these outcomes and claim up to `room`."""

    async def run(self, item: Item) -> Outcome | None:
        """Do the work; every way it can end is an outcome, or None when the claim was lost meanwhile."""

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int | None:
        """Hand back what is leased to this worker but not held by it: how much, or None to be asked again."""

    def doubt(self) -> None:
        """Trust nothing that was heard: the next turn finds out by itself where there is something to claim."""

    def lost(self, count: int) -> None:
        """Count claims that were lost while their handlers ran, or before their outcomes were stored."""

    def hand_back(self, item: Item) -> Outcome:
        """Say that the work was not done here and uses no attempt."""

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Replace an outcome that cannot be settled; None when even its replacement could not."""
