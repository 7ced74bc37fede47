"""The floor: hand-written SQL when everything goes in sets. Less is possible for who keeps less; it is no bound.

One narrow table, one partial index, no guards, events, retries or results. The worker keeps a few lanes;
each lane sends one statement per set, which finishes the set it has just run and claims the next one: one
round trip and one commit for `BATCH` jobs. Single creates that meet in the client share one insert, and
each of them returns only after its own row is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from bench.protocol import STEPS, Peer, Sizes
from bench.roles import main

if TYPE_CHECKING:
    from asyncpg import Connection

BATCH = 250
LANES = 2
LOOK_EVERY = 1.0

TABLES = """
create table jobs (
    id bigint generated always as identity primary key,
    state smallint not null default 0,  -- 0 ready, 1 running, 2 done
    due_at timestamptz not null default now(),
    leased_until timestamptz,
    party bigint,
    steps smallint not null default 0,
    arg int not null
) with (fillfactor = 70);
create index jobs_ready on jobs (due_at, id) where state = 0;
create table parties (id bigint generated always as identity primary key, open int not null);
create table done_steps (job bigint, step smallint, result jsonb, primary key (job, step));
"""

# `id = any(array(...))` keeps one index probe per row; a join here flips to a scan of the whole table.
TURN = """
with ended as (
    update jobs set state = 2 where id = any($1::bigint[]) returning party
), counted as (
    update parties set open = open - ended_in.count
    from (select party, count(*) from ended where party is not null group by party) as ended_in
    where parties.id = ended_in.party
    returning parties.id, parties.open
), rung as (
    select pg_notify('done', id::text) from counted where open = 0
), claimed as (
    update jobs set state = 1, leased_until = now() + interval '60 seconds'
    where id = any(array(
        select id from jobs where state = 0 and due_at <= now()
        order by due_at, id limit $2 for update skip locked))
    returning id, arg, steps
)
select id, arg, steps from claimed union all select -1, count(*)::int, 0 from rung
"""
NEXT_DUE = """
select extract(epoch from due_at - clock_timestamp())::float8 from jobs where state = 0 order by due_at, id limit 1
"""
CREATE_ONE = "with job as (insert into jobs (arg) values ($1)) select pg_notify('ready', '')"
CREATE_SOME = "with job as (insert into jobs (arg) select unnest($1::int[])) select pg_notify('ready', '')"
KEEP_STEPS = """
insert into done_steps (job, step, result)
select job, step, to_jsonb(step) from unnest($1::bigint[], $2::smallint[]) as kept (job, step)
"""
CREATE_PARTY = """
with party as (insert into parties (open) values ($1) returning id),
job as (insert into jobs (party, arg) select party.id, n from party, generate_series(0, $1 - 1) as n)
select id from party
"""


class Floor(Peer):
    name = "floor"
    can = ("enqueue", "bulk", "drain", "latency", "join", "steps", "schedule", "startup", "deep")
    done = "select count(*) from jobs where state = 2 and arg >= 0 and id > (select max(id) from jobs) - 150000"
    sizes = Sizes(single=4_000, flight=20_000, bulk=50_000, drain=100_000, join=50, steps=20_000, deep=100_000)
    fill: ClassVar[Mapping[str, str]] = {
        "finished": "insert into jobs (state, arg) select 2, -1 from generate_series({first}, {last})",
        "future": "insert into jobs (due_at, arg) select now() + interval '1 day', -1 from generate_series({first}, {last})",
    }
    channels = ("ready",)
    settings = f"asyncpg, uvloop, batches of {BATCH}, {LANES} lanes, LISTEN"
    uvloop = True

    async def connect(self) -> Connection[Any]:
        import asyncpg

        return await asyncpg.connect(self.url)

    async def migrate(self) -> None:
        connection = await self.connect()
        await connection.execute(TABLES)
        await connection.close()

    async def open(self) -> None:
        self.line = await self.connect()
        self.ear = await self.connect()
        self.create_one = await self.line.prepare(CREATE_ONE)
        self.create_some = await self.line.prepare(CREATE_SOME)
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.flushing: asyncio.Task[None] | None = None
        self.parties: dict[int, asyncio.Future[None]] = {}
        await self.ear.add_listener("done", lambda *call: self.parties.pop(int(call[3])).set_result(None))

    async def close(self) -> None:
        await self.line.close()
        await self.ear.close()

    async def create(self, job: int) -> None:
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((job, durable))
        if self.flushing is None:
            self.flushing = asyncio.ensure_future(self.flush())
        await durable

    async def flush(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting, []
            if len(batch) == 1:
                await self.create_one.fetch(batch[0][0])
            else:
                await self.create_some.fetch([job for job, _ in batch])
            for _, durable in batch:
                durable.set_result(None)
        self.flushing = None

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        columns, records = ["arg"], [(job,) for job in jobs]
        if due is not None:
            at = datetime.fromtimestamp(due, UTC)
            columns, records = ["arg", "due_at"], [(job, at) for job in jobs]  # type: ignore[misc]
        await self.line.copy_records_to_table("jobs", records=records, columns=columns)
        await self.line.execute("select pg_notify('ready', '')")

    async def create_workflows(self, jobs: range) -> None:
        records = [(job, STEPS) for job in jobs]
        await self.line.copy_records_to_table("jobs", records=records, columns=["arg", "steps"])

    async def join(self, size: int) -> None:
        party = await self.line.fetchval(CREATE_PARTY, size)
        ended = self.parties[party] = asyncio.get_running_loop().create_future()
        await self.line.execute("select pg_notify('ready', '')")
        await ended

    async def work(self) -> None:
        ear = await self.connect()
        self.ready, self.more = asyncio.Event(), asyncio.Event()
        await ear.add_listener("ready", lambda *_: self.ready.set())
        lanes = [await self.connect() for _ in range(LANES)]
        turns = [await lane.prepare(TURN) for lane in lanes]
        keeper = await self.connect()
        self.keep_steps = await keeper.prepare(KEEP_STEPS)
        self.unkept: list[tuple[int, int, asyncio.Future[None]]] = []
        self.keeping: asyncio.Task[None] | None = None
        await self.gate()
        self.more.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.run_first(lanes[0], turns[0]))
            for turn in turns[1:]:
                group.create_task(self.run_spare(turn))

    async def handle(self, job: int, row: int, steps: int) -> None:
        self.marks.start(job)
        for step in range(steps):
            kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.unkept.append((row, step, kept))
            if self.keeping is None:
                self.keeping = asyncio.ensure_future(self.keep())
            await kept

    async def keep(self) -> None:
        """Write the steps that have come together; what comes meanwhile goes with the next set."""
        while self.unkept:
            batch, self.unkept = self.unkept, []
            await self.keep_steps.fetch([row for row, _, _ in batch], [step for _, step, _ in batch])
            for _, _, kept in batch:
                kept.set_result(None)
        self.keeping = None

    async def run_sets(self, turn: Any) -> None:
        """Claim, run and finish sets until nothing is ready."""
        ended: list[int] = []
        while rows := [row for row in await turn.fetch(ended, BATCH) if row[0] >= 0]:
            await asyncio.gather(*(self.handle(row[1], row[0], row[2]) for row in rows))
            ended = [row[0] for row in rows]
            if len(rows) == BATCH:
                self.more.set()

    async def run_first(self, lane: Connection[Any], turn: Any) -> None:
        next_due = await lane.prepare(NEXT_DUE)
        while True:
            await self.run_sets(turn)
            wait = await next_due.fetchval()
            if wait is None or wait > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ready.wait(), min(LOOK_EVERY, wait or LOOK_EVERY))
                self.ready.clear()

    async def run_spare(self, turn: Any) -> None:
        """Help only while there is more than one set, so that a lone job costs one claim."""
        while True:
            await self.more.wait()
            self.more.clear()
            await self.run_sets(turn)


if __name__ == "__main__":
    main(Floor)
