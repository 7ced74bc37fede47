"""What a stage asks of the store that a peer keeps its jobs in: PostgreSQL (server.py) or Redis (redis.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class Counters:
    """What the store has done so far: WAL bytes, WAL flushes, transactions of one database, and its bytes on disk."""

    wal: int = 0
    flushes: int = 0
    transactions: int = 0
    disk: int = 0

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(
            self.wal - earlier.wal,
            self.flushes - earlier.flushes,
            self.transactions - earlier.transactions,
            self.disk - earlier.disk,
        )


class Store(Protocol):
    """One server with databases that can be made anew."""

    def url(self, database: str) -> str:
        """Where to connect."""

    def create(self, database: str, *, template: str | None = None) -> None:
        """Make a fresh database, whatever was there before, and have all of it on disk."""

    def drop(self, database: str) -> None:
        """Forget a database."""

    def settle(self, database: str) -> None:
        """Leave a filled database as a quiet server would have it; who is connected stays so."""

    def disconnect(self, database: str) -> None:
        """Close every connection to a database."""

    def at_rest(self, database: str) -> bool:
        """Say whether no connection to a database is in the middle of something."""

    def listening(
        self, database: str, channels: Sequence[str], presence: str
    ) -> AbstractContextManager[Callable[[], int]]:
        """Hear what is rung on channels, as a worker's connection does; lend a way to count it."""

    def counters(self, database: str) -> Counters:
        """What was done so far; a store that does not tell counts nothing."""

    def counting(self, database: str, question: str) -> AbstractContextManager[Callable[[], int]]:
        """Lend a way to count completions."""

    def run_time(self) -> float:
        """CPU seconds of its living processes, to the nanosecond."""

    def cpu(self) -> float:
        """CPU seconds of all its processes, the ended ones included."""
