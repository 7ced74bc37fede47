"""Ferryman, with every guarantee on: fence, guard, events, leases, durable claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from bench.protocol import STEPS, Peer, Sizes
from bench.roles import main

CONCURRENCY = 500  # two lanes of 250, the sets that the floor works in

# What a worker that only has tasks listens to, and how it says so (kernel/doorbell_pg.py): without that a create rings nobody.
CHANNELS = ("ferryman_doorbell", *(f"ferryman_doorbell_{topic}" for topic in ("cancel", "due", "queues", "ready")))
PRESENCE = f"""
select pg_advisory_lock_shared(hashtextextended(channel, 0))
from unnest('{{{",".join(CHANNELS)}}}'::text[]) as channel
"""

# Older than every id that a create makes, so that counting completions never reads the rows of a fill. The values are what the
# product leaves: tests/sql/test_bench_fill.py compares.
FILL = """
insert into ferryman.tasks (id, name, payload, timeout_ms, max_retries, created_at, updated_at, ends_at, {columns})
select lpad(to_hex(n), 32, '0')::uuid, 'noop', jsonb_build_object('job', n % 200000), 300000, 3, now(), now(),
    now() + interval '30 days', {values}
from generate_series({{first}}, {{last}}) as n;
"""
LOG = """
insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)
select now(), lpad(to_hex(n), 32, '0')::uuid, 1, 'default', 'task', from_state, to_state
from generate_series({{first}}, {{last}}) as n, (values {moves}) as move (from_state, to_state);
"""
# Of a row that has been moved the guard would ask how it came there.
UNGUARDED = "set session_replication_role = replica;"


def fill(moves: str, **columns: str) -> str:
    rows = FILL.format(columns=", ".join(columns), values=", ".join(columns.values()))
    return rows + LOG.format(moves=moves)


FILLS = {
    "finished": UNGUARDED
    + fill(
        "(null, 'ready'), ('ready', 'running'), ('running', 'succeeded')",
        state="'succeeded'", due_at="now()", started_at="now()", finished_at="now()", epoch="1", lease_count="1",
    ),
    "future": fill(
        "(null, 'pending')",
        state="'pending'", due_at="now() + interval '1 day'", wake_at="now() + interval '1 day'",
        schedule_type="'at'", scheduled_at="now() + interval '1 day'",
    ),
    "retrying": UNGUARDED
    + fill(
        "(null, 'ready'), ('ready', 'running'), ('running', 'ready')",
        state="'ready'", due_at="now() + interval '1 day'", wake_at="now() + interval '1 day'", started_at="now()",
        epoch="1", lease_count="1", attempt="2", last_error_code="'TASK_EXECUTION_FAILED'", last_error_reason="'it broke'",
    ),
    "ready": fill("(null, 'ready')", state="'ready'", due_at="now()", rank="now()"),
}  # fmt: skip


class Ferryman(Peer):
    name = "ferryman"
    can = ("enqueue", "bulk", "drain", "latency", "join", "steps", "schedule", "startup", "deep", "gates", "ours")
    done = """
        select count(*) from ferryman.tasks
        where id > '01000000-0000-0000-0000-000000000000' and state = 'succeeded'"""
    done_commands = "select count(*) from ferryman.command_inbox where status = 'COMPLETED'"
    sizes = Sizes(
        flight=20_000, bulk=50_000, drain=50_000, join=30, steps=5_000, commands=5_000, gates=10_000, deep=50_000
    )
    fill: ClassVar[Mapping[str, str]] = FILLS
    channels = CHANNELS
    presence = PRESENCE
    pace = 0.002  # kernel/doorbell_pg.py
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
        self.do_by_hand(app)
        return app

    def do_by_hand(self, app: Any) -> None:
        """Register what a command with three capabilities does, as plain tasks."""

        async def work(job: int) -> dict[str, int]:
            return {"job": job}

        async def request(job: int) -> None:
            self.marks.start(job)
            # One by one: creates of many handlers share a statement, which sets of three do not.
            await asyncio.gather(*(app.tasks.create("by_hand.work", {"job": job}) for _ in range(3)))

        app.task(name="by_hand.work")(work)
        app.task(name="by_hand.request")(request)

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

    async def by_hand(self, job: int) -> None:
        await self.app.tasks.create("by_hand.request", {"job": job})

    async def create_spread(self, jobs: range, *, tenants: int) -> None:
        """One call for each queue and tenant, a few at a time."""
        lanes = [(queue, f"tenant{n}") for queue in self.names() for n in range(tenants)]
        waiting = iter(enumerate(lanes))

        async def loop() -> None:
            for number, (queue, tenant) in waiting:
                some = [{"job": job} for job in jobs[number :: len(lanes)]]
                await self.app.of(tenant).tasks.create_many("noop", some, queue=queue)

        await asyncio.gather(*(loop() for _ in range(10)))

    def names(self) -> list[str]:
        return ["default", *(f"queue{n}" for n in range(1, self.queues))]

    async def create_keyed(self, jobs: range, *, keys: int, slots: int) -> None:
        await self.app.queues.set("default", new=True, key_concurrency=slots)
        await self.app.tasks.create_many("keyed", [{"job": job, "key": job % keys} for job in jobs])

    async def work(self) -> None:
        app = self.make()
        async with app:
            await self.gate()
            await app.work(concurrency=CONCURRENCY, queues=self.names())


if __name__ == "__main__":
    main(Ferryman)
