"""Where a claim may begin: behind what was claimed before.

While somebody keeps a transaction open PostgreSQL removes nothing that has died since. A claim that looks into its lane from
the front walks over all of that, and the more was claimed, the longer; and so does a look for lanes that nobody named. So looks
from the front get no more than a share of the time (kernel/looks.py), and the claims between them begin where an earlier one
was. What stands in front of that place (it came later with a higher priority, or was locked) waits for the next look from the
front: a few times as long as one takes, as a rule ten seconds at most. What was taken back from a dead worker stands in front
too, and is not to wait: a ring without names, as the watchdog's, lets the next claims begin there.

Claims of many begin behind as a rule. Who takes a few at a time, because handlers take their time or there is little to do,
keeps the exact order for as long as walks are short. A claim that began behind and found too little says nothing about its
lane: the next one looks from the front, unless walks are long; then the lane is left until it is named or found again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel.looks import Pace
from ferryman.tasks.model import Claimed

Lane = tuple[str, str]

MANY = 50
# So many lanes are known by how long their looks take; the one that was asked for longest ago is forgotten first.
PACES_MAX = 1000


class Place(NamedTuple):
    """A task that was claimed, when its lane was last looked into from the front, and for whose tasks that holds."""

    task: UUID
    looked_at: float
    names: Sequence[str]


class Places:
    """Where the next claims of one worker begin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at the front."""
        self._clock = clock
        self._places: dict[Lane, Place] = {}
        self._paces: dict[Lane, Pace] = {}
        self._lanes = Pace()
        self._lanes_looked_at = 0.0

    def may_look(self) -> bool:
        """Whether it is time for another look for lanes that nobody has asked for."""
        return self._clock() >= self._lanes_looked_at + self._lanes.rest()

    def looked(self, seconds: float) -> None:
        """Take note of how long a look for lanes took."""
        self._lanes.looked(seconds)
        self._lanes_looked_at = self._clock()

    def forget(self) -> None:
        """Begin at the front, once, in every lane."""
        self._places.clear()

    def behind(self, asked: Sequence[tuple[str, str, int]], names: Sequence[str]) -> list[UUID | None]:
        """Return for each lane the task to begin behind, or None for a look from the front."""
        if not self._places:
            return [None] * len(asked)
        now = self._clock()
        return [self._begin((queue, tenant), room, names, now) for queue, tenant, room in asked]

    def _begin(self, lane: Lane, room: int, names: Sequence[str], now: float) -> UUID | None:
        place = self._places.get(lane)
        if place is None or place.names != names:
            return None
        pace = self._pace(lane)
        if (room >= MANY or pace.long) and now < place.looked_at + pace.rest():
            return place.task
        return None

    def claimed(
        self,
        asked: Sequence[tuple[str, str, int]],
        behind: Sequence[UUID | None],
        claimed: Sequence[Claimed],
        *,
        names: Sequence[str],
        seconds: float,
    ) -> set[Lane]:
        """Take note of what a turn brought; return the lanes that want a look from the front before they are forgotten."""
        last, counts = dict[Lane, UUID](), dict[Lane, int]()
        for each in claimed:
            lane = (each.queue, each.tenant)
            last[lane] = each.id
            counts[lane] = counts.get(lane, 0) + 1
        # What a look for lanes is compared with: a turn does more than one beside the walk, and few turns walk far.
        self._lanes.looked(seconds, behind=True)
        walked = None in behind
        unsure: set[Lane] = set()
        for (queue, tenant, room), after in zip(asked, behind, strict=True):
            lane = (queue, tenant)
            pace = self._pace(lane)
            if after is None or not walked:  # else its time is that of others' walks
                pace.looked(seconds, behind=after is not None)
            before = self._places.pop(lane, None)
            stays = pace.long or (room >= MANY and counts.get(lane, 0) >= room)
            if after is not None and (before is None or not stays):
                unsure.add(lane)  # too little, or another turn has ended its time meanwhile
                continue
            task = last.get(lane, None if before is None else before.task)
            if stays and task is not None:
                looked_at = self._clock() if before is None or after is None else before.looked_at
                self._places[lane] = Place(task, looked_at, names)
        return unsure

    def _pace(self, lane: Lane) -> Pace:
        pace = self._paces[lane] = self._paces.pop(lane) if lane in self._paces else Pace()
        while len(self._paces) > PACES_MAX:
            del self._paces[next(iter(self._paces))]
        return pace
