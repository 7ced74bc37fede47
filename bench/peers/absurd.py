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
    sizes = Sizes(flight=4_000, drain=3_000, join=4)
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
        self.turns = itertools.cycle(self.clients)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def create(self, job: int) -> None:
        await next(self.turns).spawn("noop", {"job": job}, queue="jobs")

    async def create_workflows(self, jobs: range) -> None:
        waiting = iter(jobs)

        async def loop(client: Any) -> None:
            for job in waiting:
                await client.spawn("workflow", {"job": job}, queue="jobs")

        await asyncio.gather(*(loop(client) for client in self.clients))

    async def join(self, size: int) -> None:
        made = await asyncio.gather(
            *(next(self.turns).spawn("noop", {"job": job}, queue="jobs") for job in range(size))
        )
        for each in made:
            await self.clients[0].await_task_result(each["task_id"])

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
