"""PgQueuer: claims in batches, buffers its completions, moves finished jobs to a log table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from bench.protocol import Peer, Sizes
from bench.roles import main

BATCH = 100
WORKER_POOL = 5
CLIENT_POOL = 10
CHUNK = 1_000


class PgQueuer(Peer):
    name = "pgqueuer"
    can = ("enqueue", "bulk", "drain", "latency", "join", "schedule", "startup", "deep")
    done = "select count(*) from pgqueuer_log where status = 'successful'"
    sizes = Sizes(bulk=50_000, drain=50_000)
    fill: ClassVar[Mapping[str, str]] = {
        "finished": """
            insert into pgqueuer_log (job_id, status, entrypoint, priority, aggregated)
            select n, 'deleted', 'noop', 0, true from generate_series(-{last}, -{first}) as n""",
        "future": """
            insert into pgqueuer (priority, entrypoint, status, payload, execute_after, queue_manager_id)
            select 0, 'noop', 'queued', '0', now() + interval '1 day', null from generate_series({first}, {last})""",
    }
    channels = ("ch_pgqueuer",)
    settings = f"asyncpg pool of {WORKER_POOL}, uvloop, batch_size {BATCH} (default 10), durable"
    uvloop = True

    async def migrate(self) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(self.url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgPoolDriver
        from pgqueuer.queries import Queries

        self.pool = await asyncpg.create_pool(self.url, min_size=CLIENT_POOL, max_size=CLIENT_POOL)
        self.driver = AsyncpgPoolDriver(self.pool)
        self.queries = Queries(self.driver)

    async def close(self) -> None:
        self.pool.terminate()

    async def create(self, job: int) -> None:
        await self.queries.enqueue("noop", b"%d" % job)

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        for begin in range(0, len(jobs), CHUNK):
            chunk = jobs[begin : begin + CHUNK]
            later = None if due is None else [timedelta(seconds=due - time.time())] * len(chunk)
            await self.enqueue(chunk, later)

    async def enqueue(self, jobs: range, later: list[timedelta] | None = None) -> list[Any]:
        ids: list[Any] = await self.queries.enqueue(
            ["noop"] * len(jobs), [b"%d" % job for job in jobs], [0] * len(jobs), later
        )
        return ids

    async def join(self, size: int) -> None:
        from pgqueuer.core.completion import CompletionWatcher

        ids = await self.enqueue(range(size))
        async with CompletionWatcher(self.driver, queries=self.queries) as watcher:
            await asyncio.gather(*(watcher.wait_for(number) for number in ids))

    async def work(self) -> None:
        import asyncpg
        from pgqueuer import PgQueuer as Queuer

        pool = await asyncpg.create_pool(self.url, min_size=WORKER_POOL, max_size=WORKER_POOL)
        queuer = Queuer.from_asyncpg_pool(pool)

        async def noop(job: Any) -> None:
            self.marks.start(int(job.payload))

        queuer.entrypoint("noop")(noop)
        await self.gate()
        await queuer.run(batch_size=BATCH)


if __name__ == "__main__":
    main(PgQueuer)
