"""Lanes behind gates: those with limits, and those whose tasks have keys.

A gate is passed in a transaction of its own: its row is locked, then what is leased is counted, then as much is claimed as the
limits allow. A lane that came back with less than was asked waits at its gate until it is named again: by a create, by an
end that freed a slot, by the time at which its rate allows the next start, or by the look that every worker takes each poll
interval. The lanes that got something stand last next time, so that no tenant starves another behind one limit.

A lane may have thousands of keys. A look goes through some of them, and the next one goes on where it ended; a lane is done
when a whole round over its keys brought nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ferryman.tasks.store.gates import Asked, Looked
from ferryman.tasks.work.agreed import Agreed

Lane = tuple[str, str]

# A look goes through at least so many keys of a lane, or as many as it wants tasks.
KEYS = 50
KNOWN_MAX = 10_000


@dataclass(slots=True)
class Place:
    """Where a worker stands with a lane: whether it is worth a look, and behind which key that begins."""

    wanted: bool = True
    named: bool = False
    after: str = ""
    gained: bool = False


class Gates:
    """The lanes behind gates that one worker knows, by queue."""

    def __init__(self, agreed: Agreed) -> None:
        """Know of none."""
        self._agreed = agreed
        self._queues: dict[str, dict[str, Place]] = {}

    @property
    def waiting(self) -> bool:
        """Whether some lane is worth a look."""
        return any(place.wanted for places in self._queues.values() for place in places.values())

    def heard(self, lane: Lane) -> None:
        """Look into a lane that was named."""
        self.found(lane)
        place = self._queues[lane[0]][lane[1]]
        place.named = place.gained = True

    def freed(self, queue: str) -> None:
        """Look into the lanes that wait at a gate: it has a free slot."""
        for place in self._queues.get(queue, {}).values():
            place.wanted = place.named = place.gained = True

    def found(self, lane: Lane) -> None:
        """Look into a lane that the index shows."""
        places = self._queues.setdefault(lane[0], {})
        places.setdefault(lane[1], Place()).wanted = True
        while len(places) > KNOWN_MAX:
            del places[next(iter(places))]

    def share(self, room: int) -> list[Asked]:
        """Share out the room: first come those that have not been served for longest."""
        if room <= 0 or not self._queues:
            return []
        wanted = {
            queue: tenants
            for queue, places in self._queues.items()
            if (tenants := [each for each in places if places[each].wanted and not self._agreed.paused(queue, each)])
        }
        asked = []
        for queue, part in self._agreed.allot(room, wanted).items() if wanted else ():
            # Each lane may take the whole part: who gets how much is decided where the limits are known.
            for tenant in wanted[queue][:part]:
                place = self._queues[queue][tenant]
                place.named = False
                asked.append(Asked(queue, tenant, part, place.after))
        return asked

    def passed(self, asked: Sequence[Asked], looked: Iterable[Looked], got: Iterable[Lane]) -> bool:
        """Take what came of it; tell whether there is more to claim at once."""
        counts = Counter(got)
        reports = {(each.queue, each.tenant): each for each in looked}
        more = False
        for each in asked:
            places = self._queues[each.queue]
            place, report = places.get(each.tenant), reports.get((each.queue, each.tenant))
            if place is None or report is None:
                continue  # somebody else stands at that gate: it stays wanted
            count = counts[each.queue, each.tenant]
            if count or not report.waits:
                del places[each.tenant]
            if count or report.waits or place.named:
                places[each.tenant] = place
            more |= _moved(place, each, report, count)
        return more


def _moved(place: Place, asked: Asked, report: Looked, count: int) -> bool:
    """Note how far the look came; tell whether the next may bring more."""
    place.gained |= count > 0
    place.after = report.upto or ""
    if report.open_seconds is not None:
        place.wanted = False
    elif count >= asked.room or report.upto is not None or (count and report.cut):
        place.wanted = True
    else:
        # Seen to the end. A round that began in the middle and brought something is followed by one more.
        place.wanted = place.named or (asked.after != "" and place.gained)
        place.gained = False
    return place.wanted
