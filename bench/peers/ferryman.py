"""Ferryman, with every guarantee on: fence, guard, events, leases, durable claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from bench.protocol import STEPS, Peer, Sizes, main

CONCURRENCY = 250

# Older than every id that a create makes, so that counting completions never reads the rows of a fill.
FILL = """
insert into ferryman.tasks
    (id, name, payload, timeout_ms, max_retries, attempt, created_at, updated_at, ends_at, due_at, state, wake_at, finished_at)
select lpad(to_hex(n), 32, '0')::uuid, 'noop', '{{"job": 0}}', 300000, 3, {attempt}, now(), now(), now() + interval '30 days',
    now() + interval '1 day', '{state}', {wake_at}, {finished_at}
from generate_series(1, {{rows}}) as n;
"""
LOG = """
insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)
select now(), lpad(to_hex(n), 32, '0')::uuid, 1, 'default', 'task', from_state, to_state
from generate_series(1, {rows}) as n,
    (values (null, 'ready'), ('ready', 'running'), ('running', 'succeeded')) as move (from_state, to_state);
"""


class Ferryman(Peer):
    name = "ferryman"
    can = ("enqueue", "bulk", "drain", "latency", "join", "steps", "commands", "schedule", "startup", "deep", "gates")
    done = """
        select count(*) from ferryman.tasks
        where id > '01000000-0000-0000-0000-000000000000' and state = 'succeeded'"""
    done_commands = "select count(*) from ferryman.command_inbox where status = 'COMPLETED'"
    sizes = Sizes(
        flight=20_000, bulk=50_000, drain=50_000, join=30, steps=5_000, commands=5_000, gates=10_000, deep=50_000
    )
    fill: ClassVar[Mapping[str, str]] = {
        "finished": "set session_replication_role = replica;"
        + FILL.format(state="succeeded", attempt=1, wake_at="null", finished_at="now()")
        + LOG,
        "future": FILL.format(state="pending", attempt=1, wake_at="now() + interval '1 day'", finished_at="null"),
        "retrying": FILL.format(state="ready", attempt=2, wake_at="now() + interval '1 day'", finished_at="null"),
    }
    settings = f"concurrency {CONCURRENCY}, uvloop"
    uvloop = True

    def make(self) -> Any:
        import ferryman

        app = ferryman.Ferryman(database_url=self.url)

        async def noop(job: int) -> None:
            self.marks.start(job)

        async def step(n: int) -> int:
            return n

        async def workflow(ctx: ferryman.Context, job: int) -> None:
            self.marks.start(job)
            for n in range(STEPS):
                await ctx.step(f"s{n}", step, n)

        # Their hints are local names here, which nobody else could resolve.
        workflow.__annotations__["ctx"] = ferryman.Context
        app.task(name="noop")(noop)
        app.task(name="workflow")(workflow)

        async def keyed(job: int, key: int) -> None:
            self.marks.start(job)

        app.task(name="keyed", limit_key="k{key}")(keyed)
        self.direct(app)
        return app

    def direct(self, app: Any) -> None:
        """Register a command with three capabilities, and its capabilities."""
        import ferryman

        kinds = ("Character.Design.Generation", "Character.Relationship.Analysis", "Character.Arc.Design")

        async def request(command: ferryman.Command) -> list[ferryman.Message]:
            self.marks.start(command.payload["job"])
            return [ferryman.Message(kind, command.payload) for kind in kinds]

        async def work(job: int) -> dict[str, int]:
            return {"job": job}

        app.on_command("Character.Request")(request)
        for kind in kinds:
            app.capability(kind)(work)

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

    async def create_workflows(self, jobs: range) -> None:
        await self.app.tasks.create_many("workflow", [{"job": job} for job in jobs])

    async def command(self, job: int) -> None:
        await self.app.commands.send("Character.Request", {"job": job}, session_id="novel")

    async def create_keyed(self, jobs: range, *, keys: int, slots: int) -> None:
        await self.app.queues.set("default", new=True, key_concurrency=slots)
        await self.app.tasks.create_many("keyed", [{"job": job, "key": job % keys} for job in jobs])

    async def work(self) -> None:
        app = self.make()
        async with app:
            await self.gate()
            await app.work(concurrency=CONCURRENCY)


if __name__ == "__main__":
    main(Ferryman)
