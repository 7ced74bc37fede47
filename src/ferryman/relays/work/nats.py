"""The log to NATS (K10): each event of the log is one message, whose id is the event's.

One process publishes at a time, under a lease (`relays`); the others look whether it is free. The holder reads on from its
place, publishes, waits for the answers, and only then keeps the new place, in a statement that is fenced by its claim. Whoever
dies in between leaves the place where it was: the next one publishes the same events once more, under the same ids, and the
broker drops what it knows. So nothing is lost; and while the broker remembers ids, nothing is there twice.

No transaction is open while the broker is waited for: it would hold back every reader of the log, and the vacuum. So behind a
pooler the place may be stored on another server than the events were read from: on a promoted standby, whose log ends earlier.
The place moves only to the last published event, and only if the log still has that event. Numbers after it that no event has
are passed in the transaction that reads them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from ferryman.kernel import beyond_end, errors, events, faults, ids, retry, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Event, Place
from ferryman.kernel.pool import Line
from ferryman.relays.ports import Tellers
from ferryman.relays.rules import subject
from ferryman.relays.store import relays
from ferryman.relays.work.broker import Broker, BrokerAway, Message
from ferryman.relays.work.pace import Pace

log = telemetry.logger("relays")

PAGE: Final = 500
RENEWED_AFTER: Final = 1 / 3  # of a lease
COMING_BACK: Final = retry.Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), jitter=0.5)


@dataclass
class Holding:
    """This process publishes: under which claim, its place, and when its lease was renewed."""

    epoch: int
    place: Place
    renewed: float


class NatsRelay:
    """Publish the log, or stand by while another does."""

    def __init__(
        self,
        line: Line,
        pace: Pace,
        broker: Broker,
        tellers: Tellers,
        *,
        name: str,
        prefix: str,
        owner: UUID,
        lease: timedelta,
        poll: float,
    ) -> None:
        """Read over a line that nobody else uses; hold the relay of this name as `owner`."""
        self._line = line
        self._pace = pace
        self._broker = broker
        self._tellers = tellers
        self._name = name
        self._prefix = prefix
        self._owner = owner
        self._lease = lease
        self._poll = poll
        self._held: Holding | None = None

    async def run(self) -> None:
        """Publish until told to stop; a database or a broker that is away is waited for."""
        failures = 0
        while not self._pace.stopped:
            try:
                await self.once()
            except (BrokerAway, errors.FerrymanError) as error:
                failures += 1
                if failures == 1 or not isinstance(error, BrokerAway | errors.DatabaseUnavailable):
                    log.warning("the relay to NATS waits: %s", error, extra={"relay": self._name})
                await self._let_go()
                await self._pace.wait(COMING_BACK.delay(failures).total_seconds())
            else:
                failures = 0
        await self._let_go()

    async def once(self) -> None:
        """Take the relay if it is free, publish what is new, and rest."""
        if not self._broker.there:
            await self._broker.open(await relays.origin(self._line, ids.new_id()))
        if self._held is None and not await self._take():
            await self._pace.wait(self._poll)
            return
        if not await self._go_on():
            await self._pace.rest()

    async def _take(self) -> bool:
        if await relays.look(self._line, self._name, owner=self._owner) is not None:
            return False
        async with self._line.transaction() as tx:
            await events.begin(tx, self._name)
            epoch = await relays.take(tx, self._name, owner=self._owner, lease=self._lease)
            await beyond_end.set_back(tx, self._name)
            place = await relays.place(tx, self._name)
        if epoch is None or place is None:
            return False
        log.info("this process publishes the log to NATS", extra={"relay": self._name, "after": place.last_id})
        self._held = Holding(epoch, place, time.monotonic())
        return True

    async def _go_on(self) -> bool:
        """Publish the next events and move the place behind them; return whether there may be more to read."""
        held = self._held
        assert held is not None
        async with self._line.transaction() as tx:
            found, place = await events.tail(tx, held.place, limit=PAGE)
            if not found:
                await self._move(tx, held, place)
                return False
        await faults.apoint("relay.read")
        await self._broker.publish(self._messages(found))
        await faults.apoint("relay.published")
        last = found[-1]
        await self._move(self._line, held, replace(place, last_id=last.id), published=last.identity)
        telemetry.relayed("nats", len(found))
        return len(found) == PAGE or place.last_id > last.id

    async def _move(self, tx: Tx, held: Holding, place: Place, *, published: EventId | None = None) -> None:
        """Move the place; store it if its number changed or the lease needs renewal."""
        before, held.place = held.place, place
        began = time.monotonic()
        # A mark alone need not be kept: who comes next makes another.
        if place.last_id == before.last_id and began - held.renewed <= self._lease.total_seconds() * RENEWED_AFTER:
            return
        kept = await relays.advance(
            tx, self._name, place,
            from_id=before.last_id, published=published, owner=self._owner, epoch=held.epoch, lease=self._lease,
        )  # fmt: skip
        held.renewed = began
        if not kept:
            log.warning("another process publishes the log by now, or the log went back", extra={"relay": self._name})
            telemetry.fenced("relay", "settle")
            self._held = None

    def _messages(self, found: Sequence[Event]) -> list[Message]:
        return [self._message(event) for event in found]

    def _message(self, event: Event) -> Message:
        address = self._tellers.address(event)
        return Message(
            id=event.event_id,
            subject=subject.subject(address, tenant=event.tenant, prefix=self._prefix),
            body=self._tellers.body(event).encode(),
            short=self._tellers.short(event).encode(),
            volatile=address.volatile,
        )

    async def _let_go(self) -> None:
        """Hand the relay back: another may reach what this one cannot."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await relays.release(self._line, self._name, owner=self._owner, epoch=held.epoch)
        except errors.FerrymanError as error:
            log.debug("the relay could not be handed back: its lease ends it", exc_info=error)
