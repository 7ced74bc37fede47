"""R9: a trial is on the database of its test, whatever the settings of the app say; nothing else is asked or told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from ferryman import Ferryman
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.nats_flush import flush_all
from ferryman.testing import Cluster, NatsServer, trial
from tests.patience import PATIENCE_SECONDS
from tests.stream_server import serve


class Production:
    """Where the app lives when it is no test: a server that counts who comes, and hangs up."""

    def __init__(self) -> None:
        self.came = 0
        self.port = 0

    def url(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.port}/orders"

    async def meet(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        writer.close()


@pytest.fixture
async def production() -> AsyncIterator[Production]:
    made = Production()
    async with serve(made.meet) as made.port:
        yield made


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as server:
        yield server


def story(url: str = "postgresql://nowhere", **settings: Any) -> Ferryman:
    app = Ferryman(url, **settings)

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return app


@pytest.mark.contract("R9")
@pytest.mark.parametrize("doorbell", ["postgres", "nats", "none"])
async def test_no_address_of_the_settings_is_asked(database_url: str, production: Production, doorbell: str) -> None:
    app = story(
        production.url("postgresql"), listen_url=production.url("postgresql"), nats_url=production.url("nats"),
        doorbell=doorbell, relays={"nats": "on"},
    )  # fmt: skip
    before = app.settings
    async with trial.opened(app, database_url) as given:
        task = await app.tasks.create("greet", {"name": "Ada"})
        await given.run()
        assert await task.result(timeout=PATIENCE_SECONDS) == "Hello, Ada"
        assert app.settings.doorbell == ("none" if doorbell == "none" else "postgres")

    assert production.came == 0
    assert app.settings is before


@pytest.mark.contract("R9")
async def test_an_app_that_is_open_elsewhere_is_not_tried_there(database_url: str, cluster: Cluster) -> None:
    async with cluster.database() as elsewhere:
        app = story(elsewhere)
        async with app:
            before = app.settings
            with pytest.raises(RuntimeError, match="open already"):
                async with trial.opened(app, database_url) as given:
                    await given.travel(days=1)

            assert app.settings is before
            async with app.database.session() as tx:
                [row] = await tx.fetch("select ferryman.clock() - clock_timestamp() < interval '1 hour' as today")
    assert row["today"]


@pytest.mark.contract("R9")
async def test_the_log_of_a_test_is_told_to_nobody(database_url: str, nats_server: NatsServer) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    client = await nats.connect(nats_server.url)

    async def hear(message: Msg) -> None:
        heard.put_nowait(message.subject)

    await client.subscribe("fm.>", cb=hear)
    await flush_all(client)
    app = story(nats_url=nats_server.url, doorbell="postgres", relays={"nats": "on"})

    @app.task
    async def linger() -> str:
        """Stay for as long as a relay needs to tell of what has happened by now; what must not come has no sign to wait for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                return await heard.get()
        return "nothing"

    async with trial.opened(app, database_url) as given:
        task = await app.tasks.create("linger")
        await given.run()
        told = await task.result(timeout=PATIENCE_SECONDS)
    streams = await client.jetstream().streams_info()
    await client.close()

    assert (told, streams) == ("nothing", [])


@pytest.mark.contract("R9")
async def test_a_doorbell_made_by_hand_stays(database_url: str) -> None:
    bell = NoDoorbell()
    app = Ferryman("postgresql://nowhere", doorbell=bell)
    async with trial.opened(app, database_url):
        assert app.doorbell is bell


@pytest.mark.contract("R9")
async def test_an_app_with_a_schema_of_its_own_is_tried_in_it(cluster: Cluster) -> None:
    app = story(schema="harbour")
    async with cluster.database(schema="harbour") as url, trial.opened(app, url) as given:
        task = await app.tasks.create("greet", {"name": "Ada"})
        await given.travel(hours=1)
        await given.run()
        assert await task.result(timeout=PATIENCE_SECONDS) == "Hello, Ada"
