"""What a worker knows to be agreed for its queues: which are open, which are paused, and what they weigh.

It was read with the last look at the lanes, and may have changed since. For queues that is harmless: the statements that
claim look for themselves, and what is known here only saves asking in vain. Handlers that are paused are left out by what is
known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ferryman.kernel.db import Row

EVERYBODY = "*"


class Agreed:
    """The agreements of some queues, as last read."""

    def __init__(self) -> None:
        """Know of none: everything is open."""
        self._closed: set[tuple[str, str]] = set()
        self._paused: set[tuple[str, str]] = set()
        self._weights: dict[str, int] = {}
        self._credit: dict[str, float] = {}
        self.queues: set[str] = set()
        self.paused_names: frozenset[str] = frozenset()

    def learn(self, rows: Sequence[Row]) -> None:
        """Take what a look shows."""
        agreed = [row for row in rows if row["kind"] == "queue"]
        self.queues = {row["queue"] for row in agreed}
        self._closed = {(row["queue"], row["tenant"]) for row in agreed if not row["open"]}
        self._paused = {(row["queue"], row["tenant"]) for row in agreed if row["paused"]}
        self._weights = {row["queue"]: row["weight"] for row in agreed if row["tenant"] == EVERYBODY}
        self.weighted = any(weight != 1 for weight in self._weights.values())
        self.paused_names = frozenset(row["queue"] for row in rows if row["kind"] == "name")
        self.learned = True

    weighted = False
    learned = False  # nothing is claimed before the first look: what is paused by name is known here alone

    def open(self, queue: str, tenant: str) -> bool:
        """Tell whether a lane can be claimed without passing a gate."""
        closed = self._closed
        return not closed or ((queue, EVERYBODY) not in closed and (queue, tenant) not in closed)

    def paused(self, queue: str, tenant: str) -> bool:
        """Tell whether nothing of a lane may start."""
        return bool(self._paused) and ((queue, EVERYBODY) in self._paused or (queue, tenant) in self._paused)

    def allot(self, room: int, queues: Iterable[str]) -> dict[str, int]:
        """Divide the room by the weights of these queues; what cannot be divided is owed until the next time."""
        wanted = {queue: self._weights.get(queue, 1) for queue in queues}
        total = sum(wanted.values())
        due = {queue: self._credit.get(queue, 0.0) + room * weight / total for queue, weight in wanted.items()}
        given = {queue: max(0, int(part)) for queue, part in due.items()}
        left = room - sum(given.values())
        for queue in sorted(due, key=lambda queue: due[queue] - given[queue], reverse=True)[: max(0, left)]:
            given[queue] += 1
        self._credit = {queue: due[queue] - given[queue] for queue in due}
        return {queue: part for queue, part in given.items() if part}
