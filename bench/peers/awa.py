"""Awa: a runtime in Rust under handlers in Python; it appends rows and never updates them. It cannot await results."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from datetime import UTC, datetime
from typing import Any

from bench.protocol import Peer, Sizes
from bench.roles import main

CONCURRENCY = 500
POOL = 10


@dataclasses.dataclass
class Noop:
    job: int


class Awa(Peer):
    name = "awa"
    can = ("enqueue", "bulk", "drain", "latency", "schedule", "startup")
    done = """
        select coalesce((select sum(completed_count) from awa.receipt_completion_batches), 0)::bigint
             + coalesce((select sum(pruned_completed_count) from awa.queue_terminal_rollups), 0)::bigint
             + (select count(*) from awa.done_entries)"""
    # More than some 3,000 due at one instant never start in 0.6.9.
    sizes = Sizes(single=2_000, flight=4_000, bulk=50_000, drain=20_000, schedule=3_000)
    channels = ("awa:jobs",)
    settings = f"queue storage, {CONCURRENCY} at once, pool of {POOL}, polls every 0.2 s (default) and listens"

    def make(self) -> Any:
        import awa

        # Its driver wants a host, though the address of the socket is given.
        return awa.AsyncClient(self.url.replace("postgres@/", "postgres@localhost/"), max_connections=POOL)

    async def migrate(self) -> None:
        client = self.make()
        await client.migrate()
        await client.install_queue_storage()
        await client.close()

    async def open(self) -> None:
        self.client = self.make()

    async def close(self) -> None:
        await self.client.close()

    async def create(self, job: int) -> None:
        await self.client.insert(Noop(job), queue="jobs")

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        at = {} if due is None else {"run_at": datetime.fromtimestamp(due, UTC)}
        await self.client.enqueue_many_copy([Noop(job) for job in jobs], queue="jobs", **at)

    async def work(self) -> None:
        client = self.make()

        async def noop(job: Any) -> None:
            self.marks.start(job.args.job)

        client.task(Noop, queue="jobs")(noop)
        await self.gate()
        await client.start([("jobs", CONCURRENCY)])
        try:
            await asyncio.Event().wait()
        finally:
            os._exit(0)  # its threads would go on


if __name__ == "__main__":
    main(Awa)
