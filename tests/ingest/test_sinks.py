"""I6, I14: where records go. An older one never overwrites a newer one, and a page written again changes nothing."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pyarrow
import pyarrow.parquet
import pytest

from ferryman.ingest.ports import Item, Sink, Written
from ferryman.ingest.sinks import table as sinks
from ferryman.ingest.sinks.call import CallSink
from ferryman.ingest.sinks.files import JsonlSink, ParquetSink
from ferryman.ingest.sinks.table import TableSink
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Database, Line, Session
from ferryman.testing import Cluster
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("I6", "I14")

TABLE = """
create schema "odd "" one";
create table "odd "" one"."Orders; --" (
    "order id" bigint primary key,
    name text not null,
    price numeric check (price >= 0),
    tags jsonb,
    open boolean,
    updated_at timestamptz,
    body jsonb,
    doubled numeric generated always as (price * 2) stored
);
create table plain (id bigint, region text, at timestamptz);
create table lists (id bigint primary key, sizes integer[], note text);
create unique index on plain (region, id);
create index on plain (id);
create unique index on plain (at) where id > 5;
"""
ORDERS = {
    "order id": "id", "name": "name", "price": "price", "tags": "tags", "open": "open", "updated_at": "at.updated", "body": "$",
}  # fmt: skip


@pytest.fixture(scope="module")
def tables_url(cluster: Cluster) -> Iterator[str]:
    """A database with tables of a user's own."""
    with asyncio.Runner() as runner:
        lent = cluster.database()
        url = runner.run(lent.__aenter__())
        runner.run(_prepare(url))
        yield url
        runner.run(lent.__aexit__(None, None, None))


async def _prepare(url: str) -> None:
    line = Line(url)
    await line.execute(TABLE)
    await line.close()


class _Undo(Exception):
    pass


@pytest.fixture
async def given(tables_url: str) -> AsyncIterator[Session]:
    """A transaction, rolled back at the end."""
    database = Database(tables_url, size=1)
    await database.open()
    with suppress(_Undo):
        async with database.transaction() as transaction:
            yield transaction
            raise _Undo
    await database.close()


