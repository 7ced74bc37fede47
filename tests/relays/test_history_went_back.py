"""K10: after a restore or a promotion the numbers of events come again, and no receiver takes a new event for an old one."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.kernel import faults
from ferryman.relays.states import DELIVERED
from ferryman.relays.work.broker import MSG_ID, Broker, Message
from ferryman.testing import NatsServer
from tests.patience import PATIENCE_SECONDS
from tests.relays import conftest
from tests.relays.conftest import Make, happen, relaying, settled
from tests.relays.receiver import Receiver
from tests.relays.test_nats import Coast, app_of, caught_up, coast
from tests.sql.going_back import go_back

__all__ = ["coast"]

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def backup(url: str) -> AsyncIterator[str]:
    """Copy a database that nobody uses, and return the address of the copy."""
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    admin = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    try:
        await admin.execute(f'create database "{name}_backup" template "{name}" strategy file_copy')
        try:
            yield urlunsplit(parts._replace(path=f"/{name}_backup"))
        finally:
            await admin.execute(f'drop database "{name}_backup" with (force)')
    finally:
        await admin.close()


async def tasks_in(coast: Coast) -> list[str]:
    """Return the tasks whose creation is in the stream."""
    state = (await coast.info()).state
    found = [await coast.js.get_msg(coast.name, sequence) for sequence in range(1, state.last_seq + 1)]
    return [json.loads(each.data or b"")["payload"]["task_id"] for each in found]


@pytest.mark.contract("K10")
async def test_events_written_after_a_restore_are_published_within_the_duplicate_window(
    make: Make, nats_server: NatsServer, coast: Coast, database_url: str
) -> None:
    async with app_of(make, nats_server, coast) as app, relaying(app):
        before = await happen(app, 3)
        await caught_up(app)
    async with backup(database_url) as restored:
        async with app_of(make, nats_server, coast) as app, relaying(app):
            lost = await happen(app, 20)
            await caught_up(app)
        async with app_of(make, nats_server, coast, url=restored) as app, relaying(app):
            after = await happen(app, 30)
            await caught_up(app)

    assert await tasks_in(coast) == before + lost + after


@pytest.mark.contract("K10")
async def test_a_receiver_never_gets_two_events_under_one_id_after_a_restore(
    make: Make, receiver: Receiver, database_url: str
) -> None:
    async with make() as app:
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
    async with backup(database_url) as restored:
        for url in (database_url, restored):
            async with make(url=url) as app, relaying(app):
                await happen(app, 5)
                await settled(app, added, 5, state=DELIVERED)

    assert len({call.json["payload"]["task_id"] for call in receiver.calls}) == 10
    assert len({call.event for call in receiver.calls}) == 10
    assert [call.event for call in receiver.calls] == [call.json["event_id"] for call in receiver.calls]


@pytest.mark.contract("K4", "K10")
async def test_a_relay_reads_on_from_the_place_of_a_database_that_went_back(
    make: Make, nats_server: NatsServer, coast: Coast
) -> None:
    async with app_of(make, nats_server, coast) as app, relaying(app):
        await happen(app, 3)
        await caught_up(app)
        async with app.database.transaction() as tx:  # as in a standby that had not heard of the last place
            await tx.fetch("update ferryman.consumers set last_id = 1 where name = 'relay.nats'")
        await happen(app)
        await coast.seen(7)
        await caught_up(app)
        tasks = await logged(app)

    assert await tasks_in(coast) == tasks
    assert len(coast.published) == 4 + 3  # the last three of the log are sent again, and dropped by their ids


@pytest.mark.contract("K4", "K10")
@pytest.mark.parametrize(("to", "unused"), [(1, 0), (3, 2)], ids=["event lost", "only unused numbers lost"])
async def test_a_place_is_not_moved_past_events_that_were_written_after_a_promotion(
    make: Make, nats_server: NatsServer, coast: Coast, database_url: str, to: int, unused: int
) -> None:
    """A pooler may send the statement that stores the place to a promoted standby, whose log ends earlier."""
    gate = faults.Gate()
    async with app_of(make, nats_server, coast) as app:
        before = await happen(app, 3)
        await roll_back(app, unused)
        with faults.armed({"relay.published": gate}):
            async with relaying(app):
                await asyncio.wait_for(gate.reached.wait(), PATIENCE_SECONDS)
                await go_back(database_url, to=to)
                after = await happen(app, 5)
                gate.open()
                await caught_up(app)

    assert await tasks_in(coast) == before + after


@pytest.mark.contract("K10")
async def test_a_place_passes_numbers_that_no_event_has(make: Make, nats_server: NatsServer, coast: Coast) -> None:
    async with app_of(make, nats_server, coast) as app, relaying(app):
        before = await happen(app, 3)
        await roll_back(app, 2)
        await caught_up(app)
        await roll_back(app, 2)
        await caught_up(app)
        [place] = await app.relays.status()
        after = await happen(app, 1)
        await caught_up(app)

    assert place.last_id == 7
    assert await tasks_in(coast) == before + after


async def roll_back(app: Ferryman, count: int) -> None:
    """Draw numbers that no event gets."""
    async with app.database.session() as tx:
        await tx.fetch("select nextval('ferryman.events_id_seq') from generate_series(1, $1)", count)


@pytest.mark.contract("K10")
async def test_relays_whose_places_the_log_has_not_reached_miss_nothing(
    make: Make, receiver: Receiver, nats_server: NatsServer, coast: Coast
) -> None:
    terms = {"nats": "on", "stream": coast.name, "prefix": coast.name}
    async with make(nats_url=nats_server.url, **terms) as app:
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        async with relaying(app):
            await happen(app, 2)
            await settled(app, added, 2, state=DELIVERED)
            await readers(app)
        async with app.database.transaction() as tx:
            await tx.fetch("update ferryman.consumers set last_id = 9999, mark_id = 9999")
        after = await happen(app, 3)
        async with relaying(app):
            await settled(app, added, 5, state=DELIVERED)
            await readers(app)

    assert {call.json["payload"]["task_id"] for call in receiver.calls} >= set(after)
    assert len(receiver.calls) == 5
    assert set(after) <= {message.subject.split(".")[6] for message in await coast.seen(5)}


@pytest.mark.contract("K10")
async def test_a_webhook_that_begins_beyond_the_end_begins_where_its_reader_resumes(
    make: Make, receiver: Receiver
) -> None:
    async with make() as app:
        added = (await app.webhooks.add(receiver.url(), kinds="task")).webhook
        ended = (await app.webhooks.add(receiver.url(), name="ended", kinds="task")).webhook
        await app.webhooks.remove(ended.id)
        async with app.database.transaction() as tx:
            await tx.fetch("update ferryman.consumers set last_id = 9999, mark_id = 9999")
            await tx.fetch("update ferryman.webhooks set after_id = 9990")
        after = await happen(app, 3)
        async with relaying(app):
            await settled(app, added, 3, state=DELIVERED)
        async with app.database.session() as tx:
            begins = {
                row["id"]: row["after_id"] for row in await tx.fetch("select id, after_id from ferryman.webhooks")
            }

    assert {call.json["payload"]["task_id"] for call in receiver.calls} == set(after)
    assert begins[added.id] < 9990 == begins[ended.id]


async def readers(app: Ferryman) -> None:
    await conftest.caught_up(app, "relay.nats", "relay.webhooks")


async def logged(app: Ferryman) -> list[str]:
    async with app.database.session() as tx:
        return [str(row["subject"]) for row in await tx.fetch("select subject from ferryman.events order by id")]


# Messages that the server drops as duplicates


def event(coast: Coast, number: int, body: bytes | None = None) -> Message:
    id = f"evt_{number}-654c08dd3a1c0"
    told = json.dumps({"event_id": id, "payload": {"task_id": str(number)}}).encode()
    return Message(id, f"{coast.name}.v1.default.main.evt.task.1.ready", body or told, told)


@asynccontextmanager
async def publishing(server: NatsServer, coast: Coast) -> AsyncIterator[Broker]:
    broker = Broker(server.url, stream=coast.name, prefix=coast.name, kept=MINUTE, repeats=MINUTE, patience=MINUTE)
    await broker.open("mine")
    try:
        yield broker
    finally:
        await broker.close()


@pytest.mark.contract("K10")
async def test_a_duplicate_of_the_same_event_is_published_once(nats_server: NatsServer, coast: Coast) -> None:
    async with publishing(nats_server, coast) as broker:
        await broker.publish([event(coast, 1), event(coast, 2)])
        # A process of another version may have written it otherwise; the event is the same.
        other = event(coast, 2)._replace(body=event(coast, 2).body.replace(b"payload", b"load"))
        await broker.publish([event(coast, 1), other, event(coast, 3)])

    assert await tasks_in(coast) == ["1", "2", "3"]


@pytest.mark.contract("K10")
async def test_an_event_whose_id_another_program_used_is_published_under_another_id(
    nats_server: NatsServer, coast: Coast
) -> None:
    async with publishing(nats_server, coast) as broker:
        taken = event(coast, 2)
        theirs = json.dumps({"event_id": "theirs", "payload": {"task_id": "theirs"}}).encode()
        for id in (taken.id, f"{taken.id}.1"):
            await coast.js.publish(taken.subject, theirs, headers={MSG_ID: id})
        await broker.publish([event(coast, n) for n in (1, 2, 3)])
        await broker.publish([event(coast, n) for n in (1, 2, 3)])

    assert await tasks_in(coast) == ["theirs", "theirs", "1", "2", "3"]
    last = await coast.js.get_msg(coast.name, 4)
    assert (last.headers or {})[MSG_ID] == f"{taken.id}.2"
    assert json.loads(last.data or b"")["event_id"] == taken.id


@pytest.mark.contract("K10")
async def test_an_event_that_was_deleted_from_the_stream_is_published_again(
    nats_server: NatsServer, coast: Coast
) -> None:
    async with publishing(nats_server, coast) as broker:
        await broker.publish([event(coast, n) for n in (1, 2, 3)])
        await coast.js.delete_msg(coast.name, 2)
        await broker.publish([event(coast, n) for n in (1, 2, 3)])
        kept = [await asyncio.wait_for(coast.js.get_msg(coast.name, n), 10) for n in (1, 3, 4)]

    assert [json.loads(each.data or b"")["payload"]["task_id"] for each in kept] == ["1", "3", "2"]
    assert (await coast.info()).state.messages == 3


@pytest.mark.contract("K10")
async def test_an_event_that_newer_ones_of_its_subject_replaced_is_not_published_after_them(
    nats_server: NatsServer, coast: Coast
) -> None:
    async with publishing(nats_server, coast) as broker:
        await coast.js.update_stream(dataclasses.replace((await coast.info()).config, max_msgs_per_subject=1))
        for _ in range(2):
            await broker.publish([event(coast, n) for n in (1, 2, 3)])
        last = await coast.js.get_last_msg(coast.name, event(coast, 1).subject)

    assert json.loads(last.data or b"")["payload"]["task_id"] == "3"
    assert (await coast.info()).state.last_seq == 3
