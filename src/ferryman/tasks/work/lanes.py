"""Which lanes a worker claims from, and how much from each.

A lane is a (queue, tenant) pair with something to claim. Rings name lanes; a look at the index finds those that no ring
named. The room of a turn is shared out evenly, beginning with another lane each time, so that no tenant starves another; a
lane that came back with less than its share is forgotten until it is named or found again. A lane that is named while a
turn looks into it is kept: the turn may have looked a moment too early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

Lane = tuple[str, str]
SEPARATOR = "\x1f"


def named(queue: str, tenant: str) -> str:
    """Return how a ring names a lane."""
    return f"{queue}{SEPARATOR}{tenant}"


class Lanes:
    """The lanes known to one worker."""

    def __init__(self, queues: Sequence[str]) -> None:
        """Serve these queues; nothing is known yet, so the index must be looked at."""
        self._queues = frozenset(queues)
        self._known: dict[Lane, bool] = {}  # whether it was named since it was last shared out
        self.unsure = True

    def heard(self, hints: Iterable[str]) -> bool:
        """Take what a ring named; without names the index must be looked at. Tell whether there is a lane to look into."""
        any_named = False
        for hint in hints:
            any_named = True
            queue, _, tenant = hint.partition(SEPARATOR)
            if queue in self._queues:
                self._known[queue, tenant] = True
        if not any_named:
            self.unsure = True
        return self.unsure or bool(self._known)

    def found(self, lanes: Iterable[Lane]) -> None:
        """Take what the index shows."""
        for lane in lanes:
            self._known.setdefault(lane, False)

    def share(self, room: int) -> list[tuple[str, str, int]]:
        """Share out the room; the lanes served now stand last next time."""
        if room <= 0 or not self._known:
            return []
        served = list(self._known)[:room]
        each, rest = divmod(room, len(served))
        for lane in served:
            del self._known[lane]
            self._known[lane] = False
        return [(*lane, each + (place < rest)) for place, lane in enumerate(served)]

    def claimed(self, asked: Sequence[tuple[str, str, int]], got: Iterable[Lane]) -> bool:
        """Forget the lanes that are empty; tell whether there is more to claim."""
        counts = Counter(got)
        for queue, tenant, room in asked:
            if counts[queue, tenant] < room and not self._known.get((queue, tenant), False):
                self._known.pop((queue, tenant), None)
        return bool(self._known)