@pytest.fixture(params=["json", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write a page, whatever its size."""
    if request.param == "copy":
        monkeypatch.setattr(sinks, "COPY_FROM", 1)
    return str(request.param)


def orders(**more: Any) -> TableSink:
    declared = {"schema": 'odd " one', "key": "order id", "columns": ORDERS, "updated_at": "updated_at"} | more
    return TableSink("Orders; --", **declared)


def order(id: Any, day: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "name": f"order {id}", "at": {"updated": f"2026-11-{day:02}T00:00:00Z"}, **more}


async def kept(tx: Session, columns: str = 'o."order id" as id, name, updated_at::date::text as day') -> list[Any]:
    rows = await tx.fetch(f'select {columns} from "odd "" one"."Orders; --" as o order by o."order id"')
    return [tuple(row.values()) if hasattr(row, "values") else row for row in rows]


@pytest.mark.usefixtures("way")
async def test_a_page_becomes_rows_with_every_type(given: Session) -> None:
    wanted = order(7, price=1.5, tags=["a\tb\\n", {"c": None}], open=True, name='tab\tline\nback\\slash "quote" \\N')

    written = await orders().write(given, [wanted, order(8, name="", price="2.25")], batch_key="k")

    assert written == Written(2)
    [first, second] = await kept(given, "name, price::text, tags::text, open, body::text, doubled::text")
    assert first[:4] == (wanted["name"], "1.5", '["a\\tb\\\\n", {"c": null}]', True)
    assert json.loads(first[4]) == wanted
    assert second[:4] == ("", "2.25", None, None)
    assert second[5] == "4.50"


@pytest.mark.usefixtures("way")
async def test_values_that_python_made_become_the_same_rows(given: Session) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    made = {"id": 1, "name": UUID(int=7), "price": float("nan"), "tags": {"at": noon}, "at": {"updated": noon}}
    sink = orders(columns={name: path for name, path in ORDERS.items() if name != "body"})

    await sink.write(given, [MappingProxyType(made), order(2, price=0.1 + 0.2, tags="text", open=False)], batch_key="a")

    [first, second] = await kept(given, "name, price::text, tags::text, open, updated_at")
    assert first == (str(UUID(int=7)), None, '{"at": "2026-11-16T12:00:00+00:00"}', None, noon)
    assert second[1:4] == ("0.30000000000000004", '"text"', False)


@pytest.mark.usefixtures("way")
async def test_lists_become_arrays_and_words_of_json_become_text(given: Session) -> None:
    sink = TableSink("lists", key="id", columns=["id", "sizes", "note"])

    await sink.write(given, [{"id": 1, "sizes": [1, 2], "note": True}, {"id": 2, "note": {"a": 1}}], batch_key="a")
    await TableSink("lists", key="id", columns=["id", "note"]).write(given, [{"id": 3, "note": True}], batch_key="b")

    rows = await given.fetch("select sizes, note from lists order by id")
    assert [(row["sizes"], row["note"]) for row in rows] == [([1, 2], "true"), (None, '{"a":1}'), (None, "true")]


@pytest.mark.usefixtures("way")
async def test_an_older_record_never_overwrites_a_newer_one(given: Session) -> None:
    sink = orders()
    await sink.write(given, [order(1, 5), order(2, 5), order(3, 5)], batch_key="a")

    late = [order(1, 4, name="older"), order(2, 6, name="newer"), order(3, 5, name="as old")]
    written = await sink.write(given, late, batch_key="b")

    assert written.rows == 1
    assert await kept(given) == [(1, "order 1", "2026-11-05"), (2, "newer", "2026-11-06"), (3, "order 3", "2026-11-05")]


@pytest.mark.usefixtures("way")
async def test_of_one_page_the_newest_of_each_key_counts_in_any_order(given: Session) -> None:
    page = [order(1, 3), order(1, 9, name="newest"), order(1, 5), order(2, 1, name="first"), order(2, 1, name="last")]

    await orders().write(given, page, batch_key="a")

    assert await kept(given) == [(1, "newest", "2026-11-09"), (2, "last", "2026-11-01")]


@pytest.mark.usefixtures("way")
async def test_a_page_written_again_changes_nothing(given: Session) -> None:
    sink, page = orders(), [order(number) for number in range(20)]
    assert (await sink.write(given, page, batch_key="a")).rows == 20

    assert (await sink.write(given, page, batch_key="a")).rows == 0
    assert len(await kept(given)) == 20


@pytest.mark.contract("I8")
@pytest.mark.usefixtures("way")
async def test_bad_records_go_into_quarantine_and_the_others_are_written(given: Session) -> None:
    bad = [
        order("many"),
        order(5, name=None),
        order(6, price=-1),
        order(7, at={"updated": "soon"}),
        order(8, name="a\0b"),
        {},
    ]
    good = [order(number) for number in range(10, 40)]

    written = await orders().write(given, [*good[:11], *bad, *good[11:]], batch_key="a")

    assert written.rows == 30
    assert [item for item, _ in written.quarantined] == bad
    reasons = " ".join(reason for _, reason in written.quarantined)
    for said in ('"many"', 'null value in column "name"', "violates check constraint", '"soon"'):
        assert said in reasons
    assert len(await kept(given)) == 30


@pytest.mark.usefixtures("way")
async def test_a_page_with_too_many_bad_records_is_broken(given: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "BAD_MAX", 3)

    with pytest.raises(errors.IngestInvalidSink, match="refused more than 3 records"):
        await orders().write(given, [order(None) for _ in range(10)], batch_key="a")


@pytest.mark.usefixtures("way")
async def test_without_a_time_the_last_write_counts_and_keys_may_be_several(given: Session) -> None:
    sink = TableSink("public.plain", key=["id", "region"], columns=["id", "region", "at"])
    for day in ("2026-11-02", "2026-11-01"):
        await sink.write(given, [{"id": 1, "region": "eu", "at": day, "more": 1}], batch_key=day)

    assert [str(row["at"].date()) for row in await given.fetch("select at from plain")] == ["2026-11-01"]
    bare = TableSink("plain", key=("id", "region"), columns=["id", "region"])
    assert (await bare.write(given, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}], batch_key="x")).rows == 1


async def test_a_page_and_its_batch_commit_together(tables_url: str) -> None:
    database = Database(tables_url, size=1)
    await database.open()
    sink = TableSink("plain", key=["id", "region"], columns=["id", "region"])
    with suppress(_Undo):
        async with database.transaction() as tx:
            await sink.write(tx, [{"id": 9, "region": "eu"}], batch_key="x")
            raise _Undo
    async with database.session() as tx:
        assert await tx.fetch("select from plain") == []
    await database.close()


@pytest.mark.parametrize(
    ("sink", "field"),
    [
        (lambda: TableSink("nowhere", key="id", columns=["id"]), "table"),
        (lambda: TableSink("plain", key="id", columns=["id", "nme"]), "columns"),
        (lambda: orders(columns={**ORDERS, "doubled": "x"}), "columns"),
        (lambda: TableSink("plain", key="id", columns=["id"]), "key"),
        (lambda: TableSink("plain", key="at", columns=["at"]), "key"),
    ],
)
async def test_a_table_that_does_not_fit_is_refused_before_anything_is_written(
    given: Session, sink: Any, field: str
) -> None:
    with pytest.raises(errors.IngestInvalidSink) as caught:
        await sink().write(given, [{"id": 1}], batch_key="a")

    assert caught.value.details["field"] == field


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"table_name": "", "key": "a", "columns": ["a"]}, "table"),
        ({"table_name": "a.b.c", "key": "a", "columns": ["a"]}, "table"),
        ({"table_name": "a\0", "key": "a", "columns": ["a"]}, "table"),
        ({"table_name": "x" * 64, "key": "a", "columns": ["a"]}, "table"),
        ({"table_name": "t", "key": [], "columns": ["a"]}, "key"),
        ({"table_name": "t", "key": "b", "columns": ["a"]}, "key"),
        ({"table_name": "t", "key": "a", "columns": []}, "key"),
        ({"table_name": "t", "key": "a", "columns": {}}, "columns"),
        ({"table_name": "t", "key": "a", "columns": {"a": "x["}}, "columns.a"),
        ({"table_name": "t", "key": "a", "columns": ["a"], "updated_at": "b"}, "updated_at"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(declared: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.FerrymanError) as caught:
        TableSink(**declared)

    assert caught.value.code == "INGEST_INVALID_SINK"
    assert caught.value.details["field"] == field


# Files


async def test_lines_are_written_whole_under_the_name_of_their_batch(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "out")

    written = await sink.write(None, [{"id": 1}, {"id": {2}}, {"id": 3}], batch_key="batch-1")
    await sink.write(None, [{"id": 9}], batch_key="../../etc/x y")
    await sink.write(None, [], batch_key="nothing")

    assert (written.rows, [item for item, _ in written.quarantined]) == (2, [{"id": {2}}])
    assert (tmp_path / "out" / "batch-1.jsonl").read_text() == '{"id":1}\n{"id":3}\n'
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert not sink.same_database


async def test_a_page_written_again_takes_the_place_of_its_own_file(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path)
    await sink.write(None, [{"id": 1}], batch_key="a")
    await sink.write(None, [{"id": 2}], batch_key="b")

    await sink.write(None, [{"id": 3}], batch_key="a")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "a.jsonl": '{"id":3}\n',
        "b.jsonl": '{"id":2}\n',
    }


async def test_a_file_that_cannot_be_placed_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()

    with pytest.raises(OSError, match=r"a\.jsonl"):
        await JsonlSink(tmp_path).write(None, [{"id": 1}], batch_key="a")

    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


async def test_parquet_holds_what_fits_and_puts_aside_what_does_not(tmp_path: Path) -> None:
    schema = pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string())])
    page: Sequence[Item] = [{"id": 1, "name": "a"}, {"id": "x", "name": "b"}, {"id": 3}]

    written = await ParquetSink(tmp_path, schema=schema).write(None, page, batch_key="a")
    loose = await ParquetSink(tmp_path / "loose").write(None, page, batch_key="a")

    assert (written.rows, [item for item, _ in written.quarantined]) == (2, [page[1]])
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 3, "name": None},
    ]
    assert [item for item, _ in loose.quarantined] == [page[1]]


# Functions


async def test_a_function_is_a_sink_async_or_plain() -> None:
    got: list[Any] = []

    def plain(items: Sequence[Item]) -> None:
        got.append(list(items))

    async def keyed(items: Sequence[Item], batch_key: str) -> int:
        got.append(batch_key)
        return 7

    async def within(items: Sequence[Item], *, tx: Tx) -> Written:
        got.append(tx)
        return Written(0, [(items[0], "no")])

    assert await CallSink(plain).write(None, [{"id": 1}], batch_key="k") == Written(1)
    assert await CallSink(keyed).write(None, [{"id": 1}], batch_key="k") == Written(7)
    assert CallSink(within).same_database
    assert (await CallSink(within).write(None, [{"id": 1}], batch_key="k")).quarantined == [({"id": 1}, "no")]
    assert got == [[{"id": 1}], "k", None]


async def test_a_function_that_cannot_be_a_sink_is_refused() -> None:
    def within(items: Sequence[Item], tx: Tx) -> None: ...

    for wrong in (within, 5):
        with pytest.raises(errors.IngestInvalidSink):
            CallSink(wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.IngestInvalidSink, match="returned 'x'"):
        await CallSink(lambda _items: "x").write(None, [], batch_key="k")


def test_all_of_them_are_sinks(tmp_path: Path) -> None:
    every: list[Sink] = [JsonlSink(tmp_path), ParquetSink(tmp_path), CallSink(print), orders()]
    assert [each.same_database for each in every] == [False, False, False, True]


@pytest.mark.contract("R6", "K24")
@pytest.mark.parametrize("kind", ["function", "files"])
async def test_a_plain_sink_that_never_comes_back_takes_no_thread_from_anybody_else(tmp_path: Path, kind: str) -> None:
    """Names of databases and of sources are looked up in the loop's own threads: a worker without them cannot reconnect."""
    begun, go = threading.Event(), threading.Event()

    def hang(items: Sequence[Item]) -> None:
        begun.set()
        go.wait()

    class Hung(JsonlSink):
        def encode(self, items: Sequence[Item]) -> tuple[bytes, list[tuple[Item, str]]]:
            hang(items)
            return super().encode(items)

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    stuck: Sink = CallSink(hang) if kind == "function" else Hung(tmp_path / "stuck")
    sound: Sink = CallSink(len) if kind == "function" else JsonlSink(tmp_path / "sound")
    hanging = asyncio.ensure_future(stuck.write(None, [{"id": 1}], batch_key="a"))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not begun.is_set():  # noqa: ASYNC110 - a thread is watched
                await asyncio.sleep(0.005)
            written = await sound.write(None, [{"id": 2}], batch_key="b")
            found = await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    finally:
        go.set()
        await hanging

    assert written.rows == 1
    assert found
