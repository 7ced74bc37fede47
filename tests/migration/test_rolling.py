"""K15: a migration that only adds is applied while workers of the version before go on."""

import asyncio
import shutil
from pathlib import Path

import asyncpg
import pytest

import ferryman
from ferryman import Ferryman
from ferryman.kernel import migrate
from tests.crash import cargo, judge
from tests.migration import stalls

ADDED = """
alter table ferryman.tasks add column colour text;
create table ferryman.colours (name text primary key);
alter table ferryman.tasks add constraint tasks_colour_short check (length(colour) < 100) not valid;
"""
# What a worker may wait for one such file: its locks are asked for again and again, each time for a moment.
STALL_SECONDS = 20.0
# So often a claim was behind a migration that asked for its table in vain.
TRIES_SEEN = 3


def grown(place: Path) -> Path:
    """Return the migrations of a version that is to come."""
    folder = place / "migrations"
    shutil.copytree(Path(ferryman.__file__).parent / "migrations", folder)
    number = max(int(file.name[:4]) for file in folder.glob("*.sql")) + 1
    (folder / f"{number:04}_colours.sql").write_text(ADDED, encoding="utf-8")
    return folder


@pytest.mark.contract("K15", "K24")
@pytest.mark.parametrize(
    ("held", "more"),
    [
        ("select from ferryman.tasks limit 1 for update", ""),
        # It has the table of tasks in hand and wants another: for how long is in tests/unit/test_script.py.
        ("lock table ferryman.workers in share mode", "alter table ferryman.workers add column colour text;\n"),
    ],
    ids=["the first table", "the next table"],
)
async def test_a_migration_that_waits_for_a_table_holds_up_nobody_for_long(
    database_url: str, tmp_path: Path, held: str, more: str
) -> None:
    folder = grown(tmp_path)
    newest = max(folder.glob("*.sql"))
    newest.write_text(ADDED + more, encoding="utf-8")
    stranger = await asyncpg.connect(database_url)
    claimer = await asyncpg.connect(database_url)
    told = stalls.Told()
    await told.listen(claimer)
    try:
        async with stalls.noise() as noise:
            async with stranger.transaction():
                await stranger.execute(held)
                migrating = asyncio.create_task(migrate.migrate(database_url, folder=folder))
                async with asyncio.timeout(STALL_SECONDS):
                    while len(told.waits) < TRIES_SEEN:
                        assert not migrating.done()
                        await claimer.execute("update ferryman.tasks set state = 'running' where false")
                        await asyncio.sleep(0.002)
            async with asyncio.timeout(STALL_SECONDS):
                assert len(await migrating) == 1
    finally:
        await stranger.close()
        await claimer.close()
    # PostgreSQL says how long each wait was. It is woken in time also where the machine is busy; who migrates may be late.
    assert max(told.waits) < stalls.STALL_SECONDS + noise.seconds


@pytest.mark.contract("K15", "K24")
async def test_a_worker_of_the_version_before_goes_on_while_tables_grow(database_url: str, tmp_path: Path) -> None:
    folder = grown(tmp_path)
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
    assert (applied[5:], [tuple(row) for row in rows]) == ("colours", [("succeeded", 1)])
    assert await cargo.broken(database_url) == []
