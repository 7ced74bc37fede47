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


# What a stranger holds, and what the migration wants besides.
IN_THE_WAY = {
    "the first table": ("select from ferryman.tasks limit 1 for update", ""),
    # It has the table of tasks in hand and wants another: for how long is in tests/unit/test_script.py.
    "the next table": (
        "lock table ferryman.workers in share mode",
        "alter table ferryman.workers add column colour text;\n",
    ),
}


async def stall_of_a_new_one(cluster: Cluster, place: Path, what: str) -> stalls.Stall:
    """Apply a migration that has to ask for its table again and again, while a worker claims."""
    held, more = IN_THE_WAY[what]
    folder = grown(Path(tempfile.mkdtemp(dir=place)))
    newest = max(folder.glob("*.sql"))
    newest.write_text(ADDED + more, encoding="utf-8")
    async with cluster.database() as url:
        await claims.fill(url, TASKS)
        async with claims.claiming(url) as claimer, stalls.noise() as noise:
            assert await claims.beside(url, folder, claimer, held=held, tries=TRIES_SEEN) == [newest.stem]
    assert len(claimer.told.waits) >= TRIES_SEEN
    return claimer.stall(noise)


async def stall_of_all(cluster: Cluster, place: Path) -> stalls.Stall:
    """Apply each by itself, with tasks in the table and a stranger's transaction on every table that it may ask for."""
    async with cluster.database(migrated=False) as url:
        folder = Path(tempfile.mkdtemp(dir=place))
        found = [await one_more(url, folder, file) for file in sorted(MIGRATIONS.glob("*.sql"))]
    return max(found, key=lambda it: (it.seconds - min(it.noise, stalls.NOISE_SECONDS), it.seconds))


@pytest.mark.contract("K15", "K24")
@pytest.mark.parametrize("what", IN_THE_WAY)
async def test_claims_go_on_while_a_migration_waits_for_a_table(cluster: Cluster, tmp_path: Path, what: str) -> None:
    """A claim that had to wait for the migration would wait for the stranger too, who stays until claims have gone on.

    How long the longest claim took is measured by tests/proof/test_stalls.py.
    """
    await stall_of_a_new_one(cluster, tmp_path, what)


@pytest.mark.contract("K15", "K24")
async def test_claims_go_on_beside_each_of_the_migrations_there_are(cluster: Cluster, tmp_path: Path) -> None:
    await stall_of_all(cluster, tmp_path)


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
        async with asyncio.timeout(PATIENCE_SECONDS):
            [applied] = await migrate.migrate(database_url, folder=folder)
            after = [await app.tasks.create(echo, n=n) for n in range(100)]
            assert [await each.result() for each in after] == list(range(100))
        assert [await each.result(timeout=PATIENCE_SECONDS) for each in before] == list(range(1000))

    rows = await judge.read(database_url, "select distinct state, attempt from ferryman.tasks")
    assert (applied[5:], [tuple(row) for row in rows]) == ("colours", [("succeeded", 1)])
    assert await cargo.broken(database_url) == []
