"""What agents do in a worker: a pump of their own with its lanes and its keeper (K17)."""

from __future__ import annotations

import asyncio
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
from ferryman.kernel.station import Station

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
        self._capacity = capacity
        self._lines = [line().hurry() for _ in range(capacity.lanes)]
        lease = parties.terms.lease
        self._crew = TurnCrew(runs, parties, doorbell, owner=boot_id, targets=capacity.targets)
        self.pump: Pump[Taken, Outcome] = Pump(
            self._crew,
            self._lines,
            domain="turn",
            concurrency=capacity.concurrency,
            claim_max=capacity.claim_max,
            poll=capacity.poll.total_seconds(),
            lease=lease,
        )
        # The process has its beat: the worker of tasks says for all that it lives.
        keeper = Keeper(line, held=self.pump.held, renew=self._crew.renew, refused=self.pump.abort, lease=lease)
        self._station = Station(self.pump, keeper, doorbell, boot_id=boot_id, lease=lease)

    def start(self) -> Mapping[str, asyncio.Future[Any]]:
        """Begin to claim and to renew."""
        heard = {
            "agents": self._rung, "ready": self._resumed, "stops": self._stops, "stopped": self._station.check,
        }  # fmt: skip
        return self._station.start(heard, {"turns": self.pump.run}, keeper="keeper of turns")

    async def drain(self, grace: timedelta) -> None:
        """Finish what runs, within the grace period, and give up the rest."""
        await self._station.drain(grace)

    async def close(self) -> None:
        """End whatever is still under way."""
        await self._station.close()
        for line in self._lines:
            await line.close()

    def _rung(self, hints: frozenset[str]) -> None:
        if not hints or hints.intersection(self._capacity.targets):
            self._look()

    def _resumed(self, hints: frozenset[str]) -> None:
        """Hear that tools have ended: their tasks' rings name the targets whose turns may go on."""
        if not hints or any(f"{RUNG}{target}" in hints for target in self._capacity.targets):
            self._look()

    def _look(self) -> None:
        self._crew.heard()
        self.pump.look()

    def _stops(self, _hints: frozenset[str]) -> None:
        self._crew.stops_asked = True
        self.pump.look()
