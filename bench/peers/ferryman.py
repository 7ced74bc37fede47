"""Ferryman, with every guarantee on: fence, guard, events, leases, durable claims."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from bench.protocol import Peer, Sizes, main

CONCURRENCY = 250


class Ferryman(Peer):
    name = "ferryman"
    can = ("enqueue", "bulk", "drain", "latency", "join", "schedule", "startup")
    done = "select count(*) from ferryman.tasks where state = 'succeeded'"
    sizes = Sizes(flight=20_000, bulk=50_000, drain=50_000, join=30)
    settings = f"concurrency {CONCURRENCY}, uvloop"
    uvloop = True

    def make(self) -> Any:
        import ferryman

        app = ferryman.Ferryman(database_url=self.url)

        async def noop(job: int) -> None:
            self.marks.start(job)

        app.task(name="noop")(noop)
        return app

    async def migrate(self) -> None:
        await self.make().migrate()

    async def open(self) -> None:
        self.app = self.make()
        await self.app.open()

    async def close(self) -> None:
        await self.app.close()

    async def create(self, job: int) -> None:
        await self.app.tasks.create("noop", {"job": job})

    async def create_many(self, jobs: range, *, due: float | None = None) -> Any:
        at = None if due is None else datetime.fromtimestamp(due, UTC)
        return await self.app.tasks.create_many("noop", [{"job": job} for job in jobs], at=at)

    async def join(self, size: int) -> None:
        handles = await self.create_many(range(size))
        await asyncio.gather(*(handle.result() for handle in handles))

    async def work(self) -> None:
        app = self.make()
        async with app:
            await self.gate()
            await app.work(concurrency=CONCURRENCY)


if __name__ == "__main__":
    main(Ferryman)
