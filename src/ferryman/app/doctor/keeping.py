"""Whether what has ended leaves in time (T20)."""

from __future__ import annotations

from datetime import timedelta

from ferryman.app.doctor.report import BAD, GOOD, NOTE, Reading, counted
from ferryman.kernel import db, duration
from ferryman.kernel.db import Tx
from ferryman.kernel.settings import Settings

RETENTION = db.load("ferryman.app", "doctor/retention")

# A walk over a large table takes hours, and half a day without a worker is no alarm.
LATE = timedelta(days=1)


async def retention(tx: Tx, settings: Settings) -> list[Reading]:
    """Count what has been kept for longer than it should be."""
    rows = await db.many(
        tx,
        RETENTION,
        tasks=settings.tasks.retention,
        failed_tasks=settings.tasks.retention_failed,
        turns=settings.agents.retention,
        batches=settings.pmo.retention,
        commands=settings.commands.retention,
        plans=settings.ingest.retention,
        deliveries=settings.relays.retention,
        dead_deliveries=settings.relays.retention_dead,
    )
    if not rows:
        return [
            Reading("retention", GOOD, f"What has ended is kept for so long: {_terms(settings)}. Nothing is past it.")
        ]
    told = ", ".join(counted(row["count"], row["domain"]) for row in rows)
    longest = timedelta(seconds=max(row["longest_seconds"] for row in rows))
    says = f"{told} past their keeping, the oldest by {longest.days} d ({_terms(settings)})."
    details = [{"domain": row["domain"], "count": row["count"], "seconds": row["longest_seconds"]} for row in rows]
    if longest < LATE:
        advice = "The watchdog of a worker deletes them, a set at a time."
        return [Reading("retention", NOTE, says, advice, details)]
    advice = "Start a worker: its watchdog deletes them. If one runs, look in its log for what T20 could not delete."
    return [Reading("retention", BAD, says, advice, details)]


def _terms(settings: Settings) -> str:
    kept = {
        "tasks": settings.tasks.retention,
        "failed ones": settings.tasks.retention_failed,
        "turns": settings.agents.retention,
        "batches": settings.pmo.retention,
        "commands": settings.commands.retention,
        "plans": settings.ingest.retention,
        "deliveries": settings.relays.retention,
        "dead ones": settings.relays.retention_dead,
    }
    return ", ".join(f"{what} {duration.show(length)}" for what, length in kept.items())
