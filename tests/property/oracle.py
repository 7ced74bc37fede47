"""What may become of those who meet: what becomes of them when they come one after another, in whichever order.

Two have two such orders, and three have six. To let them act in turn takes longer than to walk one order of their statements,
so orders are tried one by one, until one of them tells what was found: first that in which they ended, which is the likeliest.
What none of them tells is wrong. One order must tell all of it: a command that ended as in one beside a task of it that ended
as in another is wrong too.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import permutations

from tests.property.interleave import Program

# Lays the scene, lets all act alone in this order, and returns what has become of everything.
Acting = Callable[[Sequence[Program]], Awaitable[Sequence[Hashable]]]


class InTurn:
    """What becomes of everything when some act in turn."""

    def __init__(self, programs: Sequence[Program], act: Acting) -> None:
        self._programs = programs
        self._left = list(permutations(range(len(programs))))
        self._act = act
        self.could: set[tuple[Hashable, ...]] = set()

    async def tells(self, found: Sequence[Hashable], came: Sequence[int] = ()) -> bool:
        """Say whether one of the orders leaves what was found by those who ended in that order."""
        while tuple(found) not in self.could:
            if not self._left:
                return False
            order = tuple(came) if tuple(came) in self._left else self._left[0]
            self._left.remove(order)
            self.could.add(tuple(await self._act([self._programs[place] for place in order])))
        return True
