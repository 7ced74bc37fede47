"""What others must provide: the owner of a callback settles what a finished task owes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ferryman.kernel.db import Tx
from ferryman.kernel.owners import CallbackOwners, Settler
from ferryman.tasks.model import Ended

# The answer: the lanes that have something to claim now, if any.
Settles: TypeAlias = Settler[Ended, Sequence[str] | None]


class Owners(CallbackOwners[Ended, Sequence[str] | None]):
    """Who settles which kind of callback of tasks."""

    async def settle(self, tx: Tx, ended: Iterable[Ended]) -> list[str]:
        """Tell each owner the ends of its tasks; answer with the lanes to ring for after the commit."""
        return [lane async for lanes in self.told(tx, ended) for lane in lanes or ()]
