"""The relays of a worker: what of the log goes out from this process (kernel/part.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from ipaddress import ip_network
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, lease, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import Pump
from ferryman.kernel.pool import Line
from ferryman.kernel.settings import Relays
from ferryman.relays.model import Claimed, Outcome
from ferryman.relays.ports import Tellers
from ferryman.relays.store import webhooks
from ferryman.relays.work.broker import Broker
from ferryman.relays.work.nats import NatsRelay
from ferryman.relays.work.pace import Pace
from ferryman.relays.work.sender import Sender
from ferryman.relays.work.spread import Spread
from ferryman.relays.work.wire import Wire

log = telemetry.logger("relays")

LANES = 2
FAREWELL = timedelta(seconds=5)


class Terms(NamedTuple):
    """How relays work in this process."""

    boot_id: UUID
    lease: timedelta
    poll: timedelta


def nats_consumer(settings: Relays) -> str:
    """Name the reader of the log that publishes to NATS."""
    return f"{settings.consumer}.nats"


def webhook_consumer(settings: Relays) -> str:
    """Name the reader of the log that makes deliveries."""
    return f"{settings.consumer}.webhooks"


class NatsPart:
    """The relay to NATS, or its stand-by."""

    def __init__(
        self,
        doorbell: Doorbell,
        tellers: Tellers,
        nats_url: str,
        *,
        line: Callable[[], Line],
        settings: Relays,
        terms: Terms,
    ) -> None:
        """Make what it needs; nothing is connected yet."""
        self._doorbell = doorbell
        self._poll = terms.poll.total_seconds()
        self._line = line()
        self._broker = Broker(
            nats_url, stream=settings.stream, prefix=settings.prefix, kept=settings.kept, repeats=settings.repeats,
            patience=lease.patience(terms.lease),
        )  # fmt: skip
        self._pace = Pace(doorbell, poll=self._poll)
        self._relay = NatsRelay(
            self._line, self._pace, self._broker, tellers,
            name=nats_consumer(settings), prefix=settings.prefix, owner=terms.boot_id, lease=terms.lease, poll=self._poll,
        )  # fmt: skip
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin."""
        self._task = asyncio.create_task(self._relay.run())
        return {"relay to NATS": self._task}

    async def drain(self, _grace: timedelta) -> None:
        """Publish what is under way, keep the place, and hand the relay back."""
        self._pace.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=FAREWELL.total_seconds())

    async def close(self) -> None:
        """Let go."""
        self._pace.close()
        await _ended(self._task)
        await self._broker.close()
        await self._line.close()


class WebhookPart:
    """Deliveries are made of the log, and sent."""

    def __init__(
        self,
        doorbell: Doorbell,
        tellers: Tellers,
        key: str,
        *,
        line: Callable[[], Line],
        settings: Relays,
        terms: Terms,
    ) -> None:
        """Make what it needs; nothing is connected yet."""
        self._doorbell = doorbell
        self._lines = [line(), *(line().hurry() for _ in range(LANES))]
        self._pace = Pace(doorbell, poll=terms.poll.total_seconds())
        self._spread = Spread(
            self._lines[0], self._pace, doorbell, tellers,
            name=webhook_consumer(settings), ends_after=settings.ends_after,
        )  # fmt: skip
        self._wire = Wire(
            timeout=settings.timeout,
            concurrency=settings.concurrency,
            allowed=[ip_network(each) for each in settings.private_networks],
        )
        self._sender = Sender(
            self._wire, owner=terms.boot_id, key=key, each=settings.concurrency_of_one, attempts=settings.attempts,
            timeout=settings.timeout,
        )  # fmt: skip
        self._pump: Pump[Claimed, Outcome] = Pump(
            self._sender,
            self._lines[1:],
            domain="webhook",
            concurrency=settings.concurrency,
            claim_max=settings.concurrency,
            poll=terms.poll.total_seconds(),
            lease=self._sender.lease,
        )
        self._hush: Callable[[], None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin."""
        self._hush = self._doorbell.listen("webhooks", lambda _hints: self._pump.look())
        named = {
            "reader of the log for webhooks": asyncio.create_task(self._begin()),
            "sender of webhooks": asyncio.create_task(self._pump.run()),
        }
        self._tasks = list(named.values())
        return named

    async def _begin(self) -> None:
        try:
            others = (await webhooks.calls(self._lines[0], key_id=self._sender.key_id))["strangers"]
        except errors.FerrymanError as error:
            log.debug("webhooks could not be counted", exc_info=error)
        else:
            if others:
                told = "%s webhooks have secrets of another relays.webhook_key and are left to processes that have it"
                log.warning(told, others)
        await self._spread.run()

    async def drain(self, grace: timedelta) -> None:
        """Make no more deliveries, let the calls under way end, hand back the rest."""
        self._pace.stop()
        await self._pump.stop(grace.total_seconds())
        await self._pump.drained(FAREWELL.total_seconds())

    async def close(self) -> None:
        """Let go."""
        self._pace.close()
        if self._hush is not None:
            self._hush()
        for task in self._tasks:
            await _ended(task)
        await self._pump.close()
        await self._wire.close()
        for line in self._lines:
            await line.close()


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
