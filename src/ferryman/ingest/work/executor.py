"""What ingestion does in a worker: a pump of its own, with a keeper for its leases (K17, I5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Claimed, Outcome
from ferryman.ingest.ports import Gate
from ferryman.ingest.registry import Sources
from ferryman.ingest.work.crew import TOPIC, IngestCrew, Terms
from ferryman.ingest.work.run import Runner
from ferryman.kernel import errors
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.loop import RECONNECT, Pump
from ferryman.kernel.pool import Database, Line

log = logging.getLogger("ferryman.ingest")

POOL_MAX = 8


class Executor:
    """Claim, run and settle tasks of ingestion, from the first claim to the drain."""

    def __init__(
        self,
        sources: Sources,
        gate: Gate,
        doorbell: Doorbell,
        *,
        line: Callable[[], Line],
        boot_id: UUID,
        terms: Terms,
    ) -> None:
        """Hold leases under the boot id of the process; runs write over a pool of their own."""
        self._doorbell = doorbell
        self._terms = terms
        self._line = line()
        self._pool = Database(self._line.url, schema=self._line.schema, size=min(terms.concurrency, POOL_MAX))
        self._hush: Callable[[], None] | None = None
        self._own: Sequence[asyncio.Task[None]] = ()
        runner = Runner(sources, gate, owner=boot_id, pool=self._pool, strikes=terms.strikes, pause=terms.pause)
        crew = IngestCrew(runner, sources, doorbell, owner=boot_id, terms=terms)
        self.pump: Pump[Claimed, Outcome] = Pump(
            crew,
            [self._line],
            domain="ingest",
            concurrency=terms.concurrency,
            claim_max=terms.concurrency,
            poll=terms.poll.total_seconds(),
        )
        self._keeper = Keeper(
            line, held=self.pump.held, renew=crew.renew, beat=_nothing, refused=self.pump.abort, lease=terms.lease
        )

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to claim and to renew."""
        self._hush = self._doorbell.listen(TOPIC, lambda _hints: self.pump.look())
        pumping = asyncio.create_task(self._pump())
        self._own = [pumping]
        return {"ingest pump": pumping, "ingest keeper": self._keeper.start()}

    async def _pump(self) -> None:
        failures = 0
        while True:
            try:
                await self._pool.open()
                break
            except errors.DatabaseUnavailable:
                failures += 1
                await asyncio.sleep(RECONNECT.delay(failures).total_seconds())
        await self.pump.run()

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and hand back the rest."""
        await self.pump.stop(grace.total_seconds())
        if not await self.pump.drained(self._terms.lease.total_seconds()):
            log.warning("stopped without the database: leases end what could not be handed back")

    async def close(self) -> None:
        """End whatever is still under way."""
        if self._hush is not None:
            self._hush()
        for task in self._own:
            task.cancel()
        await asyncio.gather(*self._own, return_exceptions=True)
        await self.pump.close()
        await self._keeper.stop()
        await self._pool.close()
        await self._line.close()


async def _nothing(_line: Line) -> None:
    """The worker of tasks says for the whole process that it lives."""
