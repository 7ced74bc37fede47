"""Taskiq on Redis streams: deliveries are acknowledged, but what Redis holds is on disk only now and then. Not durable."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from bench.protocol import Peer, Sizes
from bench.roles import main

CONCURRENCY = 100


class Taskiq(Peer):
    name = "taskiq"
    store = "redis"
    durable = False
    can = ("enqueue", "drain", "latency", "join", "startup")
    done = "1"  # the database of results
    sizes = Sizes(drain=8_000, join=20)
    settings = f"RedisStreamBroker, results in Redis with its default persistence, {CONCURRENCY} at once, uvloop"
    uvloop = True

    def make(self) -> Any:
        from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

        results = RedisAsyncResultBackend(f"{self.url}?db=1")
        broker = RedisStreamBroker(f"{self.url}?db=0").with_result_backend(results)

        async def noop(job: int) -> int:
            self.marks.start(job)
            return job

        self.noop = broker.task(task_name="noop")(noop)
        return broker

    async def migrate(self) -> None:
        """Nothing to make."""

    async def open(self) -> None:
        self.broker = self.make()
        await self.broker.startup()

    async def close(self) -> None:
        await self.broker.shutdown()

    async def create(self, job: int) -> None:
        await self.noop.kiq(job)

    async def join(self, size: int) -> None:
        tasks = await asyncio.gather(*(self.noop.kiq(job) for job in range(size)))
        await asyncio.gather(*(task.wait_result(check_interval=0.02) for task in tasks))

    async def work(self) -> None:
        from taskiq.api import run_receiver_task

        broker = self.make()
        broker.is_worker_process = True
        await broker.startup()
        await self.gate()
        try:
            await run_receiver_task(broker, max_async_tasks=CONCURRENCY, run_startup=False)
        finally:
            os._exit(0)  # it would wait for the next delivery


if __name__ == "__main__":
    main(Taskiq)
