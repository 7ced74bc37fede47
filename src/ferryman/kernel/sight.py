"""Whether a pump knows of everything it has claimed.

A turn whose answer never came may have claimed things that nobody here knows of: sight is lost. From then on one lane claims
at a time, so that the moment comes when no other claim is under way; the first turn that succeeds at that moment is followed
by a look at what is leased to this worker and unknown to it. Turns that were under way when sight was lost are not waited for
with the others: they began before, and what they claimed is known when they answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ferryman.kernel import errors

log = logging.getLogger("ferryman.pump")


class Sight:
    """What one pump can see of its claims."""

    def __init__(self) -> None:
        """Begin with nothing claimed, and nothing lost."""
        self.lost = False
        self.reclaiming = False
        # The turns under way that may claim, and those of them that began before sight was lost.
        self._claims: set[object] = set()
        self._old: set[object] = set()

    def claims(self, turn: object) -> None:
        """Know of a turn that may claim."""
        self._claims.add(turn)

    def ended(self, turn: object) -> None:
        """Know that a turn is over, whatever came of it."""
        self._claims.discard(turn)

    def lose(self) -> None:
        """Something may be leased to us that we do not know of."""
        if not self.lost:
            self.lost = True
            self._old = set(self._claims)

    def allows_claims(self) -> bool:
        """Tell whether another turn may claim; without sight one at a time."""
        return not self.reclaiming and not (self.lost and self._claims - self._old)

    def allows_reclaim(self, turn: object) -> bool:
        """Tell whether this is the moment to look: sight is lost, and nobody else is claiming."""
        return self.lost and not self.reclaiming and not self._claims - {turn}

    async def look_back(self, reclaim: Callable[[], Awaitable[int | None]]) -> bool:
        """Hand back what is leased to us and unknown; tell whether we know again of everything."""
        self.reclaiming = True
        try:
            handed_back = await reclaim()
        except Exception as error:  # the next turn that succeeds tries again
            known = isinstance(error, errors.FerrymanError)
            log.warning("could not look for lost claims: %s", error, exc_info=None if known else error)
            return False
        else:
            if handed_back is None:
                return False  # somebody writes a row of ours: the next turn that succeeds looks again
            self.lost = False
            self._old.clear()
            log.info("the database is back", extra={"handed_back": handed_back})
            return True
        finally:
            self.reclaiming = False
