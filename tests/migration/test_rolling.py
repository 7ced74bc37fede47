"""K15: a migration that only adds is applied while workers of the version before go on."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

import ferryman
from ferryman import Ferryman
from ferryman.kernel import migrate
from ferryman.testing import Cluster
from tests.crash import cargo, judge
from tests.migration import claims, stalls
from tests.patience import PATIENCE_SECONDS

ADDED = """
alter table ferryman.tasks add column colour text;
create table ferryman.colours (name text primary key);
alter table ferryman.tasks add constraint tasks_colour_short check (length(colour) < 100) not valid;
"""
# What a worker may wait for one such file: its locks are asked for again and again, each time for a moment.
STALL_SECONDS = 20.0
# So often a claim was behind a migration that asked for its table in vain.
TRIES_SEEN = 3
MIGRATIONS = Path(ferryman.__file__).parent / "migrations"
# The first migration with which the statement of a claim works as it is today.
CLAIMABLE = 6
# So many that a table which is written anew is seen.
TASKS = 20_000


def grown(place: Path) -> Path:
    """Return the migrations of a version that is to come."""
    folder = place / "migrations"
    shutil.copytree(MIGRATIONS, folder)
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
    cluster: Cluster, tmp_path: Path, held: str, more: str
) -> None:
    folder = grown(tmp_path)
    newest = max(folder.glob("*.sql"))
    newest.write_text(ADDED + more, encoding="utf-8")

    async def measure() -> stalls.Stall:
        async with cluster.database() as url:
            await claims.fill(url, TASKS)
            async with claims.claiming(url) as claimer, stalls.noise() as noise:
                assert await claims.beside(url, folder, claimer, held=held, tries=TRIES_SEEN) == [newest.stem]
        assert len(claimer.told.waits) >= TRIES_SEEN
        return claimer.stall(noise)

    assert (await stalls.steady(measure)).short


@pytest.mark.contract("K15", "K24")
async def test_no_claim_stands_long_behind_any_of_the_migrations_there_are(cluster: Cluster, tmp_path: Path) -> None:
    """Each is applied by itself, with tasks in the table and a stranger's transaction on every table that it may ask for."""

    async def measure() -> stalls.Stall:
        async with cluster.database(migrated=False) as url:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            found = [await one_more(url, folder, file) for file in sorted(MIGRATIONS.glob("*.sql"))]
        return max(found, key=lambda it: (it.seconds - min(it.noise, stalls.NOISE_SECONDS), it.seconds))

    assert (await stalls.steady(measure)).short


async def one_more(url: str, folder: Path, file: Path) -> stalls.Stall:
    """Apply the next file, with claims beside it once there is something that they can claim."""
    shutil.copy(file, folder)
    if int(file.name[:4]) <= CLAIMABLE:
        assert await migrate.migrate(url, folder=folder) == [file.stem]
        if int(file.name[:4]) == CLAIMABLE:
            await claims.fill(url, TASKS)
        return stalls.Stall(0.0, 0.0)
    async with claims.claiming(url) as claimer, stalls.noise() as noise:
        await claimer.turn()
        assert await claims.beside(url, folder, claimer, held=claims.EVERY_TABLE, tries=1) == [file.stem]
    return claimer.stall(noise)


async def test_a_migration_that_keeps_its_table_is_seen_in_the_time_of_claims(
    database_url: str, tmp_path: Path
) -> None:
    await claims.fill(database_url, TASKS)
    folder = grown(tmp_path)
    newest = max(folder.glob("*.sql"))
    newest.write_text(f"{ADDED}select pg_sleep({2 * stalls.STALL_SECONDS});\n", encoding="utf-8")
    async with claims.claiming(database_url) as claimer:
        await claims.beside(database_url, folder, claimer, held="select 1", tries=1)

    assert not stalls.Stall(max(claimer.times), stalls.NOISE_SECONDS).short
    assert not stalls.Stall(max(claimer.told.waits), stalls.NOISE_SECONDS).short


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
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in before] == list(range(1000))

    rows = await judge.read(database_url, "select distinct state, attempt from ferryman.tasks")
    assert (applied[5:], [tuple(row) for row in rows]) == ("colours", [("succeeded", 1)])
    assert await cargo.broken(database_url) == []
