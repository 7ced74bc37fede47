"""What agents do in a worker: a pump of their own with its lanes and its keeper (K17)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.agents.ends import Parties
from ferryman.agents.model import Outcome, Taken
from ferryman.agents.ports import Runs
from ferryman.agents.work.crew import TurnCrew
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.loop import Pump
from ferryman.kernel.pool import Line

log = logging.getLogger("ferryman.agents")

RUNG = "agents:"


class Capacity(NamedTuple):
    """How much a worker takes in hand."""

    concurrency: int
    claim_max: int
    lanes: int
    poll: timedelta
    targets: Sequence[str] = ("default",)


class AgentWorker:
    """Claim, run and settle turns; a part of a worker (kernel/part.py)."""

    def __init__(
        self,
        runs: Runs,
        parties: Parties,
        doorbell: Doorbell,
        *,
        line: Callable[[], Line],
        capacity: Capacity,
        boot_id: UUID,
    ) -> None:
        """Hold leases under the boot id of the process; `line` makes connections."""
        self.boot_id = boot_id
        self._doorbell = doorbell
        self._capacity = capacity
        self._lease = parties.terms.lease
        self._lines = [line() for _ in range(capacity.lanes)]
        self._crew = TurnCrew(runs, parties, doorbell, owner=boot_id, targets=capacity.targets)
        self.pump: Pump[Taken, Outcome] = Pump(
            self._crew,
            self._lines,
            domain="turn",
            concurrency=capacity.concurrency,
            claim_max=capacity.claim_max,
            poll=capacity.poll.total_seconds(),
        )
        self._keeper = Keeper(
            line,
            held=self.pump.held,
            renew=self._crew.renew,
            beat=_nothing,
            refused=self.pump.abort,
            lease=self._lease,
        )
        self._hushes: Sequence[Callable[[], None]] = ()
        self._own: Mapping[str, asyncio.Task[None]] = {}

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to claim and to renew."""
        self._hushes = [
            self._doorbell.listen("agents", self._rung),
            self._doorbell.listen("ready", self._resumed),
            self._doorbell.listen("stops", self._stops),
            self._doorbell.listen("stopped", self._stopped),
        ]
        self._own = {"turns": asyncio.create_task(self.pump.run())}
        return {**self._own, "keeper of turns": self._keeper.start()}

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and give up the rest."""
        handed_back = await self.pump.stop(grace.total_seconds())
        if await self.pump.drained(self._lease.total_seconds()):
            log.info("stopped", extra={"boot_id": str(self.boot_id), "handed_back": handed_back})
        else:
            told = {"boot_id": str(self.boot_id), "held": len(self.pump.held)}
            log.warning("stopped without the database: leases end what could not be handed back", extra=told)

    async def close(self) -> None:
        """End whatever is still under way."""
        for hush in self._hushes:
            hush()
        for task in self._own.values():
            task.cancel()
        await asyncio.gather(*self._own.values(), return_exceptions=True)
        await self.pump.close()
        await self._keeper.stop()
        for line in self._lines:
            await line.close()

    def _rung(self, hints: frozenset[str]) -> None:
        if not hints or hints.intersection(self._capacity.targets):
            self.pump.look()

    def _resumed(self, hints: frozenset[str]) -> None:
        """Hear that tools have ended: their tasks' rings name the targets whose turns may go on."""
        if not hints or any(f"{RUNG}{target}" in hints for target in self._capacity.targets):
            self.pump.look()

    def _stops(self, _hints: frozenset[str]) -> None:
        self._crew.stops_asked = True
        self.pump.look()

    def _stopped(self, hints: frozenset[str]) -> None:
        if not hints or any(str(id) in hints for id in self.pump.held):
            self._keeper.check()


async def _nothing(_line: Line) -> None:
    """Say nothing beside the leases: the process has its beat."""
