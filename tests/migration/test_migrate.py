import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ferryman.kernel import errors, migrate
from ferryman.kernel.pool import Line
from ferryman.testing import Cluster

CREATE = "create table ferryman.boats (id int primary key);\ninsert into ferryman.boats values (1);\n"
GROW = "alter table ferryman.boats add column name text;\n"
PROCESS = "import asyncio, sys; from ferryman.kernel import migrate; print(asyncio.run(migrate.migrate(sys.argv[1])))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_boats.sql").write_text(CREATE, encoding="utf-8")
    (tmp_path / "0002_names.sql").write_text(GROW, encoding="utf-8")
    return tmp_path


async def ask(url: str, question: str) -> list[object]:
    line = Line(url)
    try:
        return [row[0] for row in await line.fetch(question)]
    finally:
        await line.close()


async def test_what_is_missing_is_applied_once_and_in_order(empty_database_url: str, folder: Path) -> None:
    assert await migrate.pending(empty_database_url, folder=folder) == ["0001_boats", "0002_names"]
    assert await migrate.migrate(empty_database_url, folder=folder) == ["0001_boats", "0002_names"]
    assert await migrate.migrate(empty_database_url, folder=folder) == []
    assert await migrate.pending(empty_database_url, folder=folder) == []
    assert await ask(empty_database_url, "select version from ferryman.migrations order by 1") == [1, 2]


@pytest.mark.contract("K15")
async def test_eight_processes_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROCESS, empty_database_url, stdout=subprocess.PIPE, env=environment
        )
        for _ in range(8)
    ]

    said = [(await process.communicate())[0].decode() for process in started]

    assert [process.returncode for process in started] == [0] * 8
    names = [migration.name for migration in migrate.read()]
    assert all("".join(said).count(repr(name)) == 1 for name in names)
    assert await migrate.pending(empty_database_url) == []


@pytest.mark.contract("K15")
async def test_a_file_edited_after_it_was_applied_is_refused(empty_database_url: str, folder: Path) -> None:
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0001_boats.sql").write_text(CREATE + "-- a word more\n", encoding="utf-8")

    with pytest.raises(errors.MigrationEdited, match="0001_boats"):
        await migrate.migrate(empty_database_url, folder=folder)


@pytest.mark.contract("K15")
async def test_the_product_lives_in_the_schema_that_is_asked_for(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, schema="harbour")

    schemas = await ask(
        empty_database_url, "select distinct schemaname::text from pg_tables where schemaname !~ '^pg_|^info'"
    )
    assert schemas == ["harbour"]
    assert await ask(empty_database_url, "select count(*) from pg_namespace where nspname = 'ferryman'") == [0]
    assert await ask(empty_database_url, "select count(*) from pg_proc where prosrc ~ 'ferryman[.]'") == [0]
    assert await ask(empty_database_url, "select harbour.clock() is not null") == [True]


async def test_two_schemas_of_one_database_do_not_meet(empty_database_url: str, folder: Path) -> None:
    await migrate.migrate(empty_database_url, folder=folder)

    assert await migrate.migrate(empty_database_url, schema="harbour", folder=folder) == ["0001_boats", "0002_names"]


async def test_a_schema_name_that_is_no_plain_name_is_refused(empty_database_url: str) -> None:
    with pytest.raises(errors.SettingsInvalid, match="small letters"):
        await migrate.migrate(empty_database_url, schema="x; drop table y")


@pytest.mark.contract("K15")
async def test_a_file_that_fails_in_the_middle_leaves_nothing(empty_database_url: str, folder: Path) -> None:
    (folder / "0002_names.sql").write_text(GROW + "select * from ferryman.nothing_there;\n", encoding="utf-8")

    with pytest.raises(errors.MigrationFailed, match=r"0002_names.*nothing_there"):
        await migrate.migrate(empty_database_url, folder=folder)

    columns = "select attname::text from pg_attribute where attrelid = 'ferryman.boats'::regclass and attnum > 0"
    assert await ask(empty_database_url, columns) == ["id"]
    assert await migrate.pending(empty_database_url, folder=folder) == ["0002_names"]


