"""Kills every process that works or watches soon after it has begun, one life after another.

Whatever a watchdog does, it must do early: expired leases are reaped in time although no process lives for long.
"""

from __future__ import annotations

import time

from chaos.fleet import Fleet
from chaos.history import History

# Of 1.3 s between two kills, a process that is started anew takes the rest to load.
LIFE_SECONDS = 0.4


class ShortLives:
    """Stretches of time in which no worker and no watchdog lives for longer than `LIFE_SECONDS`."""

    def __init__(self, fleet: Fleet, told: History) -> None:
        """Kill in this fleet; nobody dies before the first stretch."""
        self._fleet = fleet
        self._told = told
        self._until = 0.0
        self._began: dict[str, tuple[int, float]] = {}  # by name: which life, and when it was seen to work
        self.killed = 0

    def begin(self, until: float) -> None:
        """Let lives be short until then."""
        self._until = max(self._until, until)

    def step(self, now: float) -> None:
        """Kill whoever has lived long enough."""
        if now >= self._until:
            return
        for slot in self._fleet.prey("worker", "dog"):
            if not self._fleet.works(slot):
                continue
            nth, began = self._began.get(slot.name, (0, now))
            if nth != slot.nth:
                self._began[slot.name] = slot.nth, now
            elif now >= began + LIFE_SECONDS:
                self._fleet.kill(slot)
                self.killed += 1
                who = f"{slot.name}.{slot.nth:04}"
                self._told.write("struck", kind="kill", who=who, child=slot.pid, at=time.monotonic(), by="short lives")
                del self._began[slot.name]
