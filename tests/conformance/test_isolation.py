"""K24: all work ends as it should on a database whose transactions are serializable, or repeatable read, by default."""

import asyncio
import logging
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import pytest

from ferryman import Context, Ferryman
from ferryman.app.wiring import watched
from ferryman.kernel import invariants
from ferryman.testing import travel
from tests.ingest.harbour import prepare
from tests.proof.errands import Gate, built, everything

MANY = 200
PATIENCE_SECONDS = 60.0
LEASE = "select epoch, leased_until from ferryman.tasks where id = $1"


@pytest.fixture(params=["serializable", "repeatable read"])
async def url(request: pytest.FixtureRequest, database_url: str) -> str:
    """A database whose default isolation level is not read committed."""
    name = urlsplit(database_url).path.removeprefix("/")
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"alter database {name} set default_transaction_isolation = '{request.param}'")
    await connection.close()
    return database_url


@pytest.mark.contract("K24", "R8")
async def test_all_domains_work_whatever_the_default_isolation_level_is(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="ferryman")
    app, _sink = built(url, url, Gate(), hours=1, lease="6s", lease_sweep_seconds=0.2, watchdog_interval_seconds=0.2)
    app.declare("elsewhere", queue="elsewhere")
    release = asyncio.Event()

    @app.task
    async def step(n: int, ctx: Context) -> int:
        return int(await ctx.step("double", lambda: 2 * n))

    @app.task
    async def sum_of(ctx: Context) -> int:
        word = await ctx.wait_event("go", timeout=PATIENCE_SECONDS)
        return int(word) + sum(await ctx.join([ctx.child(step, {"n": n}) for n in range(3)]))

    @app.task
    async def held() -> str:
        await release.wait()
        return "renewed"

    async with asyncio.timeout(2 * PATIENCE_SECONDS), app:
        await prepare(app.database)
        async with app.worker(), app.worker(concurrency=5):
            # Creates that meet: two callers use each key.
            keyed = [app.tasks.create("step", n=n // 2, idempotency_key=f"k{n // 2}") for n in range(40)]
            assert len({each.id for each in await asyncio.gather(*keyed)}) == 20
            many = await app.tasks.create_many("step", [{"n": n} for n in range(MANY)])
            whole = await app.tasks.create("sum_of", {})
            await app.tasks.send_event(whole.id, "go", 4)
            long = await app.tasks.create("held", {})
            await everything(app, 0)
            assert await asyncio.gather(*(each.result() for each in many)) == [2 * n for n in range(MANY)]
            assert await whole.result() == 10
            await renewed(app, long.id)
            release.set()
            assert await long.result() == "renewed"
            # The watchdog cancels what is past its end, and retention deletes what has finished.
            late = await app.tasks.create("elsewhere", {})
            async with app.database.session() as tx:
                await travel(tx, timedelta(days=40))
            while [task.state for task in await app.tasks.list()] != ["cancelled"]:  # noqa: ASYNC110 - shown by the database
                await asyncio.sleep(0.05)
            assert (await late.refresh()).state == "cancelled"
        async with app.database.session() as tx:
            assert await invariants.check(tx, watched.invariants()) == []
    assert [record.getMessage() for record in caplog.records if "serialize" in record.getMessage()] == []


async def renewed(app: Ferryman, id: object) -> None:
    """Wait until one holder of a task has renewed its lease."""
    ends: dict[int, set[object]] = {}
    while max(map(len, ends.values()), default=0) < 2:
        async with app.database.session() as tx:
            [row] = await tx.fetch(LEASE, id)
        if row["leased_until"] is not None:
            ends.setdefault(row["epoch"], set()).add(row["leased_until"])
        await asyncio.sleep(0.05)
