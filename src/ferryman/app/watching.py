"""The door to the watchdog's view: who watches, what ends what lives, what is overdue, and which rules there are (W21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ferryman.app.shared import Shared
from ferryman.kernel import db
from ferryman.kernel.pool import Database, spoken
from ferryman.kernel.watchdog import Rule
from ferryman.tasks.intake import read
from ferryman.tasks.intake.read import WorkerRecord

if TYPE_CHECKING:
    from ferryman.app.doctor.report import Reading

_OVERDUE = db.load("ferryman.app", "watching/overdue")

OVERDUE_MAX = 100
LOOK_EVERY = 4.0

# What rules write as the reason when they end something or bring it back.
CODES = (
    "TASK_TIMEOUT", "TASK_EXPIRED", "COMMAND_TIMEOUT", "COMMAND_UNKNOWN_TYPE", "CAPABILITY_UNKNOWN", "INGEST_STUCK",
    "poison_message", "missing_channel", "tool_timeout", "dispatch_timeout", "timeout_reaped_by_watchdog",
    "deadline_exceeded", "downstream_unavailable",
)  # fmt: skip


class Watched(NamedTuple):
    """How the watch stands: how a watchdog was found, what ends what lives, and what should have ended."""

    readings: Sequence[Reading]
    bounds: Sequence[Mapping[str, Any]]
    overdue: Sequence[Mapping[str, Any]]


class Watching:
    """Ask about all tenants: for operators."""

    def __init__(self, db: Database, rules: Callable[[], Sequence[Rule]], *, interval: timedelta) -> None:
        """Read through a pool; `interval` is the watchdog's."""
        self._db = db
        self._rules = rules
        self._interval = interval
        self._looks = Shared(self._look, every=LOOK_EVERY)

    def rules(self) -> Sequence[Rule]:
        """Return every rule of every domain."""
        return sorted(self._rules(), key=lambda rule: rule.name)

    async def look(self) -> Watched:
        """Return how the watch stands; all who ask within some seconds share one look."""
        return await self._looks.get()

    async def close(self) -> None:
        """Look no more."""
        await self._looks.close()

    async def _look(self) -> Watched:
        from ferryman.app.doctor import work  # which `import ferryman` should not wait for

        with spoken():
            async with self._db.session() as tx:
                readings = await work.watchdog(tx, interval=self._interval)
                bounds = [each for reading in await work.bounds(tx) for each in reading.details]
                overdue = [work.told(row) for row in await db.many(tx, _OVERDUE, limit=OVERDUE_MAX)]
        return Watched(readings, bounds, overdue)

    async def workers(self) -> Sequence[WorkerRecord]:
        """Read who works, and who went without a word in the last day."""
        with spoken():
            async with self._db.session() as tx:
                return await read.workers(tx)
