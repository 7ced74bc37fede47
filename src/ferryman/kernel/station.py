"""The place of a pump in a worker: what starts it, drains it and closes it is the same in every domain (K17)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic
from uuid import UUID

from ferryman.kernel.crew import Item, Outcome
from ferryman.kernel.doorbell import Doorbell, Heard
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.loop import Pump

log = logging.getLogger("ferryman.worker")


class Station(Generic[Item, Outcome]):
    """A pump, the keeper of its leases, and what both hear."""

    def __init__(
        self, pump: Pump[Item, Outcome], keeper: Keeper, doorbell: Doorbell, *, boot_id: UUID, lease: timedelta
    ) -> None:
        """Take a pump and its keeper; their connections stay with whoever made them."""
        self.pump = pump
        self.keeper = keeper
        self._doorbell = doorbell
        self._boot_id = boot_id
        self._lease = lease
        self._hushes: Sequence[Callable[[], None]] = ()
        self._own: Mapping[str, asyncio.Task[None]] = {}

    def start(
        self, heard: Mapping[str, Heard], running: Mapping[str, Callable[[], Coroutine[Any, Any, None]]], *, keeper: str
    ) -> Mapping[str, asyncio.Future[Any]]:
        """Listen to these topics and run these, the pump among them; answer with all that runs, the keeper by its name."""
        self._hushes = [self._doorbell.listen(topic, hear) for topic, hear in heard.items()]
        self._own = {name: asyncio.create_task(run()) for name, run in running.items()}
        return {**self._own, keeper: self.keeper.start()}

    def check(self, hints: frozenset[str]) -> None:
        """Look at the leases now if one of these is held here, or if nobody said which."""
        if not hints or any(str(id) in hints for id in self.pump.held):
            self.keeper.check()

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and hand back the rest."""
        handed_back = await self.pump.stop(grace.total_seconds())
        told = {"boot_id": str(self._boot_id), "domain": self.pump.domain}
        # The rest is one settling turn. If the database is away for longer than a lease, there is nothing left to hand back.
        if await self.pump.drained(self._lease.total_seconds()):
            log.info("stopped", extra={**told, "handed_back": handed_back})
        else:
            held = {**told, "held": len(self.pump.held)}
            log.warning("stopped without the database: leases end what could not be handed back", extra=held)

    async def close(self) -> None:
        """End whatever is still under way; nothing is renewed after that."""
        for hush in self._hushes:
            hush()
        for task in self._own.values():
            task.cancel()
        await asyncio.gather(*self._own.values(), return_exceptions=True)
        await self.pump.close()
        await self.keeper.stop()
