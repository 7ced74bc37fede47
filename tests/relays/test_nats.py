"""The relay to NATS against a real server: order, repeats, take-over, a server that goes away, a stream that is not ours."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import StreamConfig, StreamInfo

from ferryman import Ferryman
from ferryman.kernel import errors, faults, telemetry
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Event
from ferryman.kernel.nats_flush import flush_all
from ferryman.relays.model import Address
from ferryman.relays.ports import Tellers
from ferryman.relays.work.broker import MSG_ID, Broker, BrokerAway, Message
from ferryman.testing import NatsServer
from tests.freeze import frozen
from tests.patience import PATIENCE_SECONDS
from tests.relays import conftest
from tests.relays.conftest import Make, happen, later, relaying, until

pytestmark = pytest.mark.usefixtures("patient_transactions")

SECOND = timedelta(seconds=1)


class Coast:
    """A stream of the test's own, and whatever is published for it."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.js = client.jetstream()
        self.name = name
        self.published: list[Msg] = []

    async def info(self) -> StreamInfo:
        return await self.js.stream_info(self.name)

    async def kept(self) -> list[tuple[str, str]]:
        """Return the ids and subjects of what the stream keeps, in order."""
        state = (await self.info()).state
        found = [await self.js.get_msg(self.name, seq) for seq in range(1, state.last_seq + 1)]
        return [((each.headers or {})[MSG_ID], each.subject or "") for each in found]

    async def seen(self, count: int) -> list[Msg]:
        """Wait until so much was published, repeats included."""

        async def look() -> bool:
            return len(self.published) >= count

        await until(look, f"{count} messages")
        return self.published

    def ids(self) -> list[str]:
        return [(each.headers or {})[MSG_ID] for each in self.published]


@pytest.fixture
async def coast(nats_server: NatsServer, request: pytest.FixtureRequest) -> AsyncIterator[Coast]:
    async with watching(nats_server.url, f"T{abs(hash(request.node.name))}") as made:
        yield made


@asynccontextmanager
async def watching(url: str, name: str) -> AsyncIterator[Coast]:
    client = await nats.connect(url)
    coast = Coast(client, name)

    async def hear(message: Msg) -> None:
        coast.published.append(message)

    await client.subscribe(f"{name}.>", cb=hear)
    await flush_all(client)
    yield coast
    await client.close()


def app_of(make: Make, server: NatsServer, coast: Coast, **more: Any) -> Ferryman:
    return make(nats_url=server.url, nats="on", webhooks="off", stream=coast.name, prefix=coast.name, **more)


async def caught_up(app: Ferryman) -> None:
    await conftest.caught_up(app, "relay.nats")


async def log_of(app: Ferryman) -> list[str]:
    async with app.database.session() as tx:
        rows = await tx.fetch("select id, ferryman.event_token(logged_at) as token from ferryman.events order by id")
    return [EventId(row["id"], row["token"]).name for row in rows]


@pytest.mark.contract("K10", "K19")
async def test_each_event_is_one_message_in_order_under_its_own_id(
    make: Make, nats_server: NatsServer, coast: Coast
) -> None:
    async with app_of(make, nats_server, coast) as app:
        before = await happen(app, 3)
        async with relaying(app):
            after = await happen(app, 3)
            await coast.seen(6)
            await caught_up(app)
        log = await log_of(app)

    assert await coast.kept() == [
        (id, f"{coast.name}.v1.default.main.evt.task.{task}.ready")
        for id, task in zip(log, before + after, strict=True)
    ]
    assert coast.ids() == log
    told = json.loads(coast.published[0].data)
    assert (told["event_id"], told["payload"]["task_id"]) == (log[0], before[0])
    config = (await coast.info()).config
    assert (config.max_age, config.duplicate_window) == (7 * 24 * 3600, 600)
    assert config.subjects == [f"{coast.name}.v1.*.*.evt.>"]


