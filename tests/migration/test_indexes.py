"""Indexes that are made beside writers: what is broken off is made whole, and nothing else is touched."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ferryman.app.doctor import ground
from ferryman.app.doctor.report import Reading
from ferryman.kernel import errors, indexes, migrate
from ferryman.kernel.pool import Line

BOATS = "create table ferryman.boats (id int primary key, name text);\n"
NAMES = "-- ferryman: no-transaction\ncreate index concurrently if not exists boats_name on ferryman.boats (name);\n"
NOTHING = "-- ferryman: no-transaction\nselect 1;\n"
INDEXES = """
select index_.relname::text, indisvalid from pg_index
join pg_class as index_ on index_.oid = indexrelid
where indrelid = 'ferryman.boats'::regclass order by 1
"""
# What is left of a rebuild and of a drop; an index over partitions, not valid until each has its own; and one that is not ours.
OTHERS = """
create index boats_name_ccnew on ferryman.boats (name);
create index boats_old on ferryman.boats (name);
update pg_index set indisvalid = false, indisready = false, indislive = false where indexrelid = 'ferryman.boats_old'::regclass;
create table ferryman.days (day date) partition by range (day);
create table ferryman.today partition of ferryman.days default;
create index on only ferryman.days (day);
create table public.boats (id int);
create index elsewhere on public.boats (id);
"""
WHOLE = [("boats_name", True), ("boats_pkey", True)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_boats.sql").write_text(BOATS, encoding="utf-8")
    return tmp_path


@pytest.fixture
async def line(empty_database_url: str) -> AsyncIterator[Line]:
    opened = Line(empty_database_url, settings={"idle_in_transaction_session_timeout": "60s"})
    yield opened
    await opened.close()


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[list[str]]:
    """What each try of a loose file that was refused has left, before the next begins."""
    heard: asyncio.Queue[list[str]] = asyncio.Queue()
    apply = migrate._apply_loose

    async def watched(line: Line, *asked: object) -> bool:
        try:
            return await apply(line, *asked)  # type: ignore[arg-type]
        except errors.DatabaseUnavailable:
            heard.put_nowait([row["name"] for row in await indexes.invalid(line)])
            raise

    monkeypatch.setattr(migrate, "_apply_loose", watched)
    return heard


@asynccontextmanager
async def migrating(url: str, folder: Path) -> AsyncIterator[asyncio.Task[list[str]]]:
    task = asyncio.create_task(migrate.migrate(url, folder=folder))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def found(line: Line) -> list[tuple[str, bool]]:
    return [(row[0], row[1]) for row in await line.fetch(INDEXES)]


async def examined(line: Line) -> Reading:
    [reading] = await ground.valid(line)
    return reading


@pytest.mark.contract("K15")
async def test_an_index_is_valid_in_the_end_however_often_a_transaction_outlasts_its_making(
    empty_database_url: str,
    folder: Path,
    line: Line,
    refusals: asyncio.Queue[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.sql").write_text(NAMES, encoding="utf-8")
    monkeypatch.setattr(migrate, "BESIDE_LOCK_TIMEOUT_SECONDS", 0.05)
    async with AsyncExitStack() as ends:
        async with line.transaction() as tx:
            await tx.fetch("lock table ferryman.boats in row exclusive mode")
            task = await ends.enter_async_context(migrating(empty_database_url, folder))
            left = [
                await refusals.get() for _ in range(3)
            ]  # of the making, the rebuild, and the drop of what that left
        assert await task == ["0002_names"]

    assert left[0] == ["ferryman.boats_name"]
    assert left[1] == left[2] == ["ferryman.boats_name_ccnew", "ferryman.boats_name"]
    assert await found(line) == WHOLE


@pytest.mark.contract("K15")
async def test_an_index_whose_maker_was_killed_is_made_whole_by_the_next(
    empty_database_url: str, folder: Path, line: Line
) -> None:
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.sql").write_text(NAMES, encoding="utf-8")
    maker = (
        "select pid from pg_stat_activity where datname = current_database()"
        " and query ~ 'create index' and wait_event = 'virtualxid'"
    )
    doctor = Line(empty_database_url)
    async with line.transaction() as tx:
        await tx.fetch("lock table ferryman.boats in row exclusive mode")
        async with migrating(empty_database_url, folder) as task:
            while not (pids := await doctor.fetch(maker)):
                continue
            making = await examined(doctor)
            await tx.fetch("select pg_terminate_backend($1)", pids[0][0])
            with pytest.raises(errors.DatabaseUnavailable):
                await task
    assert (making.verdict, making.says) == ("note", "Being made just now: ferryman.boats_name.")
    assert (await examined(doctor)).verdict == "bad"
    await doctor.close()

    assert await migrate.migrate(empty_database_url, folder=folder) == ["0002_names"]

    assert await found(line) == WHOLE


@pytest.mark.contract("K15")
async def test_an_index_of_a_file_that_is_remembered_is_rebuilt_and_the_doctor_names_it_until_then(
    empty_database_url: str, folder: Path, line: Line
) -> None:
    (folder / "0002_names.sql").write_text(NAMES, encoding="utf-8")
    await migrate.migrate(empty_database_url, folder=folder)
    await line.execute(OTHERS)
    for name in ("public.elsewhere", "ferryman.boats_name", "ferryman.boats_name_ccnew"):
        await line.execute(f"update pg_index set indisvalid = false where indexrelid = '{name}'::regclass")

    ill = await examined(line)
    (folder / "0003_nothing.sql").write_text(NOTHING, encoding="utf-8")
    await migrate.migrate(empty_database_url, folder=folder)

    assert ill.verdict == "bad"
    assert "Not valid: ferryman.boats_name_ccnew, ferryman.boats_old, ferryman.boats_name." in ill.says
    assert ill.advice.endswith(
        "drop index concurrently if exists ferryman.boats_old; reindex index concurrently ferryman.boats_name;"
    )
    assert (await examined(line)).verdict == "good"
    assert await found(line) == WHOLE
    left = await line.fetch("select indexrelid::regclass::text from pg_index where not indisvalid")
    assert {row[0] for row in left} == {"elsewhere", "ferryman.days_day_idx"}


@pytest.mark.contract("K15")
async def test_what_others_queue_behind_is_asked_for_briefly_in_a_loose_file_too(
    empty_database_url: str, folder: Path, line: Line
) -> None:
    waits = "create table if not exists ferryman.waits as select current_setting('lock_timeout') as most;\n"
    (folder / "0002_names.sql").write_text(NAMES + waits, encoding="utf-8")

    await migrate.migrate(empty_database_url, folder=folder)

    assert [row[0] for row in await line.fetch("select most from ferryman.waits")] == ["150ms"]


async def test_a_file_that_is_chosen_to_end_a_deadlock_is_tried_again(
    empty_database_url: str, folder: Path, line: Line
) -> None:
    (folder / "0002_tries.sql").write_text("create sequence ferryman.tries;\n", encoding="utf-8")
    deadlock = "do $$ begin if nextval('ferryman.tries') = 1 then raise sqlstate '40P01'; end if; end $$;\n"
    (folder / "0003_names.sql").write_text(NAMES + deadlock, encoding="utf-8")

    assert (await migrate.migrate(empty_database_url, folder=folder))[-1] == "0003_names"

    assert [row[0] for row in await line.fetch("select last_value from ferryman.tries")] == [2]


@pytest.mark.parametrize(
    ("statement", "beside"),
    [
        ("create index concurrently a on b (c)", True),
        ("-- a reason\n/* and\nanother */\nCREATE UNIQUE INDEX\n CONCURRENTLY if not exists a on b (c)", True),
        ("drop index concurrently if exists a", True),
        ("reindex (verbose) index concurrently a", True),
        ("create index a on b (c) -- concurrently", False),
        ("-- create index concurrently\ncreate index a on b (c)", False),
        ("alter table a detach partition b concurrently", False),  # it asks for the whole partition in the end
    ],
)
def test_statements_that_nobody_waits_behind_are_known(statement: str, beside: bool) -> None:
    assert indexes.beside_writers(statement) is beside
