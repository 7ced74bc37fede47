"""Where the acts are played: one app, its worker processes, and what all acts ask of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ferryman.app.ferryman import Ferryman
from ferryman.app.handle import Handle
from ferryman.cli.demo.depot import Depot
from ferryman.cli.demo.hands import Hand, Hands
from ferryman.cli.demo.tale import Tale
from ferryman.kernel import db
from ferryman.tasks.intake import read
from ferryman.tasks.intake.explain import Explanation
from ferryman.tasks.states import RUNNING

NOW = db.load("ferryman.cli.demo", "now")
HELD = db.load("ferryman.cli.demo", "held")

PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.05


@dataclass
class Measured:
    """What the acts have measured, for the summary; None or nothing until then."""

    recovery_seconds: float | None = None
    steps: int = 0
    step_calls: int = 0
    firings: int = 0
    fired_tasks: int = 0
    limited: int = 0
    most_at_once: int = 0
    fenced: int = 0
    parcels: int = 0
    parcels_there: int = 0
    refusals: int = 0
    breakdowns: int = 0
    tasks_per_second: float = 0.0


@dataclass
class Stage:
    """One run of the story."""

    app: Ferryman
    hands: Hands
    tale: Tale
    depot: Depot = field(default_factory=Depot)
    measured: Measured = field(default_factory=Measured)

    async def now(self) -> datetime:
        """Ask the clock that all comparisons use."""
        now: datetime = await self.ask(NOW, "now")
        return now

    async def held(self) -> int:
        """Count the tasks that any worker holds."""
        count: int = await self.ask(HELD, "count")
        return count

    async def ask(self, statement: db.Statement, column: str) -> Any:
        """Return one value of the one row of a statement."""
        async with self.app.database.session() as tx:
            row = await db.one(tx, statement)
        assert row is not None
        return row[column]

    async def workers(self) -> list[int]:
        """Return the process ids of the workers that live, as the database knows them."""
        async with self.app.database.session() as tx:
            known = [each.pid for each in await read.workers(tx) if each.alive]
        living = {hand.pid for hand in self.hands.alive}
        return sorted(pid for pid in known if pid in living)

    async def crew(self, count: int) -> list[int]:
        """Wait until so many workers are there, and return who is there."""
        until = time.monotonic() + PATIENCE_SECONDS
        there = await self.workers()
        while len(there) < count and time.monotonic() < until and len(self.hands.alive) >= count:
            await asyncio.sleep(LOOK_SECONDS)
            there = await self.workers()
        return there

    async def holder(self, handle: Handle) -> Hand:
        """Wait until somebody runs a task and tells how far it is, and say who."""
        async for word in handle.watch():
            if word.state is RUNNING and word.percent is not None:
                break
        owner = (await handle.refresh()).lease_owner
        return self.hands.by_pid(await self._pid(owner))

    async def _pid(self, boot_id: UUID | None) -> int:
        async with self.app.database.session() as tx:
            return next(each.pid for each in await read.workers(tx) if each.boot_id == boot_id)

    async def explained(self, handle: Handle, code: str) -> Explanation:
        """Wait until a task is kept by this reason, and return what explains it then; in the end whatever does."""
        until = time.monotonic() + PATIENCE_SECONDS
        told = await self.app.tasks.explain(handle.id)
        while code not in told.codes() and told.ends is not None and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)
            told = await self.app.tasks.explain(handle.id)
        return told
