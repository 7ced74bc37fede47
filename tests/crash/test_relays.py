"""R1: whoever relays the log is killed at every point between reading and keeping: nothing is lost, repeats have one id."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from ferryman import Ferryman
from ferryman.kernel import invariants
from ferryman.kernel.event_id import EventId
from ferryman.kernel.nats_flush import flush_all
from ferryman.relays import webhook
from ferryman.relays.watch import RELAY_INVARIANTS
from ferryman.testing import NatsServer, travel
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.test_zombies import ENDS, frozen, holders, living
from tests.crash.yard import RELAY_POINTS, until
from tests.patience import PATIENCE_SECONDS
from tests.relays.receiver import Receiver, receiving
from tests.spread import KILLS, paired

KEY = "0123456789abcdef0123456789abcdef"
TASKS = 30
MSG_ID = "Nats-Msg-Id"


PAST_EVERY_LEASE = timedelta(seconds=15)
SETTINGS: dict[str, Any] = {"webhook_key": KEY, "private_networks": "127.0.0.0/8", "timeout": "5s"}

# Where nothing else is worked on, what every pump passes is passed by the one that calls receivers.
SENDER_POINTS = {
    "claim.sent": "claim.sent",
    "claim.committed": "claim.committed=kill@1",
    "webhook.called": "webhook.called=kill@2",
    "settle.before": "settle.before=kill@1",
}
# Passed by the other pumps too, and by this one when there is nothing to claim.
SHARED = {
    "claim.sent": {"of": "webhook", "due": "select id from ferryman.webhook_deliveries where finished_at is null"}
}
OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
LEFT_OPEN = f"select pid {OTHERS} and xact_start is not null"
END_THEM = f"select pg_terminate_backend(pid) {OTHERS} and xact_start is not null and wait_event = 'ClientRead'"
STOPS = ("relay.read", "relay.published", "relay.spread")
# A sender claims what is due in any order: its successor cannot be stopped with the very delivery of the zombie in hand. Both
# orders of two holders of one delivery are in property/test_relays.py.
BACK = [*paired(STOPS, ENDS), ("webhook.called", ENDS[0])]


class Shore:
    """A broker and a receiver, and what came to them."""

    def __init__(self, server: NatsServer, receiver: Receiver, app: Ferryman, added: Any) -> None:
        self.server, self.receiver, self.app, self.added = server, receiver, app, added
        self.published: list[str] = []

    def terms(self) -> dict[str, str]:
        """Return the environment of a ship that relays to here."""
        return {
            "FERRYMAN_NATS_URL": self.server.url, "FERRYMAN_DOORBELL": "postgres", "FERRYMAN_RELAYS__NATS": "on",
            **{f"FERRYMAN_RELAYS__{name.upper()}": value for name, value in SETTINGS.items()},
        }  # fmt: skip

    async def pass_on(self) -> None:
        """Let every lease of the dead, or frozen, end."""
        async with self.app.database.transaction() as tx:
            await travel(tx, PAST_EVERY_LEASE)

    async def whole(self) -> None:
        """Wait until all is told; assert that the stream has each event once, in order, and the receiver each move."""
        await told(self.app, self.receiver.calls)
        await caught_up(self.app)
        log = await log_of(self.app, "true")
        moves = await log_of(self.app, "kind = 'task'")
        client = await nats.connect(self.server.url)
        stream = client.jetstream()
        last = (await stream.stream_info("FERRYMAN")).state.last_seq
        kept = [((await stream.get_msg("FERRYMAN", n)).headers or {})[MSG_ID] for n in range(1, last + 1)]
        await client.close()
        assert kept == log
        assert set(self.published) == set(log)
        deliveries = await self.app.webhooks.deliveries(self.added.webhook.id, limit=1000)
        assert {each.event_id for each in deliveries} == set(moves)
        assert {each.state.value for each in deliveries} == {"delivered"}
        heard = [webhook.verify(call.body, call.headers, secret=self.added.secret) for call in self.receiver.calls]
        assert set(heard) == set(moves)
        assert len({(call.event, call.body) for call in self.receiver.calls}) == len(moves)
        async with self.app.database.session() as tx:
            assert await invariants.check(tx, RELAY_INVARIANTS) == []


@asynccontextmanager
async def shore(url: str, folder: Path) -> AsyncIterator[Shore]:
    with NatsServer(folder / "nats") as server:
        client = await nats.connect(server.url)
        async with receiving() as receiver, Ferryman(url, relays=SETTINGS) as app:
            made = Shore(server, receiver, app, await app.webhooks.add(receiver.url(), kinds=["task"]))

            async def hear(message: Msg) -> None:
                made.published.append((message.headers or {})[MSG_ID])

            await client.subscribe("fm.>", cb=hear)
            await flush_all(client)
            yield made
        await client.close()


@pytest.mark.contract("R1", "K10", "K5", "K24")
async def test_the_log_goes_out_whole_through_the_deaths_of_its_relays(
    database_url: str, ship: Launch, tmp_path: Path
) -> None:
    async with shore(database_url, tmp_path) as there:
        lives = [f"{point}=kill@{hit}" for point, hit in RELAY_POINTS.items()] * KILLS
        await cargo.load(database_url, TASKS)
        relay = ship(database_url, lives=[*lives, ""]).start(**there.terms())
        for life in range(1, len(lives) + 1):
            await relay.seen("died", count=life)
            await cargo.load(database_url, 5)  # each has something to tell
            await there.pass_on()
        await judge.all_ended(database_url)

        await there.whole()

        assert {point: relay.strikes(point) for point in RELAY_POINTS} == dict.fromkeys(RELAY_POINTS, KILLS)
        # Who died after publishing, or after a call, was repeated, under the same ids.
        assert len(there.published) > len(set(there.published))
        assert len(there.receiver.calls) > len({call.event for call in there.receiver.calls})
        assert await cargo.broken(database_url) == []


@pytest.mark.contract("R1", "K10", "K5")
@pytest.mark.parametrize("point", SENDER_POINTS)
async def test_deliveries_survive_the_deaths_of_their_sender(
    point: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    async with shore(database_url, tmp_path) as there:
        lives = [*[SENDER_POINTS[point]] * KILLS, ""]
        sender = ship(database_url, lives=lives, **SHARED.get(point, {})).start(**there.terms())
        await sender.seen("working")  # its reader stands at the end of the log before anything is told
        there.app.declare("elsewhere")
        for life in range(1, KILLS + 1):
            # No ship has this handler: births are told, and nothing is run.
            await there.app.tasks.create_many("elsewhere", [{"n": n} for n in range(8)])
            await sender.seen("died", count=life)
            await there.pass_on()

        await there.whole()

        assert (len(sender.lines("struck")) if point in SHARED else sender.strikes(point)) == KILLS
        assert [line["signal"] for line in sender.lines("died")][:KILLS] == [signal.SIGKILL] * KILLS


@pytest.mark.contract("R2", "K10", "K4")
@pytest.mark.parametrize(("point", "ends"), BACK)
async def test_a_relay_that_was_frozen_moves_nothing_when_it_is_back(
    point: str, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    """Its successor is done by then, or stands where it stood itself, with the same events in hand.

    What was spread and not committed has no fence: PostgreSQL ends its transaction, and nothing of it is there.
    """
    async with shore(database_url, tmp_path) as there:
        await cargo.load(database_url, 5)
        zombie = ship(database_url).start(
            FERRYMAN_FAULTS=f"{point}=stop@1", FERRYMAN_FAULTS_LOG=str(tmp_path / "ship0.faults"), **there.terms()
        )
        await frozen(zombie, point)
        held = await holders(database_url, "ferryman.webhook_deliveries")
        await end_what_is_open(database_url)
        if point == "relay.spread":
            assert held - await living(database_url)
            assert await judge.read(database_url, "select id from ferryman.webhook_deliveries") == []
        await there.pass_on()
        successor = ship(database_url)
        if ends == "before it comes back":
            successor.start(**there.terms())
            await judge.all_ended(database_url)
            await told(there.app, there.receiver.calls)
            await caught_up(there.app)
        else:
            plan = {"FERRYMAN_FAULTS": f"{point}=stop@1", "FERRYMAN_FAULTS_LOG": str(successor.faults_file)}
            successor.start(**plan, **there.terms())
            await frozen(successor, point)

        os.kill(zombie.pid, signal.SIGCONT)
        if point != "relay.spread":
            await zombie.seen("fenced")
        os.kill(zombie.pid, signal.SIGTERM)
        await zombie.seen("stopped")

        os.kill(successor.pid, signal.SIGCONT)
        await judge.all_ended(database_url)
        await there.whole()
        assert await cargo.broken(database_url) == []


async def end_what_is_open(url: str) -> None:
    """End the transactions of a frozen process, which hold back whoever reads the log: PostgreSQL takes two seconds, or sixty.

    A statement that was under way when it froze ends first; one that was not sent whole is waited for.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with judge.reading(url) as look:
        while await look(LEFT_OPEN):
            await look(END_THEM)
            assert time.monotonic() < deadline, "something stays open"
            await asyncio.sleep(0.02)


async def log_of(app: Ferryman, like: str) -> list[str]:
    async with app.database.session() as tx:
        rows = await tx.fetch(
            f"select id, ferryman.event_token(logged_at) as token from ferryman.events where {like} order by id"
        )
    return [EventId(row["id"], row["token"]).name for row in rows]


async def told(app: Ferryman, calls: list[Any]) -> None:
    """Wait until the receiver has heard of every move."""
    moves = len(await log_of(app, "kind = 'task'"))
    await until(
        lambda: len({call.event for call in calls}) >= moves,
        "all calls",
        also=lambda: f"{len({call.event for call in calls})} of {moves}",
    )


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
