"""K15: a role that is no superuser and owns nothing but the database, or no more than the schema in it, can do everything."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from ferryman.kernel import events, migrate
from ferryman.kernel.pool import Database
from ferryman.testing import Cluster
from tests.docs import test_blocks
from tests.surfaces import ferry

# All five domains, and what else goes through the database in a way of its own.
STORIES = [
    "docs/tutorial.md",
    *(f"docs/guide/{name}.md" for name in ("failing", "relays", "schedules", "transactions")),
]


@pytest.fixture
def role() -> str:
    return f"plain_{uuid4().hex[:12]}"


async def lend(cluster: Cluster, role: str, *statements: str) -> AsyncIterator[str]:
    """Make a role, and let it have a database by these statements."""
    address = cluster.address("postgres")
    owner = await asyncpg.connect(address)
    await owner.execute(f"create role {role} login")
    url = await cluster.lend(migrated=False)
    name = urlsplit(url).path.removeprefix("/")
    within = await asyncpg.connect(url)
    try:
        for statement in statements:
            await within.execute(statement.format(role=role, name=name))
        await within.close()
        parts = urlsplit(url)
        yield urlunsplit(parts._replace(netloc=parts.netloc.replace("postgres@", f"{role}@")))
    finally:
        await cluster.take_back(url)
        await owner.execute(f"drop role {role}")
        await owner.close()


@pytest.fixture(params=["the database", "the schema"])
async def owned(request: pytest.FixtureRequest, cluster: Cluster, role: str) -> AsyncIterator[str]:
    """An empty database of which a plain role owns that."""
    gift = {
        "the database": "alter database {name} owner to {role}",
        "the schema": "create schema ferryman authorization {role}",
    }
    async for url in lend(cluster, role, gift[request.param]):
        yield url


@pytest.mark.contract("K15")
async def test_it_migrates_works_keeps_house_and_is_found_healthy(owned: str) -> None:
    applied = await migrate.migrate(owned)
    with ferry.worker(url=owned):
        created = ferry.run("task", "create", "greet", '{"name": "Ada"}', "--wait", url=owned)
        doctor = ferry.run("doctor", "--json", url=owned)
    db = Database(owned)
    await db.open()
    async with db.session() as tx:
        made = await events.ensure_partitions(tx, ahead=timedelta(days=9))
        dropped = await events.drop_partitions(tx, older_than=timedelta(days=-30))  # all days, those to come among them
    await db.close()

    assert len(applied) == len(migrate.read())
    assert (created.code, doctor.code) == (0, 0), created.err + doctor.out
    assert made
    assert set(made) <= set(dropped)


@pytest.mark.parametrize("owned", ["the database"], indirect=True)
@pytest.mark.parametrize("page", STORIES)
async def test_it_lives_through_the_stories_of_the_pages(
    owned: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate.migrate(owned)
    monkeypatch.setenv("FERRYMAN_DATABASE_URL", owned)
    monkeypatch.setenv("PYTHONPATH", str(test_blocks.ROOT / "src"))
    monkeypatch.chdir(tmp_path)

    # The blocks bring a loop of their own.
    await asyncio.to_thread(test_blocks.run, test_blocks.ROOT / page)
