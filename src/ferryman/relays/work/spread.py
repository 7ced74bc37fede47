"""The log to webhooks, first half: each event becomes one delivery for each webhook that is told of it.

Events are read, deliveries born and the reader's place moved in one transaction, so none is lost and none is there twice. Any
number of processes may do it; the one that holds the place works and the others find nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from ferryman.kernel import errors, events, faults, ids, retry, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.events import Event
from ferryman.kernel.pool import Line
from ferryman.relays.model import NewDelivery
from ferryman.relays.ports import Tellers
from ferryman.relays.rules import choice
from ferryman.relays.store import deliveries, webhooks
from ferryman.relays.work.pace import Pace

log = telemetry.logger("relays")

PAGE: Final = 500
COMING_BACK: Final = retry.Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), jitter=0.5)


class Spread:
    """Turn events into deliveries."""

    def __init__(
        self, line: Line, pace: Pace, doorbell: Doorbell, tellers: Tellers, *, name: str, ends_after: timedelta
    ) -> None:
        """Read over a line that nobody else uses; a delivery that is owed after `ends_after` is dead."""
        self._line = line
        self._pace = pace
        self._doorbell = doorbell
        self._tellers = tellers
        self._name = name
        self._ends_after = ends_after
        self._begun = False

    async def run(self) -> None:
        """Read until told to stop; a database that is away is waited for."""
        failures = 0
        while not self._pace.stopped:
            try:
                count = await self.once()
            except errors.FerrymanError as error:
                failures += 1
                log.log(logging.WARNING if failures == 1 else logging.DEBUG, "webhooks wait: %s", error)
                await self._pace.wait(COMING_BACK.delay(failures).total_seconds())
            else:
                failures = 0
                if count < PAGE:
                    await self._pace.rest()

    async def once(self) -> int:
        """Turn one page of the log into deliveries; return how many events it held."""
        if not self._begun:
            await self._begin()
        async with self._line.transaction() as tx:
            found = await events.read(tx, self._name, limit=PAGE, on_set_back=webhooks.set_back)
            born = await self.spread(tx, found) if found else 0
        if born:
            self._doorbell.ring("webhooks")
        if found:
            telemetry.relayed("webhooks", len(found))
        return len(found)

    async def _begin(self) -> None:
        """Begin at the end of the log: no webhook is there that is owed more, or it would have begun before."""
        async with self._line.transaction() as tx:
            end = await events.latest(tx)
            await events.begin(tx, self._name, after_id=end.last_id)
        self._begun = True

    async def spread(self, tx: Tx, found: Sequence[Event]) -> int:
        """Let deliveries be born of events; return how many."""
        told = await webhooks.told(tx, {event.tenant for event in found if event.kind != choice.UNTOLD})
        if not told:
            return 0
        wanted: list[NewDelivery] = []
        for event in found:
            takers = [webhook for webhook in told if choice.wants(webhook, event)]
            if takers:
                body = self._tellers.body(event)
                wanted += [
                    NewDelivery(ids.new_id(), each.id, event.identity, event.tenant, event.kind, body)
                    for each in takers
                ]
        born = await deliveries.create(tx, wanted, ends_after=self._ends_after) if wanted else 0
        await faults.apoint("relay.spread")
        return born
