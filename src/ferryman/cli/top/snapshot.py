"""What there is to see at one moment, by the same figures as the dashboard's overview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferryman.app.doctor.report import Reading
from ferryman.app.ferryman import Ferryman
from ferryman.app.figures import KINDS, Figures
from ferryman.tasks.intake import read
from ferryman.tasks.intake.read import WorkerRecord

# Rates are those of the last seconds.
LATELY = 10
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Snapshot:
    """One moment of one tenant, and of all workers."""

    tenant: str
    figures: Figures
    workers: Sequence[WorkerRecord]
    alarms: Sequence[Reading]

    def as_json(self) -> dict[str, Any]:
        """Return it for a program."""
        figures = self.figures
        return {
            "at": figures.at,
            "tenant": self.tenant,
            "rates": {kind: round(figures.rate(kind, LATELY), 2) for kind in KINDS},
            "minute": {kind: figures.total(kind, 60) for kind in KINDS},
            "waiting": figures.count("pending") + figures.count("ready"),
            "running": figures.count("running"),
            "oldest_seconds": figures.oldest.total_seconds(),
            "queues": [
                {
                    "queue": each.queue,
                    "pending": each.pending,
                    "ready": each.ready,
                    "running": each.running,
                    "oldest_seconds": each.oldest.total_seconds(),
                    "paused": each.queue in figures.paused,
                }
                for each in figures.depths
            ],
            "workers": [
                {"host": each.host, "pid": each.pid, "queues": each.queues, "handlers": each.handlers,
                 "version": each.version, "started_at": each.started_at}
                for each in self.workers
            ],
            "alarms": [{"name": each.name, "says": each.says, "advice": each.advice} for each in self.alarms],
        }  # fmt: skip


async def take(app: Ferryman, *, patience: float = PATIENCE_SECONDS) -> Snapshot:
    """Look; alarms that take longer to find than the patience are those of the last look."""
    tenant = app.tasks.tenant
    figures = await app.counting.of(tenant)
    alarms = await app.counting.alarms(patience=patience)
    async with app.database.session() as tx:
        workers = [each for each in await read.workers(tx) if each.alive]
    return Snapshot(tenant, figures, workers, alarms)
