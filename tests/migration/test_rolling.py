"""K15: a migration that only adds is applied while workers of the version before go on."""

import asyncio
import shutil
from pathlib import Path

import pytest

import ferryman
from ferryman import Ferryman
from ferryman.kernel import migrate
from tests.crash import cargo, judge

ADDED = """
alter table ferryman.tasks add column colour text;
create table ferryman.colours (name text primary key);
alter table ferryman.tasks add constraint tasks_colour_short check (length(colour) < 100) not valid;
"""
# What a worker may wait for one such file: its locks are asked for again and again, each time for a moment.
STALL_SECONDS = 20.0


@pytest.mark.contract("K15", "K24")
async def test_a_worker_of_the_version_before_goes_on_while_tables_grow(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(Path(ferryman.__file__).parent / "migrations", folder)
    number = max(int(file.name[:4]) for file in folder.glob("*.sql")) + 1
    (folder / f"{number:04}_colours.sql").write_text(ADDED, encoding="utf-8")
    app = Ferryman(database_url, worker={"poll": "0.1s", "lease": "60s"})

    @app.task(max_retries=0)
    async def echo(n: int) -> int:
        return n

    async with app, app.worker():
        before = await app.tasks.create_many(echo, [{"n": n} for n in range(1000)])
        async with asyncio.timeout(STALL_SECONDS):
            [applied] = await migrate.migrate(database_url, folder=folder)
            after = [await app.tasks.create(echo, n=n) for n in range(100)]
            assert [await each.result() for each in after] == list(range(100))
        assert [await each.result(timeout=60) for each in before] == list(range(1000))

    rows = await judge.read(database_url, "select distinct state, attempt from ferryman.tasks")
    assert (applied, [tuple(row) for row in rows]) == (f"{number:04}_colours", [("succeeded", 1)])
    assert await cargo.broken(database_url) == []
