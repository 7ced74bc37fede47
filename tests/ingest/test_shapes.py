"""A table that its owner changes is written as it is then, also under a run, and not as it was before (I6, I14, ADR 43)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferryman.ingest.model import Records
from ferryman.ingest.ports import Page, Request, Written
from ferryman.ingest.sinks import table as sinks
from ferryman.ingest.sinks.table import TableSink
from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Session
from tests.ingest.harbour import DAWN, HOUR, Harbour, Server, harbour, hold
from tests.ingest.pilot import PAGES, Heard
from tests.ingest.test_columns import given, joined, put, rows
from tests.patience import PATIENCE_SECONDS


async def changed(tx: Session, becomes: str) -> None:
    await tx.execute(f"alter table public.turned alter column value type {becomes} using value::text::{becomes}")


@asynccontextmanager
async def turned(url: str, kind: str) -> AsyncIterator[tuple[Database, Session, TableSink]]:
    """A table of a key and one value, looked at and written to."""
    async with given(url) as (database, session):
        await session.execute(
            f"create table public.turned (id bigint constraint turned_once unique, value {kind}); set timezone = 'Asia/Tokyo'"
        )
        sink = TableSink("public.turned", key="id", columns=["id", "value"])
        await sink.check(session)
        await put(session, joined(sink, [{"id": 9}]))
        yield database, session, sink


async def refused(tx: Session, sink: TableSink, records: Records) -> None:
    """The table is not as it was: nothing is written, and it is looked at again."""
    with pytest.raises(Exception, match=r"has changed|is of type|does not have") as caught:
        await put(tx, records)
    assert sink.rejoins(records, caught.value)
    assert sink.join([{"id": 1}]) is None


@pytest.mark.contract("I6", "I14")
@pytest.mark.parametrize(
    ("was", "becomes", "value"),
    [
        ("timestamp", "timestamptz", "2026-11-16T12:00:00+03:00"),
        ("date", "timestamptz", "2026-11-16T12:00:00Z"),
        ("real", "double precision", 0.1),
        ("integer", "text", "007"),
        ("integer", "jsonb", "7"),
        ("text", "jsonb", "5"),
        ("jsonb", "text", "five"),
        ("interval", "interval day", "1"),
    ],
)
async def test_a_column_that_gets_another_type_is_filled_as_that_type_reads(
    database_url: str, was: str, becomes: str, value: Any
) -> None:
    page = [{"id": 1, "value": value}]
    async with turned(database_url, was) as (_, session, sink):
        for again in (False, True):  # by the statement for new records, and by that for all cases
            await sink.check(session)
            records = joined(sink, page * 2 if again else page)
            await changed(session, becomes)
            await refused(session, sink, records)
            await changed(session, was)

        await changed(session, becomes)
        async with session.transaction() as tx:
            assert await sink.write(tx, page, batch_key="k") == Written(1)  # as JSON, which follows the table
        kept = await rows(session, "public.turned")
        await session.execute("delete from public.turned where id = 1")
        assert await put(session, joined(sink, page)) == 1
        assert await rows(session, "public.turned") == kept


@pytest.mark.contract("I6", "I14")
async def test_a_key_that_gets_another_type_is_looked_for_as_that_type(database_url: str) -> None:
    page = [{"id": "007", "value": "x"}]
    async with turned(database_url, "text") as (_, session, sink):
        await session.execute("alter table public.turned alter column id type text")
        await refused(session, sink, joined(sink, page))
        await sink.check(session)

        assert await put(session, joined(sink, page)) == 1
        assert await rows(session, "public.turned") == ["(007,x)", "(9,)"]


@pytest.mark.contract("I6", "I14")
async def test_columns_that_change_names_are_filled_as_their_types_read(database_url: str) -> None:
    async with turned(database_url, "integer") as (_, session, sink):
        await session.execute("alter table public.turned rename value to other")
        await session.execute("alter table public.turned add value text")
        await refused(session, sink, joined(sink, [{"id": 1, "value": "007"}]))


@pytest.mark.contract("I6", "I14")
async def test_a_table_in_the_place_of_another_is_looked_at(database_url: str) -> None:
    async with turned(database_url, "integer") as (_, session, sink):
        await session.execute("alter table public.turned rename to former")
        await session.execute("create table public.turned (id bigint unique, value text)")
        await refused(session, sink, joined(sink, [{"id": 1, "value": "007"}]))


@pytest.mark.contract("I6", "I14")
async def test_a_page_that_waits_while_its_table_is_changed_is_not_written_as_before(database_url: str) -> None:
    waits = "select from pg_locks where relation = 'public.turned'::regclass and not granted"
    async with turned(database_url, "integer") as (database, session, sink), database.session() as watching:
        async with database.transaction() as owner:
            await owner.fetch("alter table public.turned alter column value type text")
            writing = asyncio.create_task(refused(session, sink, joined(sink, [{"id": 1, "value": "007"}])))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await watching.fetch(waits):
                    assert not writing.done()
                    await asyncio.sleep(0)
        await writing

        assert await rows(session, "public.turned") == ["(9,)"]


@pytest.mark.contract("I6", "I14")
async def test_a_table_that_loses_its_key_is_refused_and_nothing_is_inserted_twice(database_url: str) -> None:
    async with turned(database_url, "text") as (_, session, sink):
        await session.execute("alter table public.turned drop constraint turned_once")

        await refused(session, sink, joined(sink, [{"id": 1}]))
        with pytest.raises(errors.IngestInvalidSink, match="has no unique index"):
            await sink.write(session, [{"id": 1}], batch_key="k")
        assert await rows(session, "public.turned") == ["(9,)"]


@pytest.mark.contract("I6", "I14")
async def test_rows_that_are_copied_are_spelled_for_the_table_as_it_is(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "COPY_FROM", 2)
    async with turned(database_url, "text") as (database, session, sink):
        await changed(session, "jsonb")
        async with database.transaction() as tx:
            await sink.write(tx, [{"id": 1, "value": "5"}, {"id": 2, "value": "true"}], batch_key="k")

        kept = await session.fetch("select value #>> '{}' as value from public.turned where id < 9 order by id")
        assert [row["value"] for row in kept] == ["5", "true"]
        assert await session.fetch("select from public.turned where jsonb_typeof(value) <> 'string'") == []


class Owned(Server):
    """A server whose fourth page comes when the owner of the table has just changed it."""

    here: Harbour

    async def fetch(self, request: Request) -> Page:
        if len(self.asked) == 3:
            await self.here.fetch("alter table public.cargo alter column value type text")
        return await super().fetch(request)


@pytest.mark.contract("I6", "I14")
async def test_a_change_of_the_table_under_a_run_costs_one_page_the_longer_way(database_url: str) -> None:
    server = Owned()
    server.fill(10 * PAGES)
    for each in server.records:
        each["value"] = f"{each['id']:03}"
    async with harbour(database_url, server, sink=hold()) as here:
        server.here = here
        await here.fetch("alter table public.cargo alter column value type integer using 0")
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await ship.work()

        assert await here.sunk() == [(id, str(id) if id < 30 else f"{id:03}") for id in range(10 * PAGES)]
        assert heard.transactions == 1 + 1
        assert len(server.asked) == PAGES
        await here.sound()
