"""An app whose relays run alone: no handler is needed for the log to grow."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import pytest

from ferryman import Ferryman
from ferryman.app import relays as outgoing
from ferryman.kernel import ids, part
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Line
from ferryman.relays.model import Delivery, Webhook
from ferryman.relays.work.part import Terms
from ferryman.testing import NatsServer, travel
from tests.patience import PATIENCE_SECONDS
from tests.relays.receiver import Receiver, receiving

KEY = "0123456789abcdef0123456789abcdef"
LOOPBACK = "127.0.0.0/8"


class Make(Protocol):
    """Makes apps on the database of the test."""

    def __call__(self, **relays: Any) -> Ferryman: ...


@pytest.fixture
def make(database_url: str) -> Make:
    def made(*, nats_url: str | None = None, **relays: Any) -> Ferryman:
        terms = {"webhook_key": KEY, "private_networks": LOOPBACK, "timeout": "5s"} | relays
        app = Ferryman(
            database_url=database_url, nats_url=nats_url, doorbell=NoDoorbell(), worker={"poll": "0.05s"}, relays=terms
        )
        app.declare("mail")
        return app

    return made


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@asynccontextmanager
async def relaying(
    app: Ferryman, *, lease: timedelta = timedelta(seconds=30), grace: float = 5.0
) -> AsyncIterator[None]:
    """Run the relays of an app, and nothing else, as long as the block lasts."""
    stop = asyncio.Event()
    terms = Terms(ids.boot_id(), lease, app.settings.worker.poll)
    url = app.settings.database_url
    assert url is not None
    parts = outgoing.parts(app.settings, app.doorbell, line=partial(Line, url), terms=terms)
    running = asyncio.create_task(part.run(parts, stop, grace=timedelta(seconds=grace)))
    try:
        yield
    finally:
        stop.set()
        await running


async def later(app: Ferryman, by: timedelta) -> None:
    """Move the clock, and let the relays look."""
    async with app.database.transaction() as tx:
        await travel(tx, by)
    app.doorbell.ring("webhooks")


async def happen(app: Ferryman, count: int = 1) -> list[str]:
    """Let tasks be born; return their ids."""
    return [str((await app.tasks.create("mail")).id) for _ in range(count)]


async def until(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Look until there is something to see."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (seen := await look()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)
    return seen


async def caught_up(app: Ferryman, *names: str) -> None:
    """Wait until these readers of the log are there, and at its end."""

    async def look() -> bool:
        behind = {each.name: each.behind for each in await app.relays.status()}
        return all(behind.get(name) == 0 for name in names)

    await until(look, f"{' and '.join(names)} at the end of the log")


async def owed(app: Ferryman, webhook: Webhook, **like: Any) -> list[Delivery]:
    """Read the deliveries of a webhook that are like this, the oldest first."""
    found = await app.webhooks.deliveries(webhook.id, limit=1000)
    return [each for each in reversed(found) if all(getattr(each, name) == value for name, value in like.items())]


async def settled(app: Ferryman, webhook: Webhook, count: int = 1, **like: Any) -> list[Delivery]:
    """Wait until so many deliveries of a webhook are like this."""

    async def look() -> list[Delivery] | None:
        found = await owed(app, webhook, **like)
        return found if len(found) >= count else None

    found: list[Delivery] = await until(look, f"{count} deliveries like {like}")
    return found
