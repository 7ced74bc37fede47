"""Celery on Redis. Not durable: Redis keeps what it holds now and then, and a job is acknowledged before it runs."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from bench.protocol import GO, IN_FLIGHT, READY, Peer, Sizes
from bench.roles import main

PROCESSES = 2
PREFETCH = 50


class Celery(Peer):
    name = "celery"
    store = "redis"
    durable = False
    can = ("enqueue", "drain", "latency", "join", "schedule", "startup")
    done = "1"  # the database of results
    sizes = Sizes(single=2_000, flight=3_000, drain=5_000, schedule=5_000, join=10)
    settings = f"broker and results in Redis with its default persistence, {PROCESSES} processes, prefetch x {PREFETCH}"

    def make(self) -> Any:
        import celery

        place = self.url.removeprefix("unix://")
        app = celery.Celery(
            "bench", broker=f"redis+socket://{place}?virtual_host=0", backend=f"redis+socket://{place}?virtual_host=1"
        )
        app.conf.worker_prefetch_multiplier = PREFETCH
        app.conf.broker_pool_limit = IN_FLIGHT
        app.conf.worker_hijack_root_logger = False

        def noop(job: int) -> int:
            self.marks.start(job)
            return job

        self.noop = app.task(name="noop")(noop)
        return app

    async def migrate(self) -> None:
        """Nothing to make."""

    async def open(self) -> None:
        self.app = self.make()
        self.threads = ThreadPoolExecutor(IN_FLIGHT)

    async def close(self) -> None:
        self.threads.shutdown()

    async def create(self, job: int) -> None:
        self.noop.delay(job)

    async def create_in_flight(self, job: int) -> None:
        await asyncio.get_running_loop().run_in_executor(self.threads, self.noop.delay, job)

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        at = None if due is None else datetime.fromtimestamp(due, UTC)
        with self.app.producer_pool.acquire(block=True) as producer:
            for job in jobs:
                self.noop.apply_async((job,), eta=at, producer=producer)

    async def join(self, size: int) -> None:
        from celery import group

        result = group(self.noop.s(job) for job in range(size)).apply_async()
        result.get(interval=0.005)
        result.forget()

    async def work(self) -> None:
        app = self.make()
        from celery import signals

        def wait(**_: Any) -> None:
            self.marks.times[READY + self.marks.worker] = time.monotonic()
            while self.marks.times[GO] == 0.0:
                time.sleep(0.001)

        signals.worker_init.connect(wait, weak=False)
        # It takes the signals of the main thread for itself.
        app.worker_main([
            "worker", "-P", "prefork", "-c", str(PROCESSES), "-l", "error", "-n", f"w{self.marks.worker}@bench",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        ])  # fmt: skip
        os._exit(0)


if __name__ == "__main__":
    main(Celery)
