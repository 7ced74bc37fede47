"""Absurd: durable tasks as stored procedures. Here for the fastest single creates of the durable peers, and for its steps."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from bench.protocol import STEPS, Peer, Sizes
from bench.roles import main

CLIENTS = 10
CONCURRENCY = 200
POLL = 0.05


class Absurd(Peer):
    name = "absurd"
    can = ("enqueue", "drain", "latency", "join", "steps", "startup")
    done = "select count(*) from absurd.t_jobs where state = 'completed'"
    sizes = Sizes(flight=4_000, drain=4_000, join=8)
    settings = (
        f"{CLIENTS} clients of one connection each; no bulk create; concurrency {CONCURRENCY}, polls every {POLL} s"
    )

    async def migrate(self) -> None:
        import absurdctl
        import psycopg
        from absurd_sdk import AsyncAbsurd

        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        client = AsyncAbsurd(self.url, queue_name="jobs")
        await client.create_queue("jobs")
        await client.close()

    async def open(self) -> None:
        from absurd_sdk import AsyncAbsurd

        self.clients = [AsyncAbsurd(self.url, queue_name="jobs") for _ in range(CLIENTS)]
        for client in self.clients:
            await client.list_queues()  # two first calls at once would open two connections
        self.turns = itertools.cycle(self.clients)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def create(self, job: int) -> None:
        await self.clients[0].spawn("noop", {"job": job}, queue="jobs")

    async def create_in_flight(self, job: int) -> None:
        await next(self.turns).spawn("noop", {"job": job}, queue="jobs")

    async def create_workflows(self, jobs: range) -> None:
        await self.spawn("workflow", jobs)

    async def spawn(self, name: str, jobs: range) -> list[str]:
        """One at a time on each connection."""
        waiting = iter(jobs)
        made: list[str] = []

        async def loop(client: Any) -> None:
            for job in waiting:
                made.append((await client.spawn(name, {"job": job}, queue="jobs"))["task_id"])

        await asyncio.gather(*(loop(client) for client in self.clients))
        return made

    async def join(self, size: int) -> None:
        for task_id in await self.spawn("noop", range(size)):
            await self.clients[0].await_task_result(task_id)

    async def work(self) -> None:
        from absurd_sdk import AsyncAbsurd

        worker = AsyncAbsurd(self.url, queue_name="jobs")

        @worker.register_task("noop")  # type: ignore[untyped-decorator]
        async def noop(params: dict[str, int], ctx: Any) -> None:
            self.marks.start(params["job"])

        @worker.register_task("workflow")  # type: ignore[untyped-decorator]
        async def workflow(params: dict[str, int], ctx: Any) -> None:
            self.marks.start(params["job"])

            async def step() -> int:
                return 1

            for n in range(STEPS):
                await ctx.step(f"s{n}", step)

        await worker.list_queues()  # connected before the gate opens
        await self.gate()
        await worker.start_worker(concurrency=CONCURRENCY, batch_size=CONCURRENCY, poll_interval=POLL)


if __name__ == "__main__":
    main(Absurd)
