"""A page goes over as columns of text, and is inserted as it is where the table has none of its records (I6, P12, ADR 43)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ferryman.ingest.model import Records
from ferryman.ingest.ports import Written
from ferryman.ingest.sinks import table as sinks
from ferryman.ingest.sinks.table import TableSink
from ferryman.kernel import errors
from ferryman.kernel.pool import Database, Session
from tests.ingest.harbour import DAWN, HOUR, Server, harbour, hold
from tests.ingest.pilot import PAGES, Heard
from tests.patience import PATIENCE_SECONDS

TABLE = """
create type public.mood as enum ('fine', 'so so');
create table public.wide (
    id bigint primary key, name text, code varchar(5), sign char(3), price numeric(8, 2), weight float8, small smallint,
    open boolean, tags jsonb, raw json, at timestamptz, day date, whose uuid, mood public.mood, long interval, bits bit(3));
create table public.pairs (region text, id integer, note text, unique (region, id));
create table public.words (id name primary key, note text)
"""
WIDE = [
    "id", "name", "code", "sign", "price", "weight", "small", "open", "tags", "raw", "at", "day", "whose", "mood", "long",
    "bits",
]  # fmt: skip
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
FULL = {
    "id": 1, "name": "one", "code": "abc", "sign": "xy", "price": 1.005, "weight": 1e16, "small": 7, "open": True,
    "tags": ["a", {"b": None}], "raw": {"z": 1, "a": "\x1f"}, "at": NOON.isoformat(), "day": "2026-11-16",
    "whose": str(UUID(int=5)), "mood": "so so", "long": "1 day", "bits": "101",
}  # fmt: skip
# What no column is filled with, and no JSON can hold.
MORE: dict[Any, Any] = {"more": 2**70, "and": Decimal(1), "also": b"x", 7: {8}}
ODD: list[dict[str, Any]] = [
    {"id": 2},
    {"id": "3", "name": 1e16, "tags": "text", "raw": "text", "open": "yes", "at": NOON, "whose": UUID(int=6)},
    {"id": 4, "name": True, "weight": float("nan"), "price": "2.5", "tags": 0.1 + 0.2, "raw": [], "open": False},
    {"id": 5, "name": {"deep": [1]}, "tags": None, "raw": None, "small": "-1", "weight": 3},
    {"id": 6, "name": "", "code": "", "sign": "a", "tags": "", "raw": ""},
    {"id": 7, "name": 'tab\tline\nback\\slash "quote" \\N null {}', "tags": {}, "weight": "Infinity"},
    {"id": 8, "name": -0.0, "price": 0, "tags": [1, "\x1e"], "weight": 5e-324},
]


class _Undo(Exception):
    pass


@asynccontextmanager
async def given(url: str) -> AsyncIterator[tuple[Database, Session]]:
    database = Database(url, size=4)
    await database.open()
    async with database.session() as session:
        await session.execute(TABLE)
        yield database, session
    await database.close()


def joined(sink: TableSink, page: list[dict[str, Any]]) -> Records:
    records = sink.join(page)
    assert records is not None
    return records


async def put(tx: Session, records: Records) -> int:
    told = records.look, records.fresh, records.sql, records.page, records.table, records.shape
    [row] = await tx.fetch("select ferryman.write_page($1, $2, $3, $4, $5, $6) as rows", *told)
    return int(row["rows"])


async def rows(tx: Session, table: str) -> list[str]:
    return [row["row"] for row in await tx.fetch(f"select held::text as row from {table} as held order by held.id")]


def wide(**more: Any) -> TableSink:
    return TableSink("public.wide", **{"key": "id", "columns": WIDE, **more})


@pytest.mark.contract("I6", "I14")
@pytest.mark.parametrize("paths", [WIDE, {name: f"$.{name}" if name == "name" else name for name in WIDE}])
async def test_every_way_gives_the_same_rows(database_url: str, paths: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [[each | MORE for each in page] for page in ([FULL], [FULL, *ODD], ODD, *([each] for each in ODD))]
    async with given(database_url) as (database, session):
        sink = wide(columns=paths)
        await sink.check(session)
        for page in pages:
            kept: list[list[str]] = []
            for way in ("columns", "json", "copy"):
                try:
                    async with database.transaction() as tx:
                        if way == "columns":
                            records = joined(sink, page)
                            assert (records.page[0] != "[") == (page != [ODD[4] | MORE])  # one empty text cannot be cut
                            assert await put(tx, records) == len(page)
                        else:
                            with monkeypatch.context() as patch:
                                if way == "copy":
                                    patch.setattr(sinks, "COPY_FROM", 1)
                                assert await sink.write(tx, page, batch_key="k") == Written(len(page))
                        kept.append(await rows(tx, "public.wide"))
                        raise _Undo
                except _Undo:
                    pass
            assert kept[0] == kept[1] == kept[2]


@pytest.mark.contract("I6", "I14")
@pytest.mark.parametrize("sign", ["\x1d", "\x1e", "\x1f", "a\x1db", "a\x1fb"])
async def test_a_text_that_holds_one_of_our_signs_is_kept_as_it_is(database_url: str, sign: str) -> None:
    async with given(database_url) as (_, session):
        sink = wide(columns=["id", "name"])
        await sink.check(session)

        for first, page in ((1, [sign]), (2, [sign, None, "x"]), (5, [None, sign])):
            await put(session, joined(sink, [{"id": id, "name": name} for id, name in enumerate(page, first)]))

        kept = [row["name"] for row in await session.fetch("select name from public.wide order by id")]
        assert kept == [sign, sign, None, "x", None, sign]


@pytest.mark.contract("I6", "I8")
@pytest.mark.parametrize(
    "wrong",
    [
        {"code": "too long"},
        {"sign": "abcd"},
        {"bits": "10"},
        {"price": 1e9},
        {"name": "a\0b"},
        {"mood": "sad"},
        {"small": 1.5},
    ],
)
async def test_a_value_that_does_not_fit_its_column_is_refused_and_not_cut(database_url: str, wrong: Any) -> None:
    async with given(database_url) as (_, session):
        sink = wide()
        await sink.check(session)
        for known in (False, True):
            if known:
                await put(session, joined(sink, [{"id": 1}]))
            with pytest.raises(Exception, match=r"too long|does not match|overflow|0x00|invalid input"):
                await put(session, joined(sink, [{"id": 1, **wrong}, {"id": 2}]))

        assert await rows(session, "public.wide") == ["(1,,,,,,,,,,,,,,,)"]


@pytest.mark.contract("I6")
async def test_an_older_record_never_overwrites_a_newer_one_though_most_of_its_page_are_new(database_url: str) -> None:
    async with given(database_url) as (_, session):
        sink = wide(columns=["id", "name", "at"], updated_at="at")
        await sink.check(session)
        when = {day: f"2026-11-{day:02}T00:00:00+00:00" for day in (1, 2, 3)}

        def page(*told: tuple[int, str, int]) -> Records:
            return joined(sink, [{"id": id, "name": name, "at": when[day]} for id, name, day in told])

        assert await put(session, page((1, "one", 2), (2, "two", 2))) == 2
        assert await put(session, page((1, "older", 1), (2, "newer", 3), (3, "new", 1))) == 2
        assert await put(session, page((4, "first", 1), (4, "newest", 3), (4, "last", 2))) == 1

        kept = await session.fetch("select id, name from public.wide order by id")
        assert [(row["id"], row["name"]) for row in kept] == [(1, "one"), (2, "newer"), (3, "new"), (4, "newest")]


@pytest.mark.contract("I6", "I14")
async def test_keys_of_several_columns_and_types_that_read_a_text_in_their_own_way(database_url: str) -> None:
    async with given(database_url) as (_, session):
        pairs = TableSink("pairs", key=["id", "region"], columns=["region", "id", "note"])
        words = TableSink("words", key="id", columns=["id", "note"])
        for sink in (pairs, words):
            await sink.check(session)
        both = [{"id": 1, "region": "eu", "note": "a"}, {"id": 1, "region": "us", "note": "b"}]

        assert joined(pairs, both).look is None
        assert await put(session, joined(pairs, both)) == 2
        assert await put(session, joined(pairs, [{**both[0], "note": "c"}])) == 1
        assert joined(words, [{"id": "x"}]).page == '[{"id":"x","note":null}]'
        assert sorted(await rows(session, "pairs")) == ["(eu,1,c)", "(us,1,b)"]


@pytest.mark.contract("P12", "I6")
async def test_a_page_that_is_new_is_inserted_and_another_is_looked_up(database_url: str) -> None:
    used = (
        "select name, generic_plans + custom_plans as used from pg_prepared_statements where name ~ '^ferryman_page_'"
    )
    async with given(database_url) as (_, session):
        sink = wide(columns=["id", "name"])
        await sink.check(session)
        for ids in ((1, 2), (3, 4), (4, 5), (9, 8)):
            await put(session, joined(sink, [{"id": id, "name": "x"} for id in ids]))

        told = {row["name"].rpartition("_")[2]: row["used"] for row in await session.fetch(used)}
        assert told == {"look": 4, "fresh": 3, "known": 1}


@pytest.mark.contract("I6", "I13")
async def test_a_record_that_another_writes_at_the_same_moment_is_written_once_and_the_page_with_it(
    database_url: str,
) -> None:
    server = Server().fill(30)
    async with harbour(database_url, server, sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        async with here.app.database.session() as watching, here.app.database.transaction() as other:
            await other.fetch("insert into public.cargo (id, at, value) values (15, $1, 'theirs')", DAWN)
            working = asyncio.create_task(ship.work())
            waits = "select from pg_locks where locktype = 'transactionid' and not granted"
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await watching.fetch(waits):
                    assert not working.done()
                    await asyncio.sleep(0)
        assert await working == 1

        assert heard.transactions == 1 + 1  # the first page, for the look at the table; this one, and not the one after
        assert await here.sunk() == [(id, f"v{id}") for id in range(30)]
        assert await here.fetch("select id from public.cargo where writes > 1") == [(15,)]
        assert set(await here.states("batch")) == {"SUCCEEDED"}
        assert len(server.asked) == 3
        await here.sound()


@pytest.mark.contract("I8", "I6")
async def test_half_a_character_costs_its_page_alone_the_longer_way(database_url: str) -> None:
    server = Server().fill(10 * PAGES)
    server.records[25]["value"] = "half \ud800"
    async with harbour(database_url, server, sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await ship.work()

        assert [id for id, _ in await here.sunk()] == [n for n in range(10 * PAGES) if n != 25]
        assert await here.fetch("select count(*) from ferryman.ingest_quarantine") == [(1,)]
        assert heard.transactions == 1 + 1
        await here.sound()


# Without contrib the type that citext is: read and written as text is, and a text is one as it stands.
LOOSE = """
create type public.citext;
create function public.loose_in(cstring) returns public.citext language internal immutable strict as 'textin';
create function public.loose_out(public.citext) returns cstring language internal immutable strict as 'textout';
create type public.citext (input = public.loose_in, output = public.loose_out, category = 'S');
create cast (text as public.citext) without function as assignment;
create cast (public.citext as text) without function as implicit;
"""
# A type with an input function that refuses what is no JSON, and a cast that would pass it by.
STRICT = """
create type public.strict;
create function public.strict_in(cstring) returns public.strict language internal immutable strict as 'json_in';
create function public.strict_out(public.strict) returns cstring language internal immutable strict as 'json_out';
create type public.strict (input = public.strict_in, output = public.strict_out);
create cast (text as public.strict) without function;
"""


@pytest.mark.contract("I6", "I8", "I14")
async def test_types_are_read_by_their_input_and_not_by_a_cast_that_passes_it_by(database_url: str) -> None:
    there = "select from pg_available_extensions where name = 'citext'"
    async with given(database_url) as (database, session):
        await session.execute("create extension citext" if await session.fetch(there) else LOOSE)
        await session.execute(STRICT)
        await session.execute("create table public.own (id bigint primary key, word public.citext, doc public.strict)")
        words = TableSink("own", key="id", columns=["id", "word"])
        docs = TableSink("own", key="id", columns=["id", "doc"])
        for sink in (words, docs):
            await sink.check(session)

        await put(session, joined(words, [{"id": 1, "word": "Abc"}, {"id": 2, "word": 1.50}]))
        with pytest.raises(Exception, match="invalid input syntax"):
            await put(session, joined(docs, [{"id": 3, "doc": "not json"}]))
        async with database.transaction() as tx:
            written = await docs.write(tx, [{"id": 4, "doc": "[1]"}, {"id": 5, "doc": "["}], batch_key="k")

        assert (written.rows, [item["id"] for item, _ in written.quarantined]) == (1, [5])
        assert await rows(session, "public.own") == ["(1,Abc,)", "(2,1.5,)", "(4,,[1])"]


@pytest.mark.contract("I6", "I14")
async def test_the_fields_of_an_interval_say_how_it_is_read(database_url: str) -> None:
    async with given(database_url) as (_, session):
        await session.execute("create table public.spans (id bigint primary key, long interval day, short interval)")
        sink = TableSink("spans", key="id", columns=["id", "long", "short"])
        await sink.check(session)

        await put(session, joined(sink, [{"id": 1, "long": "1", "short": "1"}]))

        assert await rows(session, "public.spans") == ['(1,"1 day",00:00:01)']


@pytest.mark.contract("I6", "I14")
@pytest.mark.parametrize("index", ["deferrable", "not valid"])
async def test_an_index_that_does_not_hold_at_once_is_no_key(database_url: str, index: str) -> None:
    async with given(database_url) as (_, session):
        await session.execute("create table public.loose (id bigint)")
        if index == "deferrable":
            await session.execute("alter table public.loose add unique (id) deferrable")
        else:
            await session.execute("insert into public.loose values (1), (1)")
            with pytest.raises(Exception, match="could not create unique index"):
                await session.execute("create unique index concurrently on public.loose (id)")
        sink = TableSink("loose", key="id", columns=["id"])

        with pytest.raises(
            errors.IngestInvalidSink, match=r"no unique index on \(id\) that is valid and not deferrable"
        ):
            await sink.check(session)
