"""DBOS: durable workflows; its queues are polled, and every step and every result is a row, written in its own transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from bench.protocol import STEPS, Peer, Sizes
from bench.roles import main

POLL = 0.05
POOL = 20
# Without a bound the first worker takes the whole queue, and a second has nothing to do.
CONCURRENCY = 100


class Dbos(Peer):
    name = "dbos"
    can = ("enqueue", "bulk", "drain", "latency", "join", "steps", "schedule", "startup", "deep")
    # What a database was filled with is as old as can be: no look reads a million of such rows.
    done = """
        select count(*) from dbos.workflow_status
        where status = 'SUCCESS' and name in ('noop', 'workflow') and created_at > 1"""
    sizes = Sizes(single=500, flight=1_000, bulk=2_000, drain=3_000, schedule=3_000, steps=200, join=8, deep=1_000)
    fill: ClassVar[Mapping[str, str]] = {
        "finished": """
            insert into dbos.workflow_status (workflow_uuid, status, name, queue_name, created_at, updated_at, priority,
                inputs, output, application_version, executor_id)
            select 'old' || n, 'SUCCESS', 'old', 'jobs', 1, 1, 0, '{}', 'null', 'bench', '0'
            from generate_series({first}, {last}) as n""",
        "future": """
            insert into dbos.workflow_status (workflow_uuid, status, name, queue_name, created_at, updated_at, priority,
                inputs, serialization, delay_until_epoch_ms)
            select 'later' || n, 'DELAYED', 'noop', 'jobs', 1, 1, 0, '{}', 'portable_json', 4102444800000
            from generate_series({first}, {last}) as n""",
    }
    settings = (
        f"polls every {POLL} s (default 1), worker_concurrency {CONCURRENCY}, pool of {POOL}, async workflows;"
        " in bulk: single creates in one transaction, for there is no call"
    )

    def make(self, *, migrate: bool) -> Any:
        from dbos import DBOS

        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.url,
                "application_version": "bench",
                "executor_id": str(self.marks.worker),
                "sys_db_pool_size": POOL,
                "log_level": "ERROR",
                "run_migrations": migrate,
                "run_admin_server": False,
            }
        )

        async def noop(job: int) -> None:
            self.marks.start(job)

        async def step(n: int) -> int:
            return n

        async def workflow(job: int) -> None:
            self.marks.start(job)
            for n in range(STEPS):
                await kept(n)

        async def parent(size: int) -> None:
            handles = [await DBOS.enqueue_workflow_async("jobs", child, job) for job in range(size)]
            for handle in handles:
                await handle.get_result(polling_interval_sec=0.02)

        kept = DBOS.step(name="step")(step)
        child = DBOS.workflow(name="noop")(noop)
        DBOS.workflow(name="workflow")(workflow)
        DBOS.workflow(name="parent")(parent)
        return DBOS

    async def migrate(self) -> None:
        dbos = self.make(migrate=True)

        def register() -> None:
            dbos.launch()
            dbos.register_queue("jobs", polling_interval_sec=POLL, worker_concurrency=CONCURRENCY)
            dbos.register_queue("parents", polling_interval_sec=POLL)
            os._exit(0)  # its threads would go on

        await asyncio.to_thread(register)

    async def open(self) -> None:
        from dbos import DBOSClient

        self.client = DBOSClient(system_database_url=self.url, system_database_pool_size=POOL)

    async def close(self) -> None:
        self.client.destroy()

    async def create(self, job: int) -> None:
        await self.client.enqueue_async({"workflow_name": "noop", "queue_name": "jobs"}, job)

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        await asyncio.to_thread(self.enqueue, jobs, "noop", due)

    async def create_workflows(self, jobs: range) -> None:
        await asyncio.to_thread(self.enqueue, jobs, "workflow", None)

    def enqueue(self, jobs: range, name: str, due: float | None) -> None:
        options: dict[str, Any] = {"workflow_name": name, "queue_name": "jobs"}
        with self.client._sys_db.engine.begin() as connection:  # noqa: SLF001 - a transaction of its own pool
            for job in jobs:
                if due is not None:
                    options["delay_seconds"] = due - time.time()
                self.client.enqueue_in_transaction(connection, options, job)

    async def join(self, size: int) -> None:
        handle = await self.client.enqueue_async({"workflow_name": "parent", "queue_name": "parents"}, size)
        await handle.get_result(polling_interval_sec=0.01)

    async def work(self) -> None:
        dbos = self.make(migrate=False)
        await self.gate()
        # It opens its connections and begins to work in one call.
        await asyncio.to_thread(dbos.launch)
        try:
            await asyncio.Event().wait()
        finally:
            os._exit(0)  # its threads would go on


if __name__ == "__main__":
    main(Dbos)
