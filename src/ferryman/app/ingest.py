"""The door to ingestion: what users reach as `app.ingest`."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from ferryman.app.repeat import repeated
from ferryman.app.schedules import Schedule, Schedules
from ferryman.app.sources import ENDPOINT, PLANS
from ferryman.app.tasks import Tasks
from ferryman.ingest.intake import cursor, gates, plan, read, survey
from ferryman.ingest.intake.gates import GateRow
from ferryman.ingest.intake.survey import CursorRow, Extent, PaceRow, SliceRow, SourceRow
from ferryman.ingest.model import Planned, Progress, Replayed, Trigger
from ferryman.ingest.ports import Gate, Rated
from ferryman.ingest.registry import Sources
from ferryman.ingest.rules import request
from ferryman.ingest.work.crew import TOPIC
from ferryman.kernel import errors, ids, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line, Session, spoken
from ferryman.kernel.settings import Settings
from ferryman.kernel.waiting import Waiting, Waits
from ferryman.tasks.work.context import Context

LOOK_SECONDS = 1.0

_REFUSALS = (
    errors.IngestInvalidRequest,
    errors.IngestInvalidWindow,
    errors.IngestInvalidExpression,
    errors.IngestUnknownSource,
)


class Ingest:
    """Plan ingestion, and ask how far it is."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        sources: Sources,
        tasks: Tasks,
        schedules: Schedules,
        *,
        moves: Line,
        patience: timedelta,
        settings: Settings,
        gate: Gate,
    ) -> None:
        """Serve whom the door to tasks serves; a plan, which holds a cursor over several trips, goes over a line (W23)."""
        self._db = db
        self._doorbell = doorbell
        self.sources = sources
        self._tasks = tasks
        self._schedules = schedules
        self._moves = moves
        self._patience = patience
        self.gate = gate
        # Rings are about work that is there, and name nobody.
        self._waits = Waits[Waiting[Progress]](
            lambda tenant: Waiting(
                partial(self._ended, tenant=tenant), doorbell, topic=TOPIC, poll=LOOK_SECONDS, named=False
            )
        )
        given = settings.ingest
        self._terms = plan.Terms(
            safety_lag=given.safety_lag,
            first_window=given.first_window,
            queued_max=given.queued_max,
            max_attempts=given.max_attempts,
            max_claims=given.max_claims,
            ends_after=given.ends_after,
        )

    @property
    def tenant(self) -> str:
        """Whom the next call serves: inside a handler of this app the tenant of the running task, else the app's own."""
        return self._tasks.tenant

    def of(self, tenant: str) -> Ingest:
        """Return the same door for one tenant, whatever task is running."""
        door = copy.copy(self)
        door._tasks = self._tasks.of(tenant)  # noqa: SLF001 - a copy of ours
        door._schedules = self._schedules.of(tenant)  # noqa: SLF001
        return door

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with spoken():
            async with self._db.session() as tx:
                yield tx

    # What comes in

    async def plan(
        self,
        source: str,
        endpoint: str | None = None,
        *,
        operation: str = "HARVEST",
        since: datetime | None = None,
        until: datetime | None = None,
        strategy: str | None = None,
        params: Mapping[str, Any] | None = None,
        expression: Any = None,
        budget: Any = None,
        campaign: str | None = None,
        job: str | None = None,
        fire_time: datetime | None = None,
        trigger: str | None = None,
    ) -> Planned:
        """Make a plan, its slices and their tasks; or answer with the plan that is there.

        A harvest needs no window: it goes on from its cursor. `params` are those of the strategy. `job` and `fire_time` name
        the firing of an outer scheduler: the same firing makes nothing twice. A campaign is a namespace of its own, in
        which the same window can be fetched again.
        """
        found = self.sources.find(source, endpoint)
        chosen = strategy or found.strategy
        given = params if params is not None or chosen != found.strategy else found.params
        asked = request.read(
            operation=operation, since=since, until=until, strategy=chosen, params=given, asked=expression,
            given_budget=budget, campaign=campaign,
        )  # fmt: skip
        kind = trigger or ("MANUAL" if job is None else "API")
        if kind not in request.TRIGGERS:
            told = f"trigger: expected one of {', '.join(request.TRIGGERS)}, got {kind!r}."
            raise errors.IngestInvalidRequest(told, field="trigger")
        if fire_time is not None and fire_time.tzinfo is None:
            raise errors.IngestInvalidRequest("fire_time: expected an instant with its offset.", field="fire_time")
        named = ids.check_key(job, "job") if job is not None else f"manual:{found.name}:{found.endpoint}:{operation}"
        id, fired = ids.new_id(), Trigger(kind, named, fire_time)

        async def once() -> Planned:
            async with self._moves.transaction() as tx:
                return await plan.plan(tx, id, found, asked, fired, tenant=self.tenant, terms=self._terms)

        planned = await repeated(once, self._patience)
        if planned.made:
            telemetry.created("ingest", found.name, planned.tasks)
            self._doorbell.ring(TOPIC)
        return planned

    async def backfill(self, source: str, endpoint: str | None = None, *, since: datetime, **more: Any) -> Planned:
        """Plan the history from `since` up to `until`, or to the forward watermark."""
        return await self.plan(source, endpoint, operation="BACKFILL", since=since, **more)

    async def schedule(
        self,
        source: str,
        endpoint: str | None = None,
        *,
        every: timedelta | str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        operation: str = "HARVEST",
        expression: Any = None,
        **more: Any,
    ) -> Schedule:
        """Let a schedule plan: each firing is a task that makes one plan."""
        found = self.sources.find(source, endpoint)
        asked = {"source": found.name, "endpoint": found.endpoint, "operation": operation}
        if expression is not None:
            asked["expression"] = expression
        more.setdefault("schedule_id", f"ingest-{found.name}-{found.endpoint}-{operation}".lower())
        return await self._schedules.create(PLANS, asked, every=every, cron=cron, timezone=timezone, **more)

    async def fired(self, context: Context, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Plan for a task that a schedule fired, or that somebody created: its firing is the trigger."""
        record = await self._tasks.record(context.id)
        job = str(record.schedule or context.id)
        try:
            planned = await self.plan(
                **asked, job=job, fire_time=record.fire_time or record.created_at, trigger="SCHEDULE"
            )
        except _REFUSALS as refused:
            raise errors.DoNotRetry(refused) from refused
        return planned.as_json()

    # What is asked

    async def status(
        self,
        plan_id: UUID | None = None,
        *,
        source: str | None = None,
        before: UUID | None = None,
        limit: int = 20,
    ) -> Sequence[Progress]:
        """Tell how far plans are, the newest first: share of the window, rate, requests, records, errors, estimated end.

        `before` is the last plan of the page before.
        """
        async with self._session() as tx:
            found = await read.status(tx, tenant=self.tenant, id=plan_id, source=source, before=before, limit=limit)
        gate = self.gate
        if not isinstance(gate, Rated):
            return found
        return [await self._rated(gate, each) for each in found]

    async def _rated(self, gate: Rated, progress: Progress) -> Progress:
        known = self.sources.declared.get((progress.source, progress.endpoint))
        return progress if known is None else replace(progress, gate=await gate.in_force(known.key))

    async def wait(self, plan_id: UUID, *, timeout: float | None = None) -> Progress:
        """Wait until nothing of a plan is live any more, and tell how far it came; TimeoutError if that takes too long."""
        async with asyncio.timeout(timeout):
            progress = await self._waits.of(self.tenant).end(plan_id)
        return await self._rated(self.gate, progress) if isinstance(self.gate, Rated) else progress

    async def _ended(self, ids: Collection[UUID], *, tenant: str) -> Mapping[UUID, Progress | Exception]:
        """Read how far plans came; all who wait share this look."""
        async with self._session() as tx:
            return await read.ended(tx, ids, tenant=tenant)

    async def blackbox(self, id: UUID) -> list[dict[str, Any]]:
        """Rebuild what happened to a run, or to all runs of a task or a plan."""
        async with self._session() as tx:
            return await read.blackbox(tx, id, tenant=self.tenant)

    async def quarantine(
        self, source: str, *, before: tuple[UUID, int] | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Read the records that could not be taken, newest first; `before` is the last of the page before: batch and number."""
        async with self._session() as tx:
            return await read.quarantine(tx, tenant=self.tenant, source=source, before=before, limit=limit)

    async def gates(self) -> Sequence[GateRow]:
        """Tell how fast each source may be asked now, and why; for all tenants together, as a source sees them."""
        async with self._session() as tx:
            return await gates.read(tx)

    async def replay(self, source: str | None = None) -> list[Replayed]:
        """Replay the events of cursors: where they lead, and whether the cursors stand there."""
        async with self._session() as tx:
            return await cursor.replay(tx, tenant=self.tenant, source=source)

    async def standing(self) -> Sequence[SourceRow]:
        """Tell how the sources that were planned for stand: the circuit breaker, what is in line and in hand."""
        async with self._session() as tx:
            return await survey.sources(tx, tenant=self.tenant)

    async def cursors(self, source: str | None = None) -> Sequence[CursorRow]:
        """Tell where cursors stand, of one source or all, and how far that is behind the present."""
        async with self._session() as tx:
            return await survey.cursors_of(tx, tenant=self.tenant, source=source)

    async def extent(self, plan_id: UUID) -> Extent:
        """Tell what a plan is to cover, as numbers, and where the cursor that follows it stands."""
        async with self._session() as tx:
            return await survey.extent(tx, plan_id, tenant=self.tenant)

    async def slices(self, plan_id: UUID, *, after: int = 0, limit: int = 200) -> Sequence[SliceRow]:
        """Read a page of a plan's slices in their order, each with what became of its task."""
        async with self._session() as tx:
            return await survey.slices(tx, plan_id, tenant=self.tenant, after=after, limit=limit)

    async def pace(self, plan_id: UUID, *, parts: int = 60) -> Sequence[PaceRow]:
        """Tell how fast a plan's source was asked and what the gate allowed, in so many parts of its time (I9)."""
        async with self._session() as tx:
            return await survey.pace(tx, plan_id, tenant=self.tenant, parts=parts)

    # What is moved

    async def rewind(
        self, source: str, endpoint: str = ENDPOINT, *, to: datetime | int, reason: str, operation: str = "HARVEST"
    ) -> Replayed:
        """Take a cursor back, with the reason; the next plan begins there."""
        with spoken():
            async with self._moves.transaction() as tx:
                return await cursor.rewind(
                    tx, tenant=self.tenant, source=source, endpoint=endpoint, to=to, reason=reason, operation=operation
                )

    async def close(self) -> None:
        """Let nobody wait any more; let go of the line, and of what the gate and the sources hold."""
        await self._waits.close()
        close = getattr(self.gate, "close", None)
        if callable(close):
            await close()
        await self.sources.close()
        await self._moves.close()
