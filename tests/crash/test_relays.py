"""R1: whoever relays the log is killed at every point between reading and keeping: nothing is lost, repeats have one id."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from ferryman import Ferryman
from ferryman.kernel import invariants
from ferryman.relays import webhook
from ferryman.relays.watch import RELAY_INVARIANTS
from ferryman.testing import NatsServer, travel
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import PATIENCE_SECONDS, RELAY_POINTS, until
from tests.relays.receiver import receiving

KEY = "0123456789abcdef0123456789abcdef"
TASKS = 30
MSG_ID = "Nats-Msg-Id"


@pytest.mark.contract("R1", "K10", "K5", "K24")
async def test_the_log_goes_out_whole_through_the_deaths_of_its_relays(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    published: list[str] = []

    async def hear(message: Msg) -> None:
        published.append((message.headers or {})[MSG_ID])

    with NatsServer(tmp_path / "nats") as server:
        client = await nats.connect(server.url)
        await client.subscribe("fm.>", cb=hear)
        await client.flush()
        settings: dict[str, Any] = {"webhook_key": KEY, "private_networks": "127.0.0.0/8", "timeout": "5s"}
        async with receiving() as receiver, Ferryman(database_url, relays=settings) as app:
            added = await app.webhooks.add(receiver.url(), kinds=["task"])
            await cargo.load(database_url, TASKS)
            lives = [f"{point}=kill@{hit}" for point, hit in RELAY_POINTS.items()]
            relay = ship(database_url, lives=[*lives, ""]).start(
                FERRYMAN_NATS_URL=server.url, FERRYMAN_DOORBELL="postgres", FERRYMAN_RELAYS__NATS="on",
                **{f"FERRYMAN_RELAYS__{name.upper()}": value for name, value in settings.items()},
            )  # fmt: skip
            await relay.seen("died", count=len(lives))
            async with app.database.transaction() as tx:
                await travel(tx, timedelta(seconds=15))  # past every lease of the dead
            await judge.all_ended(database_url)
            await told(app, receiver.calls)
            await caught_up(app)
            log = await log_of(app, "true")
            moves = await log_of(app, "kind = 'task'")
            stream = client.jetstream()
            kept = [
                ((await stream.get_msg("FERRYMAN", number)).headers or {})[MSG_ID]
                for number in range(1, (await stream.stream_info("FERRYMAN")).state.last_seq + 1)
            ]
            async with app.database.session() as tx:
                broken = await invariants.check(tx, RELAY_INVARIANTS)
            deliveries = await app.webhooks.deliveries(added.webhook.id, limit=1000)
        await client.close()

    assert {point: relay.strikes(point) for point in RELAY_POINTS} == dict.fromkeys(RELAY_POINTS, 1)
    assert kept == log  # each once, in order
    assert set(published) == set(log)
    assert len(published) > len(log)  # who died after publishing was repeated, under the same ids
    assert {f"evt_{each.event_id}" for each in deliveries} == set(moves)
    assert {each.state.value for each in deliveries} == {"delivered"}
    heard = [webhook.verify(call.body, call.headers, secret=added.secret) for call in receiver.calls]
    assert set(heard) == set(moves)
    assert len(heard) > len(moves)
    assert len({(call.event, call.body) for call in receiver.calls}) == len(moves)
    assert await cargo.broken(database_url) == []
    assert broken == []


async def log_of(app: Ferryman, like: str) -> list[str]:
    async with app.database.session() as tx:
        return [
            f"evt_{row['id']}" for row in await tx.fetch(f"select id from ferryman.events where {like} order by id")
        ]


async def told(app: Ferryman, calls: list[Any]) -> None:
    """Wait until the receiver has heard of every move."""
    moves = len(await log_of(app, "kind = 'task'"))
    await until(lambda: len({call.event for call in calls}) >= moves, "all calls")


async def caught_up(app: Ferryman) -> None:
    """Wait until every delivery has ended and every reader is at the end of the log."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        async with app.database.session() as tx:
            [row] = await tx.fetch("select count(*) as owed from ferryman.webhook_deliveries where finished_at is null")
        standings = await app.relays.status()
        if row["owed"] == 0 and all(each.behind == 0 for each in standings):
            return
        assert time.monotonic() < deadline, f"{row['owed']} owed, {standings}"
        await asyncio.sleep(0.02)
