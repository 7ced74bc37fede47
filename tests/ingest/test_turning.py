"""One statement turns the page: it ends a batch, writes its records and begins the next (I6, I9, ADR 38)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.ingest.model import Claimed, Records
from ferryman.ingest.ports import Allow, Answer, Decision, GateKey, Item, Page, Reject, Request, WaitUntil
from ferryman.ingest.sinks.call import CallSink
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.store import batches, tasks
from ferryman.ingest.store.batches import Birth, Finished
from ferryman.ingest.work import desk, walk
from ferryman.ingest.work.executor import pool_of_runs
from ferryman.kernel import errors, ids
from ferryman.kernel.db import SCHEMA, Row
from ferryman.kernel.pool import Database, Session
from ferryman.kernel.retry import Backoff
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour, hold
from tests.ingest.test_fences import MINUTE, begun, everything, two_begun

PAGES = 6
DONE = Finished("page:2", has_next=True, records=1, requests=1, watermark=None, covered=None, stats={})


class Heard:
    """A pool that writes down what goes over; every `losing`th answer is lost after its statement has committed."""

    def __init__(self, pool: Database, *, losing: int = 0, watch: "Watch | None" = None) -> None:
        self._pool = pool
        self._losing = losing
        self._watch = watch
        self.said: list[str] = []
        self.transactions = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        async with self._pool.session() as tx:
            yield Ear(tx, self.said)
        if self._watch is not None:
            self._watch.now += 1.0
        if self._losing and len(self.said) % self._losing == 0:
            raise errors.DatabaseUnavailable("The answer was lost.")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        self.transactions += 1
        async with self._pool.transaction() as tx:
            yield tx


class Ear:
    """A session that is listened to."""

    def __init__(self, tx: Session, said: list[str]) -> None:
        self._tx, self._said, self.schema = tx, said, tx.schema

    async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
        self._said.append(query.partition("\n")[0])
        return await self._tx.fetch(query, *args)


class Watch:
    """What a walk takes the time by, if every statement is to take a second."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now


class Guide:
    """A gate that says what it is told to, and then lets everybody pass; told nothing, it says nothing."""

    def __init__(self, *words: Decision | Exception | None) -> None:
        self._words = list(words)
        self.asked = 0
        self.silent = asyncio.Event()

    async def acquire(self, key: GateKey) -> Decision:
        self.asked += 1
        word = self._words.pop(0) if self._words else Allow()
        if isinstance(word, Exception):
            raise word
        if word is None:
            self.silent.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody ends it")
        return word

    def told(self, key: GateKey, answer: Answer) -> None:
        """Learn nothing."""


async def written_once(here: Harbour) -> None:
    assert await here.sunk() == [(n, f"v{n}") for n in range(10 * PAGES)]
    assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
    assert len(here.server.asked) == PAGES
    assert await here.states("task") == ["SUCCEEDED"]
    assert set(await here.states("batch")) == {"SUCCEEDED"}
    await here.sound()