@pytest.mark.contract("K10")
async def test_a_server_that_goes_away_is_waited_for_and_misses_nothing(make: Make, tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        name = "AWAY"
        async with (
            make(nats_url=server.url, nats="on", stream=name, prefix=name) as app,
            relaying(app, lease=3 * SECOND),
        ):
            await happen(app, 5)
            await caught_up(app)
            server.stop()
            await happen(app, 5)

            async def let_go() -> bool:
                return all(each.lease_owner is None for each in await app.relays.status())

            await until(let_go, "the relay to let go")
            server.start()
            await happen(app, 5)
            await caught_up(app)
            log = await log_of(app)
        async with watching(server.url, name) as coast:
            assert [id for id, _ in await coast.kept()] == log


@pytest.mark.contract("K10")
async def test_of_two_relays_one_publishes_and_the_other_takes_over_when_it_stops(
    make: Make, nats_server: NatsServer, coast: Coast
) -> None:
    async with app_of(make, nats_server, coast) as app, relaying(app):
        async with relaying(app):
            await happen(app, 10)
            await coast.seen(10)
            await caught_up(app)
            [first] = await app.relays.status()
        # One of the two has stopped, whichever it was.
        await happen(app, 10)
        await coast.seen(20)
        await caught_up(app)
        log = await log_of(app)

    assert first.lease_owner is not None
    assert coast.ids() == log


@pytest.mark.contract("K4", "K10")
async def test_a_relay_that_was_overtaken_moves_nothing(
    make: Make, nats_server: NatsServer, coast: Coast, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"domain": "relay", "move": "settle"}
    before = telemetry.registry().get_sample_value("ferryman_fenced_total", labels) or 0.0
    gate = faults.Gate()
    async with app_of(make, nats_server, coast) as app, relaying(app):
        with faults.armed({"relay.published": gate}):
            await happen(app, 3)
            await asyncio.wait_for(gate.reached.wait(), PATIENCE_SECONDS)
            [frozen] = await app.relays.status()
        async with relaying(app):
            await later(app, timedelta(seconds=31))
            await happen(app, 3)
            await caught_up(app)
            gate.open()

            async def fenced() -> bool:
                return (telemetry.registry().get_sample_value("ferryman_fenced_total", labels) or 0.0) > before

            await until(fenced, "the fence")
            [now] = await app.relays.status()
            log = await log_of(app)

    assert frozen.last_id == 0
    assert (now.behind, now.lease_owner != frozen.lease_owner) == (0, True)
    assert [id for id, _ in await coast.kept()] == log
    assert len(coast.published) > len(log)  # what was told twice has the same id, and is kept once
    assert set(coast.ids()) == set(log)
    assert "another process publishes the log by now" in caplog.text


# Whose stream


@pytest.mark.contract("K10", "K20")
async def test_a_stream_of_another_database_is_refused(
    make: Make, nats_server: NatsServer, coast: Coast, caplog: pytest.LogCaptureFixture
) -> None:
    await coast.js.add_stream(
        StreamConfig(
            name=coast.name, subjects=[f"{coast.name}.>"], metadata={"ferryman-origin": "another"}, duplicate_window=60
        )
    )
    async with app_of(make, nats_server, coast) as app, relaying(app):
        await happen(app)

        async def told() -> bool:
            return "keeps the log of another database" in caplog.text

        await until(told, "the refusal")

    assert coast.published == []


@pytest.mark.contract("K10", "K20")
async def test_a_stream_that_keeps_something_else_is_refused_and_one_that_keeps_more_is_taken(
    nats_server: NatsServer, coast: Coast
) -> None:
    def broker(prefix: str) -> Broker:
        return Broker(
            nats_server.url,
            stream=coast.name,
            prefix=prefix,
            kept=SECOND * 60,
            repeats=SECOND * 90,
            patience=SECOND * 5,
        )

    await coast.js.add_stream(StreamConfig(name=coast.name, subjects=[f"{coast.name}.>"]))
    with pytest.raises(errors.RelayRefused, match="does not keep"):
        await broker("other").open("mine")
    ours = broker(coast.name)
    await ours.open("mine")
    assert ours.there
    await ours.close()
    assert ((await coast.info()).config.metadata or {})["ferryman-origin"] == "mine"
    with pytest.raises(errors.RelayRefused, match="cannot be made"):  # two streams may not keep the same
        await Broker(
            nats_server.url,
            stream=f"{coast.name}2",
            prefix=coast.name,
            kept=SECOND,
            repeats=SECOND,
            patience=SECOND * 5,
        ).open("mine")


# What goes out


def wire_of(client: Client) -> asyncio.WriteTransport:
    wire: asyncio.WriteTransport = client._transport._io_writer.transport  # type: ignore[union-attr]
    return wire


def message(id: str, coast: Coast, body: bytes = b"{}") -> Message:
    return Message(id, f"{coast.name}.v1.default.main.evt.task.1.ready", body, b"short")


@pytest.mark.contract("K10", "K24", "K17")
@pytest.mark.parametrize("by", ["its patience", "whoever ends it"])
async def test_a_relay_whose_server_stands_still_while_it_is_written_to_is_ended(tmp_path: Path, by: str) -> None:
    """It takes no more than the buffers between it and us hold, and the client keeps to itself that it was told to end."""
    patience = SECOND if by == "its patience" else SECOND * 600
    with NatsServer(tmp_path) as server:
        broker = Broker(server.url, stream="S", prefix="fz", kept=SECOND * 60, repeats=SECOND, patience=SECOND * 10)
        await broker.open("mine")
        broker._patience = patience.total_seconds()
        page = [Message(f"evt_{n}", "fz.v1.d.m.evt.t.1.ready", b"x" * 900_000, b"short") for n in range(40)]
        assert broker._client is not None
        wire = wire_of(broker._client)
        async with frozen(server.pid):
            publishing = asyncio.create_task(broker.publish(page))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(broker._waiting) < 3 and not publishing.done():  # noqa: ASYNC110 - until its buffer is full
                    await asyncio.sleep(0.005)
            if by == "whoever ends it":
                publishing.cancel()
            await asyncio.wait([publishing], timeout=PATIENCE_SECONDS)
            assert publishing.done()
            await broker.close()
            left = wire.get_write_buffer_size()

    assert (wire.is_closing(), left) == (True, 0)  # nothing is written that was given up, once the server goes on
    assert publishing.cancelled() or isinstance(publishing.exception(), BrokerAway)


@pytest.mark.contract("K10")
async def test_where_others_write_too_messages_go_one_by_one(nats_server: NatsServer, coast: Coast) -> None:
    broker = Broker(
        nats_server.url, stream=coast.name, prefix=coast.name, kept=SECOND * 60, repeats=SECOND, patience=SECOND * 5
    )
    await broker.open("mine")
    await broker.publish([message("evt_1", coast), message("evt_2", coast)])
    await coast.js.publish(f"{coast.name}.v1.x.y.evt.z", b"", headers={MSG_ID: "theirs"})
    # The second of a set stands behind the first, but the first is known already and theirs stands last.
    await broker.publish([message("evt_2", coast), message("evt_3", coast), message("evt_4", coast)])
    await broker.close()

    assert [id for id, _ in await coast.kept()] == ["evt_1", "evt_2", "theirs", "evt_3", "evt_4"]


@pytest.mark.contract("K25")
async def test_an_event_too_large_for_the_server_is_told_bare_and_stops_nobody(
    make: Make, nats_server: NatsServer, coast: Coast
) -> None:
    async with app_of(make, nats_server, coast) as app:
        async with app.database.transaction() as tx:
            await tx.fetch(
                "insert into ferryman.events (at, subject, tenant, kind, to_state, data)"
                " values (now(), gen_random_uuid(), 'a.b c', 'odd kind', 'new', jsonb_build_object('x', repeat('y', 2000000)))"
            )
        await happen(app)
        async with relaying(app):
            [large, small] = await coast.seen(2)

    assert json.loads(large.data)["incomplete"] is True
    assert large.subject.startswith(f"{coast.name}.v1.a=2Eb=20c.main.evt.odd=20kind.")
    assert json.loads(small.data)["type"] == "task_created"


class Volatile:
    def address(self, event: Event) -> Address:
        return Address(event.kind, str(event.subject), "token", channel="harbour", volatile=True)

    def envelope(self, event: Event) -> Mapping[str, Any]:
        return {"event_id": event.event_id}


@pytest.mark.contract("K10")
async def test_a_domain_says_where_its_events_stand_and_what_is_volatile_is_not_kept(
    make: Make, nats_server: NatsServer, coast: Coast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.app.relays.TELLERS", Tellers({"task": Volatile()}))
    async with app_of(make, nats_server, coast) as app, relaying(app):
        [task] = await happen(app)
        [told] = await coast.seen(1)
        await caught_up(app)

    assert told.subject == f"{coast.name}.v1.default.harbour.str.task.{task}.token"
    assert await coast.kept() == []


@pytest.mark.contract("K10")
async def test_a_reader_that_was_forgotten_begins_anew_with_the_same_ids(
    make: Make, nats_server: NatsServer, coast: Coast
) -> None:
    async with app_of(make, nats_server, coast) as app, relaying(app):
        await happen(app, 2)
        await coast.seen(2)
        await caught_up(app)
        assert await app.relays.forget("relay.nats")
        assert not await app.relays.forget("nobody")
        await happen(app)
        await coast.seen(5)
        await caught_up(app)
        log = await log_of(app)

    assert [id for id, _ in await coast.kept()] == log
