"""Whether anything grows in a long run at half load with mild faults: memory, descriptors, connections, dead rows.

Each process is looked at in regular intervals; after a warm-up a line is fitted through what was seen of each that lived long
enough. What would grow by more than its allowance in an hour fails the run. One worker is spared by the kills (SPARED): of
those that die every few minutes nobody could say whether they grow.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from chaos.fleet import Fleet
from chaos.sea import Sea

LOOKS = 60
SPARED = "worker-0"
# By how much a thing may seem to grow in an hour, as a share of its middle; a short run cannot tell slow growth from noise.
SHARE = 0.05
# Pools fill up as they are used: less than this is no growth.
LEAST = {"memory": 16 << 20, "descriptors": 12, "connections": 20, "dead rows": 20_000}
DEAD = "select coalesce(sum(n_dead_tup), 0)::bigint as n from pg_stat_user_tables where schemaname = 'ferryman'"
CONNECTIONS = "select count(*) as n from pg_stat_activity where application_name like 'ferryman%%'"


class Gauge:
    """What was seen, and what it comes to."""

    def __init__(self, sea: Sea, fleet: Fleet, seconds: float) -> None:
        """Look some sixty times."""
        self._sea = sea
        self._fleet = fleet
        self._every = seconds / LOOKS
        self._next = time.monotonic() + seconds / 5  # the warm-up
        self._seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)

    def look(self, now: float) -> None:
        """Look, if it is time."""
        if now < self._next:
            return
        self._next = now + self._every
        for slot in self._fleet.of("worker", "dog", "producer", "reader"):
            name = f"{slot.name}.{slot.nth}"
            for kind, value in _sizes(slot.pid).items():
                self._seen[kind, name].append((now, value))
        for kind, question in (("connections", CONNECTIONS), ("dead rows", DEAD)):
            for row in self._sea.ask(question):
                self._seen[kind, "database"].append((now, float(row["n"])))

    def slopes(self) -> dict[tuple[str, str], tuple[float, float, float]]:
        """Return for each series its middle, its slope an hour, and by how much it grew from its first to its last third."""
        found = {}
        for key, points in self._seen.items():
            if len(points) < LOOKS // 3:
                continue
            times, values = zip(*points, strict=True)
            slope = statistics.linear_regression(times, values).slope * 3600
            third = len(values) // 3
            rise = statistics.median(values[-third:]) - statistics.median(values[:third])
            found[key] = statistics.median(values), slope, rise
        return found

    def grown(self) -> list[str]:
        """Name what grew: more than its least, and faster than its share; and what should have been looked at and was not."""
        said = []
        for (kind, who), (middle, slope, rise) in self.slopes().items():
            if rise > LEAST[kind] and slope > SHARE * middle:
                said.append(f"the {kind} of {who} grew by {rise:,.0f} (middle {middle:,.0f}, {slope:,.0f} an hour)")
        judged = {(kind, who.partition(".")[0]) for kind, who in self.slopes()}
        wanted = [("memory", SPARED), ("descriptors", SPARED), ("connections", "database"), ("dead rows", "database")]
        return said + [
            f"the {kind} of {who} was not looked at long enough" for kind, who in wanted if (kind, who) not in judged
        ]

    def told(self) -> dict[str, Any]:
        """Return what grew most of each kind, what of it would have been too much, and how many were judged."""
        worst: dict[str, Any] = {}
        for (kind, who), (middle, slope, rise) in self.slopes().items():
            if kind not in worst or rise > worst[kind]["rise"]:
                worst[kind] = {"who": who, "middle": round(middle), "an_hour": round(slope), "rise": round(rise)}
        for kind, found in worst.items():
            found["least"] = LEAST[kind]
            found["judged"] = sum(each == kind for each, _ in self.slopes())
        return worst


def _sizes(pid: int) -> dict[str, float]:
    """Return how much a process has of memory and descriptors; nothing if it is just dying."""
    try:
        memory = _memory(pid)
        return {"memory": memory, "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir()))} if memory else {}
    except OSError:
        return {}


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) * 1024
    return 0.0
