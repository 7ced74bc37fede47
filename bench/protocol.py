"""What the runner and a peer say to each other.

A peer is a module `bench.peers.<name>` that ends with `main(ItsClass)`. The runner starts it, with that
peer's own interpreter, in one of four roles: `card` prints what it can do, `migrate` makes its tables,
`client` creates jobs and prints timings, `worker` works until SIGTERM. Only the standard library is
imported here, because every peer's environment loads this file.

Times travel through a small file mapped into memory (`Marks`). A handler costs one clock reading and one
store, the same for every peer; `time.monotonic()` is one clock for all processes of a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import mmap
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

HEAD = 64
SLOTS = 200_000
GO = 0
READY = 8
WARM = 20
STEPS = 10
WARM_LATENCY = 10
ANSWER = "ANSWER "


class Marks:
    """Per job: when its handler began and when its create returned. In front: who is ready, and GO."""

    def __init__(self, path: Path) -> None:
        size = 8 * (HEAD + 2 * SLOTS)
        if not path.exists():
            path.write_bytes(b"")
            os.truncate(path, size)
        with path.open("r+b") as file:
            self.times = memoryview(mmap.mmap(file.fileno(), size)).cast("d")

    def start(self, job: int) -> None:
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
    can: Sequence[str]
    sizes: Sizes
    done: str
    done_commands: str
    fill: Mapping[str, str]
    settings: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """One client run: the operation and its numbers."""

    op: str
    count: int
    flight: int = 50
    gap: float = 0.02
    due: float = 0.0
    cap: float = 20.0
    keys: int = 1
    slots: int = 1


class Peer:
    """A system under measurement. `done` is SQL that counts the jobs that are durably finished."""

    name: ClassVar[str]
    done: ClassVar[str]
    done_commands: ClassVar[str] = ""
    durable: ClassVar[bool] = True
    can: ClassVar[Sequence[str]] = ("enqueue", "bulk", "drain", "latency", "schedule", "startup")
    sizes: ClassVar[Sizes] = Sizes()
    fill: ClassVar[Mapping[str, str]] = {}
    settings: ClassVar[str] = ""
    uvloop: ClassVar[bool] = False

    def __init__(self, url: str, marks: Marks) -> None:
        self.url = url
        self.marks = marks

    async def migrate(self) -> None:
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def create(self, job: int) -> None:
        raise NotImplementedError

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        """Create all `jobs`, to run at the unix time `due` or at once."""
        raise NotImplementedError

    async def join(self, size: int) -> None:
        """Fan out `size` jobs and return when all of them are done."""
        raise NotImplementedError

    async def create_workflows(self, jobs: range) -> None:
        """Create workflows of STEPS durable steps each; `marks.start` is called first in each."""
        raise NotImplementedError

    async def command(self, job: int) -> None:
        """Send a command that starts three capabilities; `marks.start` is called first in its mapping."""
        raise NotImplementedError

    async def create_keyed(self, jobs: range, *, keys: int, slots: int) -> None:
        """Create all `jobs`, spread over so many keys, of each of which so many may run at once."""
        raise NotImplementedError

    async def work(self) -> None:
        """Work until cancelled. Call `gate` when everything is open, and `marks.start` first in a handler."""
        raise NotImplementedError

    async def gate(self) -> None:
        """Say that this worker is ready, and wait until all are."""
        self.marks.times[READY + int(os.environ["BENCH_WORKER"])] = time.monotonic()
        while self.marks.times[GO] == 0.0:  # noqa: ASYNC110 - another process rings, through shared memory
            await asyncio.sleep(0.001)


async def _single(peer: Peer, order: Order) -> dict[str, Any]:
    for job in range(WARM):
        await peer.create(job)
    begun = time.monotonic()
    for job in range(WARM, WARM + order.count):
        await peer.create(job)
    return {"seconds": time.monotonic() - begun}


async def _flight(peer: Peer, order: Order) -> dict[str, Any]:
    for job in range(WARM):
        await peer.create(job)
    jobs = iter(range(WARM, WARM + order.count))

    async def loop() -> None:
        for job in jobs:
            await peer.create(job)

    begun = time.monotonic()
    await asyncio.gather(*(loop() for _ in range(order.flight)))
    return {"seconds": time.monotonic() - begun}


async def _bulk(peer: Peer, order: Order) -> dict[str, Any]:
    begun = time.monotonic()
    await peer.create_many(range(order.count), due=order.due or None)
    return {"seconds": time.monotonic() - begun}


async def _latency(peer: Peer, order: Order) -> dict[str, Any]:
    for job in range(WARM_LATENCY):
        await peer.create(SLOTS - 1 - job)
        await asyncio.sleep(order.gap)
    await asyncio.sleep(0.5)
    begun = then = time.monotonic()
    for job in range(order.count):
        await peer.create(job)
        peer.marks.create(job)
        then += order.gap
        await asyncio.sleep(max(0.0, then - time.monotonic()))
    return {"seconds": time.monotonic() - begun}


async def _join(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.join(100)
    times: list[float] = []
    while len(times) < order.count and sum(times) < order.cap:
        begun = time.monotonic()
        await peer.join(100)
        times.append(time.monotonic() - begun)
    return {"times": times}


async def _steps(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_workflows(range(order.count))
    return {}


async def _commands(peer: Peer, order: Order) -> dict[str, Any]:
    jobs = iter(range(order.count))

    async def loop() -> None:
        for job in jobs:
            await peer.command(job)

    begun = time.monotonic()
    await asyncio.gather(*(loop() for _ in range(order.flight)))
    return {"seconds": time.monotonic() - begun}


async def _keyed(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_keyed(range(order.count), keys=order.keys, slots=order.slots)
    return {}


OPERATIONS: dict[str, Callable[[Peer, Order], Awaitable[dict[str, Any]]]] = {
    "single": _single,
    "flight": _flight,
    "bulk": _bulk,
    "latency": _latency,
    "join": _join,
    "steps": _steps,
    "commands": _commands,
    "keyed": _keyed,
}


async def _client(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.open()
    try:
        return await OPERATIONS[order.op](peer, order)
    finally:
        await peer.close()


async def _worker(peer: Peer) -> None:
    work = asyncio.ensure_future(peer.work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


def _run(work: Awaitable[None], *, fast: bool) -> None:
    if fast:
        import uvloop

        uvloop.run(work)  # type: ignore[arg-type]
    else:
        asyncio.run(work)  # type: ignore[arg-type]


def main(peer_class: type[Peer]) -> None:
    """Play the role named on the command line."""
    line = argparse.ArgumentParser()
    line.add_argument("role", choices=["card", "migrate", "client", "worker"])
    line.add_argument("--order", default="{}", help="an Order, as JSON")
    given = line.parse_args()
    if given.role == "card":
        card = {field.name: getattr(peer_class, field.name) for field in dataclasses.fields(Card)}
        print(ANSWER + json.dumps(card | {"sizes": dataclasses.asdict(peer_class.sizes)}))
        return
    peer = peer_class(os.environ["BENCH_URL"], Marks(Path(os.environ["BENCH_MARKS"])))
    if given.role == "migrate":
        asyncio.run(peer.migrate())
    elif given.role == "client":
        answer = asyncio.run(_client(peer, Order(**json.loads(given.order))))
        print(ANSWER + json.dumps(answer), flush=True)
    else:
        _run(_worker(peer), fast=peer_class.uvloop)
