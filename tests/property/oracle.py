"""What may become of those who meet: what becomes of them when they come one after another, in whichever order.

Two have two such orders, and three have six. To let them act in turn takes longer than to walk one order of their statements,
so orders are tried one by one, until those tried tell what was found; what none of them tells is wrong.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations
from typing import Any

from tests.property.interleave import Program

# Lays the scene, lets all act alone in this order, and returns what has become of each thing.
Acting = Callable[[Sequence[Program]], Awaitable[Sequence[Any]]]


class InTurn:
    """What becomes of each thing when some act in turn."""

    def __init__(self, programs: Sequence[Program], act: Acting) -> None:
        self._orders = permutations(programs)
        self._act = act
        self.could: list[set[Any]] = []

    async def tells(self, found: Sequence[Any]) -> bool:
        """Say whether each thing has become what it does in one of the orders."""
        while not self._told(found):
            order = next(self._orders, None)
            if order is None:
                return False
            became = await self._act(order)
            known = self.could or [set() for _ in became]
            self.could = [some | {each} for some, each in zip(known, became, strict=True)]
        return True

    def _told(self, found: Sequence[Any]) -> bool:
        return bool(self.could) and all(each in some for each, some in zip(found, self.could, strict=True))
