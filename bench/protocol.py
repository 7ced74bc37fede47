"""What the runner and a peer say to each other.

A peer is a module `bench.peers.<name>` that ends with `main(ItsClass)`. The runner starts it, with that
peer's own interpreter, in one of four roles (roles.py): `card` prints what it can do, `migrate` makes its tables,
`client` creates jobs and prints timings, `worker` works until SIGTERM. Only the standard library is
imported here, because every peer's environment loads this file.

Times travel through a small file mapped into memory (`Marks`). A handler costs one clock reading and one
store, the same for every peer; `time.monotonic()` is one clock for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import mmap
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

HEAD = 64
SLOTS = 200_000
CREW_MAX = 16
GO = 0
HALT, MADE = 1, 2
READY, HANDLED = 8, 40
IN_FLIGHT = 50
WARM = 20
STEPS = 10
WARM_LATENCY = 10
ANSWER = "ANSWER "


class Marks:
    """Per job: when its handler began and when its create returned. In front: who is ready, and GO; how much was handled."""

    def __init__(self, path: Path) -> None:
        size = 8 * (HEAD + 2 * SLOTS)
        if not path.exists():
            path.write_bytes(b"")
            os.truncate(path, size)
        with path.open("r+b") as file:
            self.times = memoryview(mmap.mmap(file.fileno(), size)).cast("d")
        self.worker = int(os.environ.get("BENCH_WORKER", "0"))

    def start(self, job: int) -> None:
        self.times[HANDLED + self.worker] += 1
        if self.times[HEAD + job] == 0.0:
            self.times[HEAD + job] = time.monotonic()

    def create(self, job: int) -> None:
        self.times[HEAD + SLOTS + job] = time.monotonic()

    def started(self, count: int) -> list[float]:
        return list(self.times[HEAD : HEAD + count])

    def created(self, count: int) -> list[float]:
        return list(self.times[HEAD + SLOTS : HEAD + SLOTS + count])

    def begun(self, since: int, count: int) -> int:
        """How many of the first `count` jobs have begun without a gap, known to be `since` at least."""
        while since < count and self.times[HEAD + since]:
            since += 1
        return since

    def handled(self) -> int:
        """How many handlers have begun, in all workers."""
        return int(sum(self.times[HANDLED : HANDLED + CREW_MAX]))

    def busy(self) -> int:
        """How many workers have begun a handler."""
        return sum(1 for count in self.times[HANDLED : HANDLED + CREW_MAX] if count)

    def go(self) -> float:
        now = time.monotonic()
        self.times[GO] = now
        return now


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many jobs each workload takes: as many as the peer does in a few seconds."""

    single: int = 2_000
    flight: int = 4_000
    bulk: int = 10_000
    drain: int = 10_000
    schedule: int = 10_000
    join: int = 10
    steps: int = 200
    commands: int = 100
    gates: int = 10_000
    deep: int = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What the runner needs to know about a peer without importing it."""

    name: str
    durable: bool
    store: str
    can: Sequence[str]
    sizes: Sizes
    done: str
    done_commands: str
    fill: Mapping[str, str]
    channels: Sequence[str]
    presence: str
    pace: float
    settings: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """One client run: the operation and its numbers."""

    op: str
    count: int
    flight: int = IN_FLIGHT
    gap: float = 0.02
    due: float = 0.0
    cap: float = 20.0
    keys: int = 1
    slots: int = 1
    queues: int = 1
    tenants: int = 1
    workers: int = 1


class Peer:
    """A system under measurement. `done` is SQL that counts the jobs that are durably finished.

    `channels` are those on which a create rings for workers, and `presence` is what a worker's connection says beside LISTEN,
    where a create rings only if somebody is there. `pace` is how many seconds apart the rings for a stream of creates are;
    none: each create rings.
    """

    name: ClassVar[str]
    done: ClassVar[str]
    done_commands: ClassVar[str] = ""
    durable: ClassVar[bool] = True
    store: ClassVar[str] = "postgres"
    can: ClassVar[Sequence[str]] = ("enqueue", "bulk", "drain", "latency", "schedule", "startup")
    sizes: ClassVar[Sizes] = Sizes()
    fill: ClassVar[Mapping[str, str]] = {}
    channels: ClassVar[Sequence[str]] = ()
    presence: ClassVar[str] = ""
    pace: ClassVar[float] = 0.0
    settings: ClassVar[str] = ""
    uvloop: ClassVar[bool] = False

    def __init__(self, url: str, marks: Marks, *, queues: int = 1) -> None:
        self.url = url
        self.marks = marks
        self.queues = queues

    async def migrate(self) -> None:
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def create(self, job: int) -> None:
        raise NotImplementedError

    async def create_in_flight(self, job: int) -> None:
        """Create while others are under way; a peer whose calls block does so in a thread."""
        await self.create(job)

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        """Create all `jobs`, to run at the unix time `due` or at once; who has no call for it creates one by one."""
        if due is not None:
            raise NotImplementedError
        waiting = iter(jobs)

        async def loop() -> None:
            for job in waiting:
                await self.create_in_flight(job)

        await asyncio.gather(*(loop() for _ in range(IN_FLIGHT)))

    async def join(self, size: int) -> None:
        """Fan out `size` jobs and return when all of them are done."""
        raise NotImplementedError

    async def create_workflows(self, jobs: range) -> None:
        """Create workflows of STEPS durable steps each; `marks.start` is called first in each."""
        raise NotImplementedError

    async def command(self, job: int) -> None:
        """Send a command that starts three capabilities; `marks.start` is called first in its mapping."""
        raise NotImplementedError

    async def by_hand(self, job: int) -> None:
        """Do what a command with three capabilities does with four plain tasks."""
        raise NotImplementedError

    async def create_keyed(self, jobs: range, *, keys: int, slots: int) -> None:
        """Create all `jobs`, spread over so many keys, of each of which so many may run at once."""
        raise NotImplementedError

    async def create_spread(self, jobs: range, *, tenants: int) -> None:
        """Create all `jobs`, spread over the queues of this peer and over so many tenants."""
        raise NotImplementedError

    async def work(self) -> None:
        """Work until cancelled. Call `gate` when everything is open, and `marks.start` first in a handler."""
        raise NotImplementedError

    async def gate(self) -> None:
        """Say that this worker is ready, and wait until all are."""
        self.marks.times[READY + self.marks.worker] = time.monotonic()
        while self.marks.times[GO] == 0.0:  # noqa: ASYNC110 - another process rings, through shared memory
            await asyncio.sleep(0.001)
