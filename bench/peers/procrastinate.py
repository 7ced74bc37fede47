"""Procrastinate: one fetch and one finish per job, woken by LISTEN and by polling. It cannot await results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from bench.protocol import Peer, Sizes
from bench.roles import main

CONCURRENCY = 30
POOL = 20
POLL = 0.1
CHUNK = 1_000
NEWEST = 20_000


class Procrastinate(Peer):
    name = "procrastinate"
    can = ("enqueue", "bulk", "drain", "latency", "schedule", "startup", "deep")
    # What is counted came last: no look reads a million rows that were there before.
    done = f"""
        select count(*) from procrastinate_jobs
        where status = 'succeeded' and task_name = 'noop' and id > (select max(id) from procrastinate_jobs) - {NEWEST}"""
    sizes = Sizes(single=1_000, flight=2_000, drain=4_000, schedule=5_000, deep=250)
    fill: ClassVar[Mapping[str, str]] = {
        "finished": """
            set session_replication_role = replica;
            insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
            select 'default', 'old', '{"job": 0}', 'succeeded', 1 from generate_series({first}, {last})""",
        "future": """
            set session_replication_role = replica;
            insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
            select 'default', 'noop', '{"job": 0}', now() + interval '1 day' from generate_series({first}, {last})""",
    }
    channels = ("procrastinate_any_queue_v1",)
    settings = f"concurrency {CONCURRENCY}, pool of {POOL}, polling every {POLL} s (default 5)"

    def make(self) -> Any:
        import procrastinate

        connector = procrastinate.PsycopgConnector(conninfo=self.url, min_size=POOL, max_size=POOL)
        app = procrastinate.App(connector=connector)

        async def noop(job: int) -> None:
            self.marks.start(job)

        self.noop = app.task(name="noop")(noop)
        return app

    async def migrate(self) -> None:
        app = self.make()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        self.app = self.make()
        await self.app.open_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def create(self, job: int) -> None:
        await self.noop.defer_async(job=job)

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        task = self.noop if due is None else self.noop.configure(schedule_at=datetime.fromtimestamp(due, UTC))
        for begin in range(0, len(jobs), CHUNK):
            await task.batch_defer_async(*({"job": job} for job in jobs[begin : begin + CHUNK]))

    async def work(self) -> None:
        app = self.make()
        async with app.open_async():
            await self.gate()
            await app.run_worker_async(
                concurrency=CONCURRENCY, fetch_job_polling_interval=POLL, install_signal_handlers=False
            )


if __name__ == "__main__":
    main(Procrastinate)
