"""How ingestion is wired: its door, its part of a worker, its rules."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from ferryman.app.ingest import Ingest
from ferryman.app.schedules import Schedules
from ferryman.app.tasks import Tasks
from ferryman.ingest import watch
from ferryman.ingest.ports import Gate
from ferryman.ingest.registry import Sources
from ferryman.ingest.work.crew import Terms
from ferryman.ingest.work.executor import Executor
from ferryman.ingest.work.gate import SharedGate
from ferryman.kernel import lease, part
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.watchdog import Rule

INVARIANTS = watch.INGEST_INVARIANTS


class Opened(Protocol):
    """What ingestion must know of an opened app."""

    settings: Settings
    doorbell: Doorbell
    ingest: Ingest

    def line(self, patience: timedelta | None = None, **settings: str) -> Line:
        """Make a connection of our own."""


def door(
    database: Database,
    doorbell: Doorbell,
    tasks: Tasks,
    schedules: Schedules,
    *,
    sources: Sources,
    gate: Gate | None,
    moves: Line,
    patience: timedelta,
    settings: Settings,
) -> Ingest:
    """Open the door to ingestion; without a gate of the user's own, executors share one."""
    if gate is None:
        # A crash of the server may forget what was leased in the last moment, and no more.
        line = Line(moves.url, schema=moves.schema, patience=patience, settings={"synchronous_commit": "off"})
        gate = SharedGate(line, sources.pace_of)
    return Ingest(
        database, doorbell, sources, tasks, schedules, moves=moves, patience=patience, settings=settings, gate=gate
    )


def parts(opened: Opened, *, boot_id: UUID, poll: timedelta) -> list[part.Part]:
    """Return the executor, if any source is declared here."""
    ingest = opened.ingest
    if not ingest.sources.declared:
        return []
    ingest.sources.ready()
    given = opened.settings.ingest
    terms = Terms(
        concurrency=given.concurrency,
        partition=given.partition_concurrency,
        queued_max=given.queued_max,
        lease=given.lease,
        poll=poll,
        ends_after=given.ends_after,
        strikes=given.breaker_failures,
        pause=given.breaker_pause,
    )
    line = partial(opened.line, lease.patience(given.lease))
    return [Executor(ingest.sources, ingest.gate, opened.doorbell, line=line, boot_id=boot_id, terms=terms)]


def known(opened: Opened) -> dict[str, list[str]]:
    """Return what a worker says that it knows of ingestion: sources, each with its endpoints."""
    return {"sources": sorted(f"{source}/{endpoint}" for source, endpoint in opened.ingest.sources.declared)}


def rules(opened: Opened) -> list[Rule]:
    """Return the watchdog's rules for ingestion."""
    worker, given = opened.settings.worker, opened.settings.ingest
    rules = watch.rules(
        opened.ingest.sources,
        opened.doorbell,
        sweep=worker.lease_sweep,
        interval=worker.watchdog_pace,
        queued_max=given.queued_max,
        ends_after=given.ends_after,
    )
    set_back = watch.set_back(every=worker.watchdog_pace, lease=given.lease)
    return [*rules, set_back, watch.retention(kept=given.retention)]
