"""Chancy: fetches in batches, and keeps completions in memory for up to a second before it writes them."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from bench.protocol import Marks, Peer, Sizes
from bench.roles import main

CONCURRENCY = 1_000
POLL = 1
POOL = 10
CHUNK = 1_000

marks: list[Marks] = []


async def noop(*, job: int) -> None:
    """Stand where Chancy finds it again: it stores the name of a job's function."""
    marks[0].start(job)


class Chancy(Peer):
    name = "chancy"
    can = ("enqueue", "bulk", "drain", "latency", "join", "schedule", "startup")
    done = "select count(*) from chancy_jobs where state = 'succeeded'"
    sizes = Sizes(single=1_000, flight=2_000, join=5)
    channels = ("chancy_events",)
    settings = f"AsyncExecutor, concurrency {CONCURRENCY}, polls every {POLL} s (default 5) and eagerly, pool of {POOL}"

    def make(self) -> Any:
        import chancy

        marks[:] = [self.marks]
        self.job = chancy.job(queue="jobs")(noop).job
        log = logging.getLogger("chancy")
        log.setLevel(logging.ERROR)
        return chancy.Chancy(self.url, log=log, min_connection_pool_size=2, max_connection_pool_size=POOL)

    async def migrate(self) -> None:
        from chancy import Queue

        async with self.make() as app:
            await app.migrate()
            await app.declare(
                Queue(
                    name="jobs", concurrency=CONCURRENCY, polling_interval=POLL, eager_polling=True,
                    executor="chancy.executors.asyncex.AsyncExecutor",
                )
            )  # fmt: skip

    async def open(self) -> None:
        self.app = self.make()
        await self.app.pool.open()

    async def close(self) -> None:
        await self.app.pool.close()

    async def create(self, job: int) -> None:
        await self.app.push(self.job.with_kwargs(job=job))

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        await self.push(jobs, due)

    async def push(self, jobs: range, due: float | None = None) -> list[Any]:
        made = [self.job.with_kwargs(job=job) for job in jobs]
        if due is not None:
            made = [each.with_scheduled_at(datetime.fromtimestamp(due, UTC)) for each in made]
        return [one async for some in self.app.push_many(made, batch_size=CHUNK) for one in some]

    async def join(self, size: int) -> None:
        await self.app.wait_for_jobs(await self.push(range(size)), interval=0.02)

    async def work(self) -> None:
        from chancy import Worker

        async with self.make() as app:
            await self.gate()
            async with Worker(app) as worker:
                await worker.wait_for_shutdown()


if __name__ == "__main__":
    main(Chancy)