@pytest.mark.contract("I6", "P12")
async def test_a_page_for_a_table_takes_one_round_trip(database_url: str) -> None:
    async with harbour(database_url, Server().fill(10 * PAGES), sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        pool = pool_of_runs(here.url, SCHEMA, ship.terms)  # as an executor has it: each statement is planned once
        await pool.open()
        heard = ship.runner._desk._pool = Heard(pool)
        await ship.work()
        await pool.close()

        # The first page goes the longer way: the table has not been looked at.
        execute, first, second, *turns = heard.said
        assert heard.transactions == 1
        assert execute.startswith("-- DISPATCHED")
        assert first == second
        assert first.startswith("-- The birth of a batch")
        assert len(turns) == PAGES - 1
        assert all(each.startswith("-- RUNNING -> SUCCEEDED, and the birth") for each in turns)
        await written_once(here)


@pytest.mark.contract("K24", "I6", "I13")
async def test_a_turn_whose_answer_is_lost_is_made_once(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "RECONNECT", Backoff(base=timedelta(0), factor=1.0, cap=timedelta(0)))
    for losing in (2, 3):
        async with harbour(database_url, Server().fill(10 * PAGES), sink=hold()) as here:
            await here.fetch("delete from public.cargo")
            await here.plan(since=DAWN, until=DAWN + HOUR, operation="UPDATE", campaign=str(losing))
            ship = here.ship()
            heard = ship.runner._desk._pool = Heard(here.app.database, losing=losing)
            await ship.work()

            assert len(heard.said) > PAGES + 2
            assert len(here.server.asked) == PAGES
            assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
            assert len(await here.sunk()) == 10 * PAGES
            assert set(await here.states("batch")) == {"SUCCEEDED"}
            await here.sound()


@pytest.mark.contract("I8", "I6")
async def test_a_record_that_the_table_refuses_costs_its_page_one_more_try(database_url: str) -> None:
    server = Server().fill(10 * PAGES)
    server.records[25]["value"] = None
    async with harbour(database_url, server, sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await ship.work()

        assert [id for id, _ in await here.sunk()] == [n for n in range(10 * PAGES) if n != 25]
        assert await here.fetch("select count(*) from ferryman.ingest_quarantine") == [(1,)]
        assert len(server.asked) == PAGES
        # From there on nobody tries the short way again.
        assert heard.transactions == 1 + 4
        await here.sound()


async def turned(here: Harbour, task: Claimed, owner: UUID, batch: UUID, **more: Any) -> Row | None:
    following = Birth(ids.new_id(), 2, "page:2", "two", '{"of": "next"}')
    async with here.app.database.session() as tx:
        told: dict[str, Any] = {"patience": MINUTE, "following": following} | more
        return await batches.turn(tx, task, DONE, owner=owner, id=batch, **told)


async def open_batches(here: Harbour) -> list[Any]:
    return await here.fetch("select batch_no, before_token from ferryman.ingest_batch where status = 'RUNNING'")


BREAKER = "insert into ferryman.ingest_source (tenant, source, open_until, failures) values ($1, $2, $3, 3)"
SHUT = "update ferryman.ingest_source set failures = 3, open_until = $1"
BATCH = """
insert into ferryman.ingest_batch (id, run_id, task_id, slice_id, ends_by, committed_at, created_at, updated_at, batch_no, tenant, status,
    before_token, idempotent_key)
select gen_random_uuid(), run_id, task_id, slice_id, null, case when $1 = 'SUCCEEDED' then now() end, now(), now(), 7, tenant, $1,
       'elsewhere', $2
from ferryman.ingest_batch limit 1
"""  # noqa: E501 - a row of many columns


async def plant(here: Harbour, sql: str, *args: Any) -> None:
    async with here.app.database.transaction() as tx:
        await tx.fetch("select set_config('session_replication_role', 'replica', true)")
        await tx.fetch(sql, *args)


@pytest.mark.contract("I4", "I5", "I6", "I8")
@pytest.mark.parametrize(
    ("before", "born"),
    [
        ((), True),
        ((BATCH, "SUCCEEDED", "two"), False),
        ((BATCH, "FAILED", "two"), True),
        ((BATCH, "SUCCEEDED", "three"), True),
        ((SHUT, datetime(2100, 1, 1, tzinfo=UTC)), False),
        ((SHUT, datetime(2020, 1, 1, tzinfo=UTC)), True),
        ((BREAKER, "default", "other", datetime(2100, 1, 1, tzinfo=UTC)), True),
        ((BREAKER, "other", SOURCE, datetime(2100, 1, 1, tzinfo=UTC)), True),
        (("update ferryman.ingest_task set leased_until = ferryman.clock()",), False),
    ],
)
async def test_the_next_batch_is_born_only_where_it_may_be(database_url: str, before: Any, born: bool) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        if before:
            await plant(here, *before)
        row = await turned(here, task, owner, batch)

        assert row is not None
        assert (row["id"], row["made"] is not None) == (batch, born)
        assert await open_batches(here) == ([(2, "page:2")] if born else [])
        told = await here.fetch(
            "select subject, from_state, to_state from ferryman.events where kind = 'ingest_batch' order by id offset 1"
        )
        assert told[0] == (batch, "RUNNING", "SUCCEEDED")
        assert told[1:] == ([(row["made"], None, "RUNNING")] if born else [])
        # A page that came closes the circuit breaker of its source, and of no other.
        shut = await here.fetch("select tenant, source from ferryman.ingest_source where failures > 0")
        assert shut == ([tuple(before[1:3])] if before and before[0] == BREAKER else [])


@pytest.mark.contract("K4", "I5", "I6")
async def test_the_records_of_a_stale_run_are_not_written(database_url: str) -> None:
    odd = 'create table public.moved (id bigint primary key, "a:b" text)'
    sink = TableSink("moved", key="id", columns=["id", "a:b"])  # a name with a sign that statements give parameters
    async with harbour(database_url, Server()) as here:
        await here.fetch(odd)
        (task, owner, batch), (other, _, theirs) = await two_begun(here)
        async with here.app.database.session() as tx:
            await sink.check(tx)
        records = sink.join([{"id": 1, "a:b": "x"}, {"id": 1, "a:b": "y"}, {"id": 2}])
        assert records is not None
        wrong = [
            (task, ids.boot_id(), batch),
            (other, owner, batch),
            (task, owner, ids.new_id()),
            (task, owner, theirs),
        ]
        for held, by, id in wrong:
            assert await turned(here, held, by, id, records=records) is None
        await plant(here, "update ferryman.ingest_task set status = 'DISPATCHED' where id = $1", task.id)
        assert await turned(here, task, owner, batch, records=records) is None
        await plant(here, "update ferryman.ingest_task set status = 'EXECUTING' where id = $1", task.id)
        assert await here.fetch("select id from public.moved") == []

        row = await turned(here, task, owner, batch, records=records, following=None)
        assert row is not None
        assert row["rows"] == 2
        assert await here.fetch('select id, "a:b" from public.moved order by id') == [(1, "y"), (2, None)]
        assert await turned(here, task, owner, batch, records=records) is None


SLOW = """
create function public.linger() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(38); return new; end $$;
create trigger cargo_lingers {when} insert on public.cargo for each row execute function public.linger()
"""


@asynccontextmanager
async def slow_page(here: Harbour, when: str) -> AsyncIterator[tuple[Claimed, UUID, asyncio.Task[Row | None]]]:
    """Turn a page into a table whose trigger takes until the block is left; in it the trigger runs."""
    sink = hold()
    task, owner, batch = await begun(here)
    async with here.app.database.session() as session:
        await session.execute(SLOW.format(when=when))
        await sink.check(session)
    records = sink.join([{"id": 1, "at": DAWN.isoformat(), "value": "x"}])
    assert records is not None
    async with here.app.database.session() as other:
        await other.fetch("select pg_advisory_lock(38)")
        turning = asyncio.create_task(turned(here, task, owner, batch, records=records))
        while not await other.fetch("select from pg_locks where locktype = 'advisory' and not granted"):
            assert not turning.done()
            await asyncio.sleep(0)
        try:
            yield task, owner, turning
        finally:
            await other.fetch("select pg_advisory_unlock(38)")


@pytest.mark.contract("I5", "K5", "K17")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_slow_table_does_not_cost_a_lease(database_url: str, when: str) -> None:
    async with harbour(database_url, Server()) as here:
        async with slow_page(here, when) as (task, owner, turning):
            lease = MINUTE / 6
            for _ in range(3):
                async with here.app.database.session() as tx:
                    kept = await tasks.renew(tx, [task.id], [task.epoch], owner=owner, lease=lease, margin=HOUR)
                assert kept == {task.id: True}
                await here.travel(lease * 0.9)
            assert (await here.tick()).acted("W15") == 0
        row = await turning

        assert row is not None
        assert row["made"] is not None
        assert await here.sunk() == [(1, "x")]
        await here.sound()


@pytest.mark.contract("I5", "I6", "K4")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_task_is_taken_over_while_a_page_is_written_and_nothing_of_it_stays(
    database_url: str, when: str
) -> None:
    async with harbour(database_url, Server()) as here:
        async with slow_page(here, when) as (_, _, turning):
            await here.travel(2 * MINUTE)
            # Whoever takes it away does not wait for the table.
            assert (await here.tick()).acted("W15") == 1
            [again] = await here.ship().claim()
            before = await everything(here)
        assert await turning is None

        assert again.epoch == 2
        assert await here.sunk() == []
        assert await everything(here) == before
        assert await open_batches(here) == []
        await here.sound()


@pytest.mark.contract("I9", "I6")
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_who_must_wait_for_the_gate_is_written_first_and_asks_it_once_more(
    database_url: str, elsewhere: bool
) -> None:
    seen: list[int] = []

    async def keep(items: Sequence[Any]) -> None:
        seen.extend(item["id"] for item in items)

    past = datetime(2026, 1, 1, tzinfo=UTC)
    sink = CallSink(keep) if elsewhere else hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        if not elsewhere:
            async with here.app.database.session() as tx:
                await sink.check(tx)  # type: ignore[union-attr]
        await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide(Allow(), WaitUntil(past), Allow(), errors.DatabaseUnavailable("away"))
        ship = here.ship(gate=guide)
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await ship.work()

        assert guide.asked == PAGES + 2
        begins = [each for each in heard.said if each.startswith("-- The birth")]
        assert len(begins) == 3  # the first, the one that had to wait, the one for which the gate was away
        waited = "select stats #>> '{gate,decision}' from ferryman.ingest_batch order by batch_no"
        assert [row[0] for row in await here.fetch(waited)] == ["ALLOW"] * PAGES
        assert heard.transactions == 0
        if elsewhere:
            assert seen == list(range(10 * PAGES))
        else:
            await written_once(here)


@pytest.mark.contract("I9", "I6")
async def test_a_gate_that_breaks_does_not_cost_the_page_in_hand(database_url: str) -> None:
    async with harbour(database_url, Server().fill(10 * PAGES), sink=CallSink(lambda _items: None)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        [task] = await (ship := here.ship(gate=Guide(Allow(), *2 * [ValueError("broken")]))).claim()
        with pytest.raises(ValueError, match="broken"):
            await ship.runner.run(task)

        assert await here.states("batch") == ["SUCCEEDED"]
        assert len(here.server.asked) == 1


@pytest.mark.contract("I9")
async def test_leave_that_is_old_after_the_commit_is_asked_for_again_and_not_ahead_of_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(walk, "time", watch)
    sink = hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide()
        ship = here.ship(gate=guide)
        ship.runner._desk._pool = Heard(here.app.database, watch=watch)
        await ship.work()

        assert guide.asked == PAGES + 1  # one slot is lost until it is known that commits are slow
        await written_once(here)


class Counted(TableSink):
    """A table that counts how often a page was made ready for it."""

    joined = 0

    def join(self, items: Sequence[Item]) -> Records | None:
        self.joined += 1
        return super().join(items)


@pytest.mark.contract("I6", "P12")
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_page_is_made_ready_for_the_way_it_goes(database_url: str, ordered: bool) -> None:
    sink = Counted("public.cargo", key="id", columns=["id", "at", "value"])
    async with harbour(database_url, Server(), sink=sink, ordered=ordered) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await here.plan(since=DAWN, until=DAWN + HOUR)
        await ship.work()
        assert (sink.joined, heard.transactions) == (0, 0)  # an empty page has nothing to write, and moves nothing

        here.server.fill(20)
        await here.plan(since=DAWN, until=DAWN + HOUR, operation="UPDATE")
        await ship.work()
        assert (sink.joined, heard.transactions) == ((0, 2) if ordered else (2, 0))
        assert len(await here.sunk()) == 20
        assert set(await here.states("task")) == {"SUCCEEDED"}
        await here.sound()


@pytest.mark.contract("I7", "I9", "I12")
@pytest.mark.parametrize("word", [WaitUntil(datetime(2100, 1, 1, tzinfo=UTC)), Reject("shut"), None])
async def test_a_batch_that_was_never_asked_for_counts_no_request(
    database_url: str, monkeypatch: pytest.MonkeyPatch, word: Decision | None
) -> None:
    watch = Watch()
    monkeypatch.setattr(walk, "time", watch)
    sink = hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        planned = await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide(Allow(), Allow(), word)  # the second batch is born, and then the leave for it is old
        ship = here.ship(gate=guide)
        ship.runner._desk._pool = Heard(here.app.database, watch=watch)
        [task] = await ship.claim()
        running = asyncio.create_task(ship.runner.run(task))
        if word is None:
            await guide.silent.wait()
            await ship.settle(ship.runner.hand_back(task))
            running.cancel()
        await ship.settle(await running)

        assert len(here.server.asked) == 1
        sent = await here.fetch("select requests from ferryman.ingest_batch order by batch_no")
        assert sent == [(1,), (0,)]
        [told] = await here.app.ingest.status(planned.id)
        assert told.requests == 1
        await here.sound()


@pytest.mark.contract("I7", "I12")
async def test_a_request_that_is_out_counts_when_its_task_is_handed_back(database_url: str) -> None:
    asked = asyncio.Event()

    class Silent(Server):
        async def fetch(self, request: Request) -> Page:
            asked.set()
            await asyncio.Event().wait()
            return await super().fetch(request)

    async with harbour(database_url, Silent()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        [task] = await ship.claim()
        running = asyncio.create_task(ship.runner.run(task))
        await asked.wait()
        await ship.settle(ship.runner.hand_back(task))
        running.cancel()
        await running

        assert await here.fetch("select status, requests from ferryman.ingest_batch") == [("SKIPPED", 1)]


@pytest.mark.contract("I7", "I10")
async def test_a_budget_ends_a_walk_that_is_ahead_of_itself(database_url: str) -> None:
    async with harbour(database_url, Server().fill(10 * PAGES), sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR, budget={"requests": 3})
        await here.ship().work(limit=1)

        assert len(here.server.asked) == 3
        assert await open_batches(here) == []
        assert await here.states("batch") == ["SUCCEEDED"] * 3
        assert len(await here.sunk()) == 30
        await here.sound()
