"""What a client does, by the name of the operation: it creates jobs and says how long that took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.protocol import HALT, MADE, SLOTS, WARM, WARM_LATENCY, Order, Peer

AHEAD, SET = 10_000, 1_000


async def single(peer: Peer, order: Order) -> dict[str, Any]:
    for job in range(WARM):
        await peer.create(job)
    begun, used = time.monotonic(), time.process_time()
    for job in range(WARM, WARM + order.count):
        await peer.create(job)
    return {"seconds": time.monotonic() - begun, "cpu": time.process_time() - used}


async def flight(peer: Peer, order: Order) -> dict[str, Any]:
    for job in range(WARM):
        await peer.create_in_flight(job)
    jobs = iter(range(WARM, WARM + order.count))

    async def loop() -> None:
        for job in jobs:
            await peer.create_in_flight(job)

    begun, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(loop() for _ in range(order.flight)))
    return {"seconds": time.monotonic() - begun, "cpu": time.process_time() - used}


async def bulk(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_many(range(WARM))
    begun, used = time.monotonic(), time.process_time()
    await peer.create_many(range(WARM, WARM + order.count))
    return {"seconds": time.monotonic() - begun, "cpu": time.process_time() - used}


async def fill(peer: Peer, order: Order) -> dict[str, Any]:
    """Create jobs for somebody else to measure."""
    await peer.create_many(range(order.count), due=order.due or None)
    return {}


async def warm(peer: Peer, order: Order) -> dict[str, Any]:
    """Create jobs until every worker has had one, so that all of them have opened, loaded and prepared what they need."""
    made, until = 0, time.monotonic() + order.cap
    while peer.marks.busy() < order.workers:
        if time.monotonic() > until:
            raise TimeoutError(f"{peer.marks.busy()} of {order.workers} workers have begun a job in {order.cap} s")
        await peer.create_many(range(SLOTS - WARM, SLOTS))
        made += WARM
        while peer.marks.handled() < made and time.monotonic() < until:  # noqa: ASYNC110 - other processes, through shared memory
            await asyncio.sleep(0.005)
    return {"made": made}


async def latency(peer: Peer, order: Order) -> dict[str, Any]:
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


async def join(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.join(100)
    times: list[float] = []
    used = time.process_time()
    while len(times) < order.count and sum(times) < order.cap:
        begun = time.monotonic()
        await peer.join(100)
        times.append(time.monotonic() - begun)
    return {"times": times, "cpu": time.process_time() - used}


async def steps(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_workflows(range(order.count))
    return {}


async def commands(peer: Peer, order: Order) -> dict[str, Any]:
    jobs = iter(range(order.count))
    send = peer.by_hand if order.op == "by_hand" else peer.command

    async def loop() -> None:
        for job in jobs:
            await send(job)

    begun = time.monotonic()
    await asyncio.gather(*(loop() for _ in range(order.flight)))
    return {"seconds": time.monotonic() - begun}


async def keyed(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_keyed(range(order.count), keys=order.keys, slots=order.slots)
    return {}


async def spread(peer: Peer, order: Order) -> dict[str, Any]:
    await peer.create_spread(range(order.count), tenants=order.tenants)
    return {}


async def stream(peer: Peer, order: Order) -> dict[str, Any]:
    """Keep some jobs ahead of the workers until told to halt, so that they always have enough and never a mountain."""
    times = peer.marks.times
    while not times[HALT]:
        made = int(times[MADE])
        if made - peer.marks.handled() > AHEAD:
            await asyncio.sleep(0.005)
            continue
        first = made % (SLOTS - SET)
        await peer.create_many(range(first, first + SET))
        times[MADE] = made + SET
    return {}


OPERATIONS: dict[str, Callable[[Peer, Order], Awaitable[dict[str, Any]]]] = {
    "single": single,
    "flight": flight,
    "bulk": bulk,
    "fill": fill,
    "warm": warm,
    "latency": latency,
    "join": join,
    "steps": steps,
    "commands": commands,
    "by_hand": commands,
    "keyed": keyed,
    "spread": spread,
    "stream": stream,
}
