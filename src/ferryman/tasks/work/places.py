"""Where a claim may begin: behind what was claimed before.

While somebody keeps a transaction open PostgreSQL removes nothing that has died since. A claim that looks into its lane from
the front walks over all of that, and the more was claimed, the longer; and so does a look for lanes that nobody named. So looks
from the front get no more than a share of the time, and the claims between them begin where an earlier one was. What stands in
front of that place (it came later with a higher priority, or was locked) waits for the next look from the front: a few times
as long as one takes.

Only claims of many begin behind: who takes a few at a time, because handlers take their time, keeps the exact order. A claim
that began behind and found too little says nothing about its lane; the next one looks from the front.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.tasks.model import Claimed

Lane = tuple[str, str]

MANY = 50
# A look from the front may take one part of so many.
SHARE = 8
# Else, with millions of dead entries in front, looks would take more than their share.
PAUSE_SECONDS_MAX = 60.0


class Place(NamedTuple):
    """A task that was claimed, until when its lane is looked into from there, and for whose tasks that holds."""

    task: UUID
    until: float
    names: Sequence[str]


class Places:
    """Where the next claims of one worker begin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at the front."""
        self._clock = clock
        self._places: dict[Lane, Place] = {}
        self._look_at = 0.0

    def may_look(self) -> bool:
        """Whether it is time for another look for lanes that nobody has asked for."""
        return self._clock() >= self._look_at

    def looked(self, seconds: float) -> None:
        """Take note of how long a look for lanes took."""
        self._look_at = self._clock() + self._pause(seconds)

    def _pause(self, seconds: float) -> float:
        return min(PAUSE_SECONDS_MAX, SHARE * seconds)

    def behind(self, asked: Sequence[tuple[str, str, int]], names: Sequence[str]) -> list[UUID | None]:
        """Return for each lane the task to begin behind, or None for a look from the front."""
        if not self._places:
            return [None] * len(asked)
        now = self._clock()
        found: list[UUID | None] = []
        for queue, tenant, room in asked:
            place = self._places.get((queue, tenant))
            if place is not None and room >= MANY and now < place.until and place.names == names:
                found.append(place.task)
            else:
                found.append(None)
        return found

    def claimed(
        self,
        asked: Sequence[tuple[str, str, int]],
        behind: Sequence[UUID | None],
        claimed: Sequence[Claimed],
        *,
        names: Sequence[str],
        seconds: float,
    ) -> set[Lane]:
        """Take note of what a turn brought; return the lanes that were not looked into from the front."""
        last, counts = dict[Lane, UUID](), dict[Lane, int]()
        for task in claimed:
            lane = (task.queue, task.tenant)
            last[lane] = task.id
            counts[lane] = counts.get(lane, 0) + 1
        for (queue, tenant, room), after in zip(asked, behind, strict=True):
            lane = (queue, tenant)
            before = self._places.pop(lane, None)
            if room < MANY or counts.get(lane, 0) < room:
                continue
            if after is None:
                self._places[lane] = Place(last[lane], self._clock() + self._pause(seconds), names)
            elif before is not None:  # else another turn has ended its time meanwhile
                self._places[lane] = Place(last[lane], before.until, names)
        return {(queue, tenant) for (queue, tenant, _), after in zip(asked, behind, strict=True) if after is not None}
