"""Which lanes a worker claims from, and how much from each.

A lane is a (queue, tenant) pair with something to claim. Rings name lanes; a look at the index finds those that no ring
named. The room of a turn is shared out evenly, or by the weights of the queues where some were given, beginning with another
lane each time, so that no tenant starves another; a lane that came back with less than its share is forgotten until it is
named or found again. A lane that is named while a turn looks into it is kept: the turn may have looked a moment too early.

A lane whose tasks nobody here can run (their handlers are unknown or paused) comes back empty each time the index shows it, and
costs a walk over all of them. It is left alone for a while, longer each time, unless it is named.

Lanes that are not open (limited, or paused) and tasks with a key are not claimed here, but through gates (gates.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from ferryman.kernel.db import Row
from ferryman.tasks.work.agreed import Agreed
from ferryman.tasks.work.gates import Gates

Lane = tuple[str, str]
SEPARATOR = "\x1f"

# A look finds at most so many lanes of each kind; the next goes on behind them.
LOOK_MAX = 1000
# So many are known at once by what rings said: whoever rings for more may be naming lanes that are none.
KNOWN_MAX = 10_000
BARREN_SECONDS = 0.5
BARREN_SECONDS_MAX = 5.0


def named(queue: str, tenant: str, *, keyed: bool = False) -> str:
    """Return how a ring names a lane; one that has tasks with keys bears a mark. No tenant: a gate has a free slot."""
    return f"{queue}{SEPARATOR}{tenant}{SEPARATOR if keyed else ''}"


class Lanes:
    """The lanes known to one worker."""

    def __init__(
        self, queues: Sequence[str], *, tenant: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Serve these queues, for all tenants or for one; nothing is known yet, so the index must be looked at."""
        self._queues = frozenset(queues)
        self._tenant = tenant
        self._known: dict[Lane, bool] = {}  # whether it was named since it was last shared out
        self._barren: dict[Lane, tuple[float, float]] = {}  # when to look again, and how long after that
        self._clock = clock
        self.afters = dict.fromkeys(queues, "")
        self.agreed = Agreed()
        self.gates = Gates(self.agreed)
        self.unsure = True

    def heard(self, hints: Iterable[str]) -> bool:
        """Take what a ring named; without names the index must be looked at. Tell whether there is a lane to look into."""
        any_named = False
        for hint in hints:
            any_named = True
            queue, _, rest = hint.partition(SEPARATOR)
            tenant, _, _ = rest.partition(SEPARATOR)
            if queue not in self._queues or (tenant and not self._serves(tenant)):
                continue
            if not tenant:
                self.gates.freed(queue)
            elif rest != tenant or not self.agreed.open(queue, tenant):
                self.gates.heard((queue, tenant))
            else:
                self._name((queue, tenant))
        if not any_named:
            self.unsure = True
            self._barren.clear()
        return self.unsure or bool(self._known) or self.gates.waiting

    def _name(self, lane: Lane) -> None:
        self._barren.pop(lane, None)
        if len(self._known) >= KNOWN_MAX and lane not in self._known:
            self.unsure = True  # the index shows those that are
            return
        self._known[lane] = True

    def _serves(self, tenant: str) -> bool:
        return self._tenant is None or tenant == self._tenant

    def found(self, rows: Sequence[Row]) -> None:
        """Take what a look shows: what is agreed, and where something waits."""
        self.agreed.learn(rows)
        self._go_on(rows)
        now = self._clock()
        for row in rows:
            if row["kind"] not in ("lane", "keyed"):
                continue
            lane = (row["queue"], row["tenant"])
            if not self._serves(lane[1]):
                continue
            if row["kind"] == "keyed" or not self.agreed.open(*lane):
                self.gates.found(lane)
            elif lane not in self._barren or self._barren[lane][0] <= now:
                self._known.setdefault(lane, False)
        for lane in [lane for lane in self._known if not self.agreed.open(*lane)]:
            del self._known[lane]

    def _go_on(self, rows: Sequence[Row]) -> None:
        """Begin the next look where this one had to end, if it had to; a whole one begins anew."""
        kinds = Counter(row["kind"] for row in rows)
        last = dict.fromkeys(self.afters, "")
        for kind in ("lane", "keyed"):
            if kinds[kind] >= LOOK_MAX:
                for row in rows:
                    if row["kind"] == kind:
                        last[row["queue"]] = max(last[row["queue"]], row["tenant"])
        self.afters = last

    def share(self, room: int) -> list[tuple[str, str, int]]:
        """Share out the room; the lanes served now stand last next time."""
        if room <= 0 or not self._known:
            return []
        if self.agreed.weighted:
            return self._by_weight(room)
        served = list(self._known)[:room]
        each, rest = divmod(room, len(served))
        self._last(served)
        return [(*lane, each + (place < rest)) for place, lane in enumerate(served)]

    def _by_weight(self, room: int) -> list[tuple[str, str, int]]:
        queues: dict[str, list[Lane]] = {}
        for lane in self._known:
            queues.setdefault(lane[0], []).append(lane)
        shared = []
        for queue, part in self.agreed.allot(room, queues).items():
            served = queues[queue][:part]
            each, rest = divmod(part, len(served)) if served else (0, 0)
            shared += [(*lane, each + (place < rest)) for place, lane in enumerate(served)]
        self._last([(queue, tenant) for queue, tenant, _ in shared])
        return shared

    def _last(self, served: Iterable[Lane]) -> None:
        for lane in served:
            del self._known[lane]
            self._known[lane] = False

    def claimed(
        self, asked: Sequence[tuple[str, str, int]], got: Iterable[Lane], *, unsure: Collection[Lane] = ()
    ) -> bool:
        """Forget the lanes that are empty, except those that were not looked into as a whole; tell whether there is more."""
        counts = Counter(got)
        for queue, tenant, room in asked:
            lane = (queue, tenant)
            if counts[lane]:
                self._barren.pop(lane, None)
            if lane not in unsure and counts[lane] < room and not self._known.get(lane, False):
                self._known.pop(lane, None)
                if not counts[lane]:
                    self._leave(lane)
        return bool(self._known)

    def _leave(self, lane: Lane) -> None:
        _, pause = self._barren.get(lane, (0.0, BARREN_SECONDS / 2))
        pause = min(BARREN_SECONDS_MAX, pause * 2)
        self._barren[lane] = (self._clock() + pause, pause)
        while len(self._barren) > LOOK_MAX:
            del self._barren[next(iter(self._barren))]
