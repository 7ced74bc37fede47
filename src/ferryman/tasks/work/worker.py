"""What tasks do in a worker: the pump with its lanes, its keeper and its sweep (K17)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel.codec import PLAIN, Seal
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.lease import MARGIN
from ferryman.kernel.loop import Pump
from ferryman.kernel.pool import Line
from ferryman.kernel.station import Station
from ferryman.kernel.timed import timed
from ferryman.tasks import store
from ferryman.tasks.flow import Looks, keyed
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.work.crew import TaskCrew
from ferryman.tasks.work.due import Sweep
from ferryman.tasks.work.durable import Desk, Drafts
from ferryman.tasks.work.handlers import Handler
from ferryman.tasks.work.run import Runner
from ferryman.tasks.work.scheduler import Scheduler
from ferryman.tasks.work.scribe import Scribe
from ferryman.tasks.work.words import Words

log = logging.getLogger("ferryman.worker")


class Terms(NamedTuple):
    """How a worker works."""

    queues: Sequence[str]
    concurrency: int
    claim_max: int
    lanes: int
    lease: timedelta
    grace: timedelta
    poll: timedelta
    result_limit: int
    version: str
    ends_after: timedelta = timedelta(days=30)
    # What else the process knows, by topic: what other domains do here. It is said with the beat, for `explain`.
    knows: Mapping[str, Sequence[str]] = {}
    # How long other domains hold what they claim here; said too, so that nobody takes a long lease for one of another clock.
    leases: Mapping[str, timedelta] = {}


class Worker:
    """Claim, run and settle tasks, from the first beat to the drain."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        owners: Owners,
        doorbell: Doorbell,
        *,
        line: Callable[[], Line],
        session: Callable[[], AbstractAsyncContextManager[Tx]],
        drafts: Drafts,
        terms: Terms,
        boot_id: UUID,
        home: object = None,
        looks: Looks = keyed,
        seal: Seal = PLAIN,
    ) -> None:
        """Hold leases under the boot id of the process; `line` makes connections, `session` borrows one from the pool.

        `home` is the app it works for: inside a handler that app's doors serve the tenant of the running task. `looks` knows
        which tasks must look before they are stored; `seal` how payloads and results are.
        """
        self.boot_id = boot_id
        self._handlers = handlers
        self._owners = owners
        self._doorbell = doorbell
        self._terms = terms
        self._words = Words(session, doorbell)
        self._lines = [line(), *(line().hurry() for _ in range(2 + terms.lanes))]
        self._scribe = Scribe(
            self._lines[1], doorbell,
            owner=self.boot_id, ends_after=terms.ends_after, flows=self._lines[2], looks=looks,
        )  # fmt: skip
        self._runner = self._make_runner(drafts, home, seal)
        self._crew = TaskCrew(
            self._runner, owners, doorbell,
            owner=self.boot_id, queues=terms.queues, lease=terms.lease, margin=MARGIN,
        )  # fmt: skip
        self.pump: Pump[Claimed, Outcome] = Pump(
            self._crew,
            self._lines[3:],
            domain="task",
            concurrency=terms.concurrency,
            claim_max=terms.claim_max,
            poll=terms.poll.total_seconds(),
            lease=terms.lease,
        )
        self._crew.look = self.pump.look
        scheduler = Scheduler(self._lines[0], doorbell, ends_after=terms.ends_after, looks=looks)
        self._sweep = Sweep(self._lines[0], doorbell, poll=terms.poll.total_seconds(), scheduler=scheduler)
        keeper = Keeper(
            line,
            held=self.pump.held,
            renew=self._crew.renew,
            beat=self._beat,
            refused=self.pump.abort,
            lease=terms.lease,
        )
        self._station = Station(self.pump, keeper, doorbell, boot_id=boot_id, lease=terms.lease)

    def _make_runner(self, drafts: Drafts, home: object, seal: Seal) -> Runner:
        terms = self._terms
        return Runner(
            self._handlers,
            self._words,
            Desk(self._scribe, drafts, limit=terms.result_limit, seal=seal),
            owner=self.boot_id,
            limit=terms.result_limit,
            concurrency=terms.concurrency,
            home=home,
            freed=lambda: self._ready(frozenset()),
            seal=seal,
        )

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to claim, to renew and to promote what is due."""
        log.info("working", extra={"boot_id": str(self.boot_id), "queues": list(self._terms.queues)})
        heard = {"ready": self._ready, "cancel": self._station.check, "queues": lambda _hints: self._ready(frozenset())}
        return self._station.start(heard, {"sweep": self._sweep.run, "pump": self.pump.run}, keeper="keeper")

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and hand back the rest."""
        await self._station.drain(grace)

    async def close(self) -> None:
        """End whatever is still under way, and say goodbye."""
        await self._station.close()
        self._runner.close()
        await self._scribe.close()
        await self._words.close()
        try:
            await timed(store.leave(self._lines[0], self.boot_id), 2)
        except Exception as error:
            log.debug("could not say goodbye", exc_info=error)
        for line in self._lines:
            await line.close()

    def _ready(self, hints: frozenset[str]) -> None:
        if self._crew.heard(hints):
            self.pump.look()

    async def _beat(self, line: Line) -> None:
        await store.beat(
            line,
            boot_id=self.boot_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._terms.version,
            queues=list(self._terms.queues),
            # What it would take now: while it is full of threads left behind, others must be found for the rest.
            handlers=self._runner.names,
            settings=json.dumps(
                {
                    **{topic: sorted(known) for topic, known in self._terms.knows.items()},
                    **{f"{what}_lease_seconds": each.total_seconds() for what, each in self._terms.leases.items()},
                    "lease_seconds": self._terms.lease.total_seconds(),
                    "concurrency": self._terms.concurrency,
                    "callbacks": self._owners.kinds,
                    "short_of": sorted({*self._handlers} - {*self._runner.names}),
                }
            ),
            lease=self._terms.lease,
        )
