"""A doorbell over NATS core, for many processes or many commits a second.

One connection per process, one subject per topic (`fm.doorbell.<schema>.<topic>`), one subscription to them all. The client
comes back by itself, for ever, and knows the other servers of a cluster; where it gives up all the same (a refused login, a
protocol error) a new one is made. After each return every listener looks once, because rings may have been missed.
A publish is followed by a flush, so that the round trip to the server sets the pace of the bundles.

An answer that nobody waits for any more ends the reading of nats-py, which then says nothing and hears nothing until its pings
are overdue. So whoever gives up a flush gives up the connection with it, and the wait itself ends after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ferryman.kernel import db, errors, telemetry
from ferryman.kernel.doorbell import EVERYTHING, LOG, Bundle, Carrier, Heard, Inside, Local, hinted, pause, stop
from ferryman.kernel.farewell import hang_up
from ferryman.kernel.timed import timed

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

PREFIX = "fm.doorbell"

FIRST_TRY_SECONDS = 2.0
FLUSH_SECONDS = 2
LONGER_SECONDS = 3600  # than any connection lasts on which an answer is waited for
PING_SECONDS = 20
RECONNECT_SECONDS = 0.25


class NatsDoorbell:
    """Rings through a NATS server or cluster."""

    def __init__(self, servers: str | Sequence[str], *, schema: str = db.SCHEMA, prefix: str = PREFIX) -> None:
        _require_client()
        self.rung = 0
        self.sent = 0
        self.heard = 0
        self.healed = 0
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subject = f"{prefix}.{schema}"
        self._carrier = Carrier("nats", self._send)
        self._local = Local(self._carrier.take)
        self._client: Client | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._tried = asyncio.Event()

    async def open(self) -> None:
        """Try once to connect; whether that worked or not, go on in the background."""
        if self._keeper is None:
            self._local.open()
            self._keeper = asyncio.create_task(self._keep(), name="ferryman doorbell listener")
        with contextlib.suppress(TimeoutError):
            await timed(self._tried.wait(), FIRST_TRY_SECONDS)

    async def close(self) -> None:
        """Send what was rung, then hang up."""
        self._local.close()
        await self._carrier.close()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await stop(keeper)
        self._tried.clear()

    def ring(self, topic: str, hints: Iterable[str] = (), *, inside: Inside | None = None) -> None:
        """Tell whoever listens, here and elsewhere."""
        self.rung += 1
        self._local.ring(topic, hints)

    def inside(self, topic: str, hints: Iterable[str] = ()) -> Inside | None:
        """No transaction of PostgreSQL can ring through NATS."""
        return None

    def listen(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Hear the rings of all processes."""
        return self._local.listen(topic, heard)

    async def _send(self, bundle: Bundle) -> None:
        client = self._client
        if client is None or not client.is_connected:
            raise ConnectionError("NATS is away")
        for topic, hints in bundle.items():
            await client.publish(f"{self._subject}.{topic}", json.dumps(sorted(hints)).encode())
        await self._flush(client)
        self.sent += len(bundle)
        for topic in bundle:
            telemetry.rung("nats", topic)

    async def _flush(self, client: Client) -> None:
        """Wait until the server has what was sent."""
        flush = asyncio.create_task(client.flush(timeout=LONGER_SECONDS))
        self._flushes.add(flush)
        flush.add_done_callback(self._flushed)
        try:
            await asyncio.wait([flush], timeout=FLUSH_SECONDS)
        finally:
            if not flush.done():
                self._ended.set()
        if not flush.done():
            raise TimeoutError("NATS does not answer")
        if flush.cancelled():
            # Its connection has ended meanwhile; whoever sends is not cancelled with it, and keeps what it has to send.
            raise ConnectionError("NATS has gone away")
        flush.result()

    def _flushed(self, flush: asyncio.Task[None]) -> None:
        self._flushes.discard(flush)
        if not flush.cancelled():
            flush.exception()  # seen: whoever waited for it may have given up

    async def _hear(self, message: Msg) -> None:
        topic = message.subject.rpartition(".")[2]
        if self._local.tell(topic, _hints(message.data)):
            self.heard += 1
            telemetry.heard("nats", topic)

    async def _keep(self) -> None:
        """Keep a client, for ever."""
        failures = 0
        while True:
            self._ended.clear()
            try:
                await self._attend()
            except Exception as error:  # noqa: BLE001 - the keeper outlives whatever happens to its connection
                failures += 1
                await self._failed(error)
                await asyncio.sleep(pause(failures))
            else:
                failures = 1

    async def _attend(self) -> None:
        """Connect, listen, and return when the client has given up."""
        client = await self._connect()
        try:
            await client.subscribe(f"{self._subject}.*", cb=self._hear)
            # Twice, because nats-py lets the ping of a flush overtake what waits to be written: the first answer says that
            # the subscription has left, the second that the server has it.
            await self._flush(client)
            await self._flush(client)
            self._client = client
            if self._tried.is_set():
                await self._returned()
            self._tried.set()
            await self._ended.wait()
        finally:
            self._client = None
            try:
                await hang_up(client)
            finally:
                for flush in self._flushes:
                    flush.cancel()

    async def _connect(self) -> Client:
        from nats.aio.client import Client

        client = Client()
        try:
            await client.connect(
                servers=self._servers,
                name="ferryman doorbell",
                no_echo=True,  # the listeners of this process have been told already
                max_reconnect_attempts=-1,
                # nats-py waits this long between tries, always the same: jitter keeps processes apart.
                reconnect_time_wait=RECONNECT_SECONDS * random.uniform(1.0, 3.0),  # type: ignore[arg-type]
                ping_interval=PING_SECONDS,
                error_cb=self._failed,
                reconnected_cb=self._returned,
                closed_cb=self._gone,
            )
        except asyncio.CancelledError:
            await hang_up(client)
            raise
        return client

    async def _returned(self) -> None:
        """Tell everybody to look: rings may have been missed."""
        LOG.info("the doorbell hears again")
        self.healed += 1
        telemetry.healed("nats")
        self._carrier.hurry()
        self._local.tell_all()

    async def _gone(self) -> None:
        self._ended.set()

    async def _failed(self, error: Exception) -> None:
        """Say so; a subscription that fell behind has dropped rings, so everybody looks."""
        from nats.errors import SlowConsumerError

        LOG.log(
            logging.DEBUG if self._tried.is_set() else logging.WARNING, "the doorbell has trouble with NATS: %s", error
        )
        self._tried.set()
        if isinstance(error, SlowConsumerError):
            self._local.tell_all()


def _hints(data: bytes) -> frozenset[str]:
    """Read the hints of a ring; what cannot be read means: look at everything."""
    try:
        return hinted(json.loads(data))
    except (ValueError, RecursionError):
        return EVERYTHING


def _require_client() -> None:
    try:
        import nats  # noqa: F401 - only whether it is there
    except ImportError:
        raise errors.SettingsInvalid(
            "The NATS doorbell needs the package nats-py: pip install 'ferryman[nats]'.", setting="nats_url"
        ) from None
