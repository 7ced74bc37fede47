"""The synchronous door to ingestion: the same calls as `app.ingest`, for plain code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ferryman.app.blocking_turns import Runs
from ferryman.app.ingest import Ingest
from ferryman.app.sources import ENDPOINT
from ferryman.ingest.intake.gates import GateRow
from ferryman.ingest.intake.survey import CursorRow, Extent, PaceRow, SliceRow, SourceRow
from ferryman.ingest.model import Planned, Progress, Replayed
from ferryman.tasks.model import ScheduleRecord


class BlockingIngest:
    """Plan ingestion, and ask how far it is, from plain code."""

    def __init__(self, run: Runs, door: Callable[[], Ingest]) -> None:
        """Call the async door on the thread that runs it."""
        self._run = run
        self._door = door

    def plan(self, source: str, endpoint: str | None = None, **asked: Any) -> Planned:
        """Make a plan; the options are those of `app.ingest.plan`."""
        return self._run(self._door().plan(source, endpoint, **asked))

    def backfill(self, source: str, endpoint: str | None = None, *, since: datetime, **asked: Any) -> Planned:
        """Plan the history from `since` on."""
        return self._run(self._door().backfill(source, endpoint, since=since, **asked))

    def schedule(self, source: str, endpoint: str | None = None, **asked: Any) -> ScheduleRecord:
        """Let a schedule plan; the options are those of `app.ingest.schedule`."""
        return self._run(self._door().schedule(source, endpoint, **asked)).schedule

    def status(self, plan_id: UUID | None = None, **which: Any) -> Sequence[Progress]:
        """Tell how far plans are, the newest first."""
        return self._run(self._door().status(plan_id, **which))

    def wait(self, plan_id: UUID, *, timeout: float | None = None) -> Progress:
        """Wait until nothing of a plan is live any more, and tell how far it came."""
        return self._run(self._door().wait(plan_id, timeout=timeout))

    def blackbox(self, id: UUID) -> list[dict[str, Any]]:
        """Rebuild what happened to a run, or to all runs of a task or a plan."""
        return self._run(self._door().blackbox(id))

    def quarantine(self, source: str, **which: Any) -> list[dict[str, Any]]:
        """Read the records that could not be taken, newest first."""
        return self._run(self._door().quarantine(source, **which))

    def gates(self) -> Sequence[GateRow]:
        """Tell how fast each source may be asked now, and why."""
        return self._run(self._door().gates())

    def replay(self, source: str | None = None) -> Sequence[Replayed]:
        """Replay the events of cursors."""
        return self._run(self._door().replay(source))

    def standing(self) -> Sequence[SourceRow]:
        """Tell how the sources that were planned for stand."""
        return self._run(self._door().standing())

    def cursors(self, source: str | None = None) -> Sequence[CursorRow]:
        """Tell where cursors stand, of one source or all."""
        return self._run(self._door().cursors(source))

    def extent(self, plan_id: UUID) -> Extent:
        """Tell what a plan is to cover, and where the cursor that follows it stands."""
        return self._run(self._door().extent(plan_id))

    def slices(self, plan_id: UUID, *, after: int = 0, limit: int = 200) -> Sequence[SliceRow]:
        """Read a page of a plan's slices in their order."""
        return self._run(self._door().slices(plan_id, after=after, limit=limit))

    def pace(self, plan_id: UUID, *, parts: int = 60) -> Sequence[PaceRow]:
        """Tell how fast a plan's source was asked and what the gate allowed, in so many parts of its time."""
        return self._run(self._door().pace(plan_id, parts=parts))

    def rewind(
        self, source: str, endpoint: str = ENDPOINT, *, to: datetime | int, reason: str, operation: str = "HARVEST"
    ) -> Replayed:
        """Take a cursor back, with the reason; the next plan begins there."""
        return self._run(self._door().rewind(source, endpoint, to=to, reason=reason, operation=operation))
