"""Everything that the log goes out to: a NATS stream, a webhook and a named consumer; counts events in and out.

What counts is the history that is there in the end: each of its events must have come out everywhere, at least once. Events
of a history that was lost (a backup was restored, a standby promoted) may have come out as well.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Self

import nats
from nats.aio.msg import Msg

from ferryman import Ferryman
from ferryman.kernel import errors, events
from ferryman.kernel.events import Event
from ferryman.relays.ports import bare
from ferryman.testing import NatsServer
from tests.crash import judge
from tests.crash.test_relays import KEY, MSG_ID, SETTINGS
from tests.proof.conftest import Tell
from tests.relays.receiver import Receiver, receiving

CONSUMER = "proof"
PATIENCE_SECONDS = 120.0
OWED = "select count(*) as owed from ferryman.webhook_deliveries where finished_at is null"

# The identity that an event came out under, and what told of it.
Heard = tuple[str, str]


class Outlets:
    """A stream, a webhook and a consumer that outlive the servers of the log."""

    def __init__(self, server: NatsServer, receiver: Receiver) -> None:
        self._server = server
        self._receiver = receiver
        self._consumed: list[Heard] = []
        self._consuming: asyncio.Task[None] | None = None

    def terms(self) -> dict[str, str]:
        """Return the settings of a worker that relays to here."""
        return {
            "FERRYMAN_NATS_URL": self._server.url, "FERRYMAN_DOORBELL": "postgres", "FERRYMAN_RELAYS__NATS": "on",
            **{f"FERRYMAN_RELAYS__{name.upper()}": value for name, value in SETTINGS.items()},
        }  # fmt: skip

    async def begin(self, url: str) -> None:
        """Add the webhook, and consume."""
        async with Ferryman(url, relays={**SETTINGS, "webhook_key": KEY}) as app:
            await app.webhooks.add(self._receiver.url(), kinds=["task"], name="proof")
        await self.consume(url)

    async def consume(self, url: str) -> None:
        """Consume from here on at this address."""
        await self.stop()
        self._consuming = asyncio.create_task(self._consume(url))

    async def _consume(self, url: str) -> None:
        while True:
            try:
                async with Ferryman(url) as app:
                    while True:
                        async with app.database.transaction() as tx:
                            found = await events.read(tx, CONSUMER)
                        self._consumed += [(identity(event), str(event.subject)) for event in found]
                        await asyncio.sleep(0 if found else 0.05)
            except errors.FerrymanError:
                await asyncio.sleep(0.1)

    async def delivered(self, url: str, tell: Tell, what: str) -> None:
        """Wait until all is out; assert that every event of the history that is there came out everywhere."""
        await self.caught_up(url)
        log = await _log(url)
        tasks = [event for event in log if event.kind == "task"]
        told = {
            "stream": (log, await self._stream()),
            "webhook": (tasks, [(call.event, call.body.decode()) for call in self._receiver.calls]),
            "consumer": (log, self._consumed),
        }
        counts = {name: Count.of(owed, heard) for name, (owed, heard) in told.items()}
        shown = "; ".join(f"{name} {count}" for name, count in counts.items())
        tell(f"{what}: {len(log)} events in the log, {len(tasks)} of tasks. Out: {shown}")
        assert {name: count.missing for name, count in counts.items()} == dict.fromkeys(counts, 0), shown

    async def _stream(self) -> list[Heard]:
        """Read what the stream keeps."""
        client = await nats.connect(self._server.url)
        kept: list[Heard] = []

        async def keep(message: Msg) -> None:
            kept.append(((message.headers or {})[MSG_ID], message.data.decode()))

        stream = client.jetstream()
        count = (await stream.stream_info("FERRYMAN")).state.messages
        await stream.subscribe("fm.>", cb=keep, ordered_consumer=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(kept) < count:  # noqa: ASYNC110 - the sign is a list
                await asyncio.sleep(0.02)
        await client.close()
        return kept

    async def caught_up(self, url: str) -> None:
        """Wait until every reader is at the end of the log and no delivery is owed."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        async with Ferryman(url) as app:
            while True:
                [row] = await judge.read(url, OWED)
                standings = await app.relays.status()
                if row["owed"] == 0 and len(standings) == 3 and all(each.behind == 0 for each in standings):
                    return
                assert time.monotonic() < deadline, f"{row['owed']} owed, {standings}"
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._consuming is not None:
            self._consuming.cancel()
            await asyncio.wait([self._consuming])


class Count(NamedTuple):
    """How many events came out of one outlet."""

    heard: int
    lost_history: int  # that are not in the log, or not any more
    repeated: int
    missing: int

    @classmethod
    def of(cls, owed: Sequence[Event], heard: Sequence[Heard]) -> Self:
        """Count by identity; what has an event's identity and does not tell of its object is of another history."""
        told = defaultdict(list)
        for name, text in heard:
            told[name].append(text)
        found = [sum(str(event.subject) in text for text in told[identity(event)]) for event in owed]
        return cls(len(heard), len(heard) - sum(found), sum(found) - sum(map(bool, found)), found.count(0))

    def __str__(self) -> str:
        return f"{self.heard} ({self.lost_history} of a lost history, {self.repeated} repeated, {self.missing} missing)"


def identity(event: Event) -> str:
    """Return what tells an event from every other, as it is sent."""
    return str(bare(event)["event_id"])


async def _log(url: str) -> Sequence[Event]:
    """Read the whole log."""
    async with Ferryman(url) as app, app.database.session() as tx:
        return await events.between(tx, 0, 2**62, limit=10**9)


@asynccontextmanager
async def outlets(folder: Path) -> AsyncIterator[Outlets]:
    with NatsServer(folder / "nats") as server:
        async with receiving() as receiver:
            made = Outlets(server, receiver)
            try:
                yield made
            finally:
                await made.stop()