@pytest.mark.contract("K15")
async def test_a_backend_killed_in_the_middle_leaves_nothing(empty_database_url: str, folder: Path) -> None:
    (folder / "0002_names.sql").write_text(GROW + "select pg_terminate_backend(pg_backend_pid());\n", encoding="utf-8")

    with pytest.raises(errors.DatabaseUnavailable):
        await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.sql").write_text(GROW, encoding="utf-8")

    assert await migrate.migrate(empty_database_url, folder=folder) == ["0002_names"]


@pytest.mark.contract("K15")
async def test_a_database_newer_than_the_code_is_fine(empty_database_url: str, folder: Path) -> None:
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.sql").unlink()

    assert await migrate.migrate(empty_database_url, folder=folder) == []


@pytest.mark.contract("K15")
async def test_a_database_that_needs_newer_code_is_refused(empty_database_url: str, folder: Path) -> None:
    (folder / "0002_names.sql").write_text(f"-- ferryman: oldest-code 2\n{GROW}", encoding="utf-8")
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.sql").unlink()

    with pytest.raises(errors.DatabaseTooNew, match="0002_names"):
        await migrate.pending(empty_database_url, folder=folder)


async def test_an_index_can_be_made_while_others_write(empty_database_url: str, folder: Path) -> None:
    (folder / "0003_index.sql").write_text(
        "-- ferryman: no-transaction\n"
        "drop index concurrently if exists ferryman.boats_name;\n"
        "create index concurrently boats_name on ferryman.boats (name); -- a semicolon; here\n",
        encoding="utf-8",
    )

    many = await asyncio.gather(*(migrate.migrate(empty_database_url, folder=folder) for _ in range(4)))

    assert sorted(name for names in many for name in names) == ["0001_boats", "0002_names", "0003_index"]
    assert await ask(
        empty_database_url, "select indisvalid from pg_index where indexrelid = 'ferryman.boats_name'::regclass"
    ) == [True]


async def test_a_table_that_a_worker_holds_is_asked_for_again(
    empty_database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "0002_names.sql").rename(folder / "0002_names.later")
    await migrate.migrate(empty_database_url, folder=folder)
    (folder / "0002_names.later").rename(folder / "0002_names.sql")
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT_SECONDS", 0.05)
    worker = Line(empty_database_url)
    async with worker.transaction() as tx:
        await tx.fetch("lock table ferryman.boats in row exclusive mode")
        refused = asyncio.Event()
        apply = migrate._apply

        async def watched(*asked: object) -> bool:
            try:
                return await apply(*asked)  # type: ignore[arg-type]
            except errors.DatabaseUnavailable:
                refused.set()
                raise

        monkeypatch.setattr(migrate, "_apply", watched)
        migrating = asyncio.create_task(migrate.migrate(empty_database_url, folder=folder))
        await refused.wait()
    await worker.close()

    assert await migrating == ["0002_names"]


async def test_the_plan_is_a_script_that_does_the_same(cluster: Cluster, empty_database_url: str, folder: Path) -> None:
    script = await migrate.plan(empty_database_url, schema="harbour", folder=folder)
    line = Line(empty_database_url)
    await (await line.open()).execute(script)
    await line.close()

    assert await migrate.pending(empty_database_url, schema="harbour", folder=folder) == []
    assert await migrate.plan(empty_database_url, schema="harbour", folder=folder) == "-- Nothing to do.\n"


def test_a_gap_in_the_numbers_is_a_mistake(folder: Path) -> None:
    (folder / "0004_late.sql").write_text(GROW, encoding="utf-8")

    with pytest.raises(ValueError, match="0003 is missing"):
        migrate.read(folder)


@pytest.mark.parametrize("name", ["1_short.sql", "0003-dash.sql", "0003_Big.sql"])
def test_a_file_has_a_number_and_a_plain_name(folder: Path, name: str) -> None:
    (folder / name).write_text(GROW, encoding="utf-8")

    with pytest.raises(ValueError, match="0001_what_it_does"):
        migrate.read(folder)


def test_an_unknown_header_is_a_mistake(folder: Path) -> None:
    (folder / "0002_names.sql").write_text("-- ferryman: no-transactions\n", encoding="utf-8")

    with pytest.raises(ValueError, match="no-transactions"):
        migrate.read(folder)
