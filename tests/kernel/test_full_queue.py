"""K2: the server's queue of notifications is full, and nobody is refused for a ring."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.kernel import doorbell_pg
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.telemetry import UNRUNG
from ferryman.testing import Cluster
from tests.conformance.ear import Ear, opened
from tests.kernel.own import Own
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server whose queue has 64 pages, where others have a million."""
    folder = tmp_path_factory.mktemp("small")
    own = Own(folder / "pg")
    try:
        yield Cluster(folder, url=own.start(max_notify_queue_pages="64"))
    finally:
        own.stop()


@pytest.fixture
async def url(small: Cluster) -> AsyncIterator[str]:
    async with small.database() as lent:
        yield lent


@asynccontextmanager
async def filled(url: str, *, at_once: bool = False) -> AsyncIterator[None]:
    """Let somebody listen and stay in a transaction, and notify until no more is taken.

    The server may say that the queue is full while it still keeps what every listener has read, as from the test before. It
    throws that away when it is asked how full the queue is, so there may be room again.
    """
    idler, other = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        await idler.execute("listen hog")
        async with idler.transaction():
            await idler.execute("select 1")
            while await other.fetchval("select pg_notification_queue_usage()") < 1:
                with pytest.raises(asyncpg.ProgramLimitExceededError, match="too many notifications"):
                    await fill(other, 200 if at_once else 4)
            yield
    finally:
        await idler.close()
        await other.close()


async def fill(connection: Any, count: int) -> None:
    while True:
        notify = "select pg_notify('hog', n || repeat('x', 7900)) from generate_series(1, $1::integer) as n"
        await connection.fetch(notify, count)


async def echo(n: int = 0) -> int:
    return n


async def unrung() -> None:
    """Wait until one more ring could not be sent."""
    count = UNRUNG.of("postgres")._value
    before = count.get()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while count.get() == before:  # noqa: ASYNC110 - the sign is a count
            await asyncio.sleep(0.01)


async def create_one(app: Ferryman) -> None:
    await app.tasks.create(echo, n=1)


async def create_keyed(app: Ferryman) -> None:
    await app.tasks.create(echo, {"n": 1}, idempotency_key="order-7")


async def create_many(app: Ferryman) -> None:
    await app.tasks.create_many(echo, [{"n": 1}, {"n": 2}])


@pytest.mark.contract("K2")
@pytest.mark.parametrize("create", [create_one, create_keyed, create_many])
async def test_a_create_is_taken_and_its_ring_is_heard_when_there_is_room(url: str, create: Any) -> None:
    app, elsewhere = Ferryman(url), PostgresDoorbell(url)
    app.task(echo)
    ear = Ear(elsewhere)
    async with app, opened(elsewhere):
        async with filled(url):
            await create(app)
            tasks = await app.tasks.list()
            await unrung()
            heard = list(ear.heard)

        await ear.until(lambda ear: bool(ear.hints))

    assert len(tasks) >= 1
    assert heard == []


@pytest.mark.contract("K2")
async def test_work_is_found_by_polling(url: str) -> None:
    app = Ferryman(url, worker={"poll": "20ms"})
    app.task(echo)
    async with app, app.worker(), filled(url):
        made = [await app.tasks.create(echo, n=n) for n in range(3)]

        assert [await each.result(timeout=PATIENCE_SECONDS) for each in made] == [0, 1, 2]


@pytest.mark.contract("K2", "K16")
async def test_a_lent_transaction_commits(url: str) -> None:
    app, caller = Ferryman(url), await asyncpg.connect(url)
    app.task(echo)
    async with app, filled(url):
        async with caller.transaction():
            kept = await app.tasks.create(echo, n=1, connection=caller)
        async with caller.transaction():
            await app.tasks.cancel(kept.id, connection=caller)
        async with caller.transaction():
            await app.commands.send("anything", {}, connection=caller)
        found = await app.tasks.list()
    await caller.close()

    assert {(each.id, each.state) for each in found} >= {(kept.id, "cancelled")}


@pytest.mark.contract("K2", "K16")
async def test_a_create_from_sql_commits(url: str) -> None:
    caller = await asyncpg.connect(url)
    async with filled(url):
        rows = await caller.fetch("""select state from ferryman.create_tasks('{"name": "echo"}')""")
    await caller.close()

    assert [row["state"] for row in rows] == ["ready"]


@pytest.mark.contract("K2", "K24")
@pytest.mark.parametrize("at_once", [False, True], ids=["by many", "by one that failed"])
async def test_a_listener_hears_again_when_there_is_room(
    url: str, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """One large transaction that fails fills the queue, and wakes nobody who would read it."""
    monkeypatch.setattr(doorbell_pg, "PROBE_SECONDS", 0.1)
    here, there = PostgresDoorbell(url), PostgresDoorbell(url)
    ear = Ear(there)
    async with opened(here, there):
        async with filled(url, at_once=at_once):
            here.ring("ready", ["mail"])
            await unrung()
            early = list(ear.heard)
        await ear.until(lambda ear: bool(ear.heard))  # the ring, or a look at everything by who was deaf meanwhile

    assert early == []


@pytest.mark.contract("W21")
async def test_the_doctor_says_how_full_it_is(url: str) -> None:
    before = await asyncio.to_thread(ferry.run, "doctor", "--quick", "--json", url=url)
    async with filled(url):
        during = await asyncio.to_thread(ferry.run, "doctor", "--quick", "--json", url=url)

    [calm] = [each for each in before.json["readings"] if each["name"] == "notifications"]
    [told] = [each for each in during.json["readings"] if each["name"] == "notifications"]
    assert calm["verdict"] == "good"
    assert (told["verdict"], "100%" in told["says"], "pg_terminate_backend" in told["advice"]) == ("bad", True, True)
