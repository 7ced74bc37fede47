"""What ingestion does in a worker: a pump of its own, with a keeper for its leases (K17, I5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.ingest.model import Claimed, Outcome
from ferryman.ingest.ports import Gate
from ferryman.ingest.registry import Sources
from ferryman.ingest.work.crew import TOPIC, IngestCrew, Terms
from ferryman.ingest.work.run import Runner
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.loop import Pump
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import LINE_SETTINGS, Database, Line
from ferryman.kernel.station import Station

POOL_MAX = 8
# For so long a connection stays at hand after a page. The driver's pool ends it later, if nobody wants it.
KEPT_SECONDS = 10.0


def pool_of_runs(url: str, schema: str, terms: Terms) -> Database:
    """Return the connections that runs write over."""
    settings = {
        # A run that is frozen inside the transaction of a page holds its task's row: not for longer than its lease.
        "idle_in_transaction_session_timeout": f"{terms.lease.total_seconds() * 1000:.0f}ms",
        # By this name the watchdog knows for how long one may be in the middle of a statement (kernel/watchdog/still.py).
        "application_name": "ferryman run",
        # Few statements, the same for every page: planned once, and not for tables that happen to be small at that moment.
        **{name: LINE_SETTINGS[name] for name in ("plan_cache_mode", "enable_seqscan")},
    }
    return Database(url, schema=schema, size=min(terms.concurrency, POOL_MAX), settings=settings, keeps=KEPT_SECONDS)


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
        self._line = line().hurry()
        self._pool = pool_of_runs(self._line.url, self._line.schema, terms)
        runner = Runner(sources, gate, owner=boot_id, pool=self._pool, strikes=terms.strikes, pause=terms.pause)
        crew = IngestCrew(runner, sources, doorbell, owner=boot_id, terms=terms)
        self.pump: Pump[Claimed, Outcome] = Pump(
            crew,
            [self._line],
            domain="ingest",
            concurrency=terms.concurrency,
            claim_max=terms.concurrency,
            poll=terms.poll.total_seconds(),
            lease=terms.lease,
        )
        # The process has its beat: the worker of tasks says for all that it lives.
        keeper = Keeper(line, held=self.pump.held, renew=crew.renew, refused=self.pump.abort, lease=terms.lease)
        self._station = Station(self.pump, keeper, doorbell, boot_id=boot_id, lease=terms.lease)

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to claim and to renew."""
        heard = {TOPIC: lambda _hints: self.pump.look()}
        return self._station.start(heard, {"ingest pump": self._pump}, keeper="ingest keeper")

    async def _pump(self) -> None:
        await outlast(self._pool.open)
        await self.pump.run()

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and hand back the rest."""
        await self._station.drain(grace)

    async def close(self) -> None:
        """End whatever is still under way."""
        await self._station.close()
        await self._pool.close()
        await self._line.close()
