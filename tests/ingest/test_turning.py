"""One statement turns the page: it ends a batch, writes its records and begins the next (I6, I9, ADR 38)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.ingest import coverage
from ferryman.ingest.model import Claimed, Outcome
from ferryman.ingest.rules.ending import handed_back
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.store import batches, tasks
from ferryman.ingest.store.batches import Birth, Finished
from ferryman.ingest.store.cursors import Lineage
from ferryman.ingest.work import walk
from ferryman.ingest.work.executor import pool_of_runs
from ferryman.ingest.work.settle import settle
from ferryman.kernel import ids, patience
from ferryman.kernel.db import SCHEMA, Row, Tx
from ferryman.kernel.retry import Backoff
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour, hold
from tests.ingest.pilot import PAGES, Heard, Watch, written_once
from tests.ingest.test_fences import ACTS, MINUTE, begun, everything, two_begun
from tests.patience import PATIENCE_SECONDS

DONE = Finished("page:2", has_next=True, records=1, requests=1, watermark=None, covered=None, stats={})


@pytest.mark.contract("I6", "P12")
async def test_a_page_for_a_table_takes_one_round_trip(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "time", Watch())  # no commit is slow
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
    monkeypatch.setattr(patience, "RECONNECT", Backoff(base=timedelta(0), factor=1.0, cap=timedelta(0)))
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


@pytest.mark.contract("K24", "I6")
async def test_a_batch_whose_first_try_is_still_under_way_is_begun_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, tried = batches.begin, []

    async with harbour(database_url, Server().fill(30), sink=hold()) as here:

        async def again(_tx: Tx, *said: Any, **more: Any) -> Row | None:
            """Say it on a connection that is lost, and once more while the server is still at it."""
            async with here.app.database.transaction() as first:
                await begin(first, *said, **more)
                second = asyncio.create_task(alone(*said, **more))
                await _waiting(here)
            tried.append(await second)
            return tried[-1]

        async def alone(*said: Any, **more: Any) -> Row | None:
            monkeypatch.setattr(batches, "begin", begin)
            async with here.app.database.session() as tx:
                return await begin(tx, *said, **more)

        await here.plan(since=DAWN, until=DAWN + HOUR)
        monkeypatch.setattr(batches, "begin", again)
        await here.ship().work()

        assert len(tried) == 1
        assert await here.states("task") == ["SUCCEEDED"]
        assert await here.states("run") == ["SUCCEEDED"]
        assert set(await here.states("batch")) == {"SUCCEEDED"}
        assert len(await here.sunk()) == 30
        await here.sound()


async def _waiting(here: Harbour) -> None:
    """Wait until somebody stands in line for a lock."""
    sql = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await here.fetch(sql):  # noqa: ASYNC110 - another process, PostgreSQL, is watched
            await asyncio.sleep(0.005)


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


@pytest.mark.contract("I8", "I11")
async def test_a_plan_does_not_wait_for_a_page_that_closes_the_breaker(database_url: str) -> None:
    """The page of an ordered source wants the cursor next, which the plan holds: each would wait for the other."""
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)
        async with here.app.database.transaction() as tx:
            await tasks.strike(tx, tenant=task.tenant, source=task.source, most=3, pause=MINUTE)
        async with here.app.database.transaction() as tx:
            row = await ACTS["turn"](tx, task, owner, batch)
            async with asyncio.timeout(PATIENCE_SECONDS):
                planned = await here.plan(until=DAWN + 2 * HOUR)
            await coverage.advance(tx, row["cursor_id"], tenant=task.tenant, lineage=Lineage(), tell=False)

        assert planned.made
        assert await here.fetch("select failures from ferryman.ingest_source") == [(0,)]
        await here.sound()


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
create function public.linger() returns trigger language plpgsql set lock_timeout = 0 as
    $$ begin perform pg_advisory_xact_lock_shared(38); return new; end $$;
create trigger cargo_lingers {when} insert on public.cargo for each row execute function public.linger()
"""


WAITS = """
select from pg_locks as lock join pg_stat_activity as who using (pid)
where lock.locktype = '{kind}' and not lock.granted and who.datname = current_database()
"""


@asynccontextmanager
async def slow_page(here: Harbour, when: str) -> AsyncIterator[tuple[Claimed, UUID, asyncio.Task[Row | None]]]:
    """Turn a page into a table whose trigger takes until the block is left; in it the trigger runs."""
    sink = hold()
    task, owner, batch = await begun(here, patience=HOUR)
    async with here.app.database.session() as session:
        await session.execute(SLOW.format(when=when))
        await sink.check(session)
    records = sink.join([{"id": 1, "at": DAWN.isoformat(), "value": "x"}])
    assert records is not None
    async with here.app.database.session() as other:
        await other.fetch("select pg_advisory_lock(38)")
        turning = asyncio.create_task(turned(here, task, owner, batch, records=records, patience=HOUR))
        while not await other.fetch(WAITS.format(kind="advisory")):
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
            lease = 10 * MINUTE
            for _ in range(3):
                async with here.app.database.session() as tx:
                    kept = await tasks.renew(tx, [task.id], [task.epoch], owner=owner, lease=lease, margin=HOUR)
                assert kept == {task.id: True}
                await here.travel(lease * 0.6)
            assert (await here.tick()).acted("W15") == 0
        row = await turning

        assert row is not None
        assert row["made"] is not None
        assert await here.sunk() == [(1, "x")]
        assert await here.fetch("select writes from public.cargo") == [(1,)]
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


@pytest.mark.contract("I5", "I6", "K17")
@pytest.mark.parametrize("birth", ["begin", "turn"])
async def test_a_batch_that_is_born_while_its_task_is_handed_back_ends_with_it(database_url: str, birth: str) -> None:
    async with harbour(database_url, Server()) as here:
        task, owner, batch = await begun(here)

        async def hand_back() -> Row | None:
            async with here.app.database.transaction() as tx:
                return await settle(tx, Outcome(task.id, task.epoch, owner, handed_back()), queued_max=50)

        async with here.app.database.transaction() as tx:
            assert await ACTS[birth](tx, task, owner, batch) is not None
            with pytest.raises(tasks.Busy):
                await hand_back()
        assert await hand_back() is not None

        assert await open_batches(here) == []
        await here.sound()
