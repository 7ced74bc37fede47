"""What ingestion does for the pump: a turn, and a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.ingest.model import Claimed, Outcome, Verdict
from ferryman.ingest.registry import Sources
from ferryman.ingest.states import RunState, TaskState
from ferryman.ingest.store import tasks
from ferryman.ingest.work import reslice
from ferryman.ingest.work.run import Runner
from ferryman.ingest.work.settle import give_back, settle
from ferryman.ingest.work.walk import BATCH_TIME
from ferryman.kernel import errors, faults, telemetry
from ferryman.kernel.crew import Turned
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.lease import MARGIN
from ferryman.kernel.pool import Line

TOPIC = "ingest"
DECIDED_AT_ONCE = 20
# So long a claim may go on when its budget is gone: a page that was asked for just before may come, and be written.
PAST_BUDGET = BATCH_TIME + MARGIN


class Terms(NamedTuple):
    """How an executor works."""

    concurrency: int
    partition: int
    queued_max: int
    lease: timedelta
    poll: timedelta
    ends_after: timedelta
    strikes: int
    pause: timedelta


class IngestCrew:
    """Claim, run and settle tasks of ingestion for one worker."""

    def __init__(self, runner: Runner, sources: Sources, doorbell: Doorbell, *, owner: UUID, terms: Terms) -> None:
        """Serve the sources that are declared here, under one boot id."""
        self._sources = sources
        self._doorbell = doorbell
        self._owner = owner
        self._terms = terms
        self.run = runner.run
        self.hand_back = runner.hand_back

    async def turn(self, line: Line, outcomes: Sequence[Outcome], room: int) -> Turned[Claimed]:
        """Settle what has ended, each in a transaction of its own, and claim."""
        began = time.perf_counter()
        left = await self._settle(line, outcomes)
        claimed: Sequence[Claimed] = ()
        asked = time.monotonic()
        if room > 0:
            async with line.transaction() as tx:
                claimed = await tasks.claim(
                    tx,
                    owner=self._owner,
                    known=self._sources.declared,
                    room=room,
                    partition=self._terms.partition,
                    lease=self._terms.lease,
                    margin=PAST_BUDGET,
                )
        if claimed:
            faults.point("ingest.claimed")
            for source, count in Counter(task.source for task in claimed).items():
                telemetry.claimed("ingest", source, count)
        if outcomes or claimed:
            took = time.perf_counter() - began
            telemetry.turned("ingest", took, settled=len(outcomes) - len(left), claimed=len(claimed))
        return Turned(claimed, more=len(claimed) == room > 0, left=left, asked=asked)

    async def _settle(self, line: Line, outcomes: Sequence[Outcome]) -> set[UUID]:
        """Settle each by itself; answer with those that were busy."""
        partial = False
        left: set[UUID] = set()
        for outcome in outcomes:
            try:
                async with line.transaction() as tx:
                    row = await settle(tx, outcome, queued_max=self._terms.queued_max)
            except tasks.Busy:
                left.add(outcome.id)
                continue
            if row is None:
                telemetry.fenced("ingest", "settle")
                continue
            faults.point("ingest.ended")
            verdict = outcome.verdict
            partial = partial or verdict.task is TaskState.PARTIAL
            telemetry.ended("ingest", verdict.task.value, verdict.code)
        if partial:
            async with line.transaction() as tx:
                open_ = await tasks.undecided(tx, DECIDED_AT_ONCE, known=self._sources.declared)
                await reslice.decide(
                    tx, open_, self._sources, queued_max=self._terms.queued_max, ends_after=self._terms.ends_after
                )
        if outcomes:
            self._doorbell.ring(TOPIC)
        return left

    async def reclaim(self, line: Line, held: Collection[UUID]) -> int:
        """Hand back what is leased to this worker but not held by it."""
        async with line.transaction() as tx:
            unknown = await tasks.reclaim(tx, owner=self._owner, held=held)
            count = await give_back(tx, unknown, queued_max=self._terms.queued_max)
        if count:
            self._doorbell.ring(TOPIC)
        return count

    async def renew(self, line: Line, ids: Sequence[UUID], epochs: Sequence[int]) -> Mapping[UUID, bool]:
        """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
        return await tasks.renew(line, ids, epochs, owner=self._owner, lease=self._terms.lease, margin=PAST_BUDGET)

    def doubt(self) -> None:
        """Nothing is remembered between turns: each looks."""

    def lost(self, count: int) -> None:
        """Count claims that were lost while they ran."""
        telemetry.fenced("ingest", "renew", count)

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """End a claim whose end could not be written as FAILED; None when that could not either."""
        if outcome.verdict.code == errors.StatementRefused.code:
            return None
        told = Verdict(
            TaskState.FAILED, RunState.FAILED, code=errors.StatementRefused.code, reason=errors.said(error)[:2000]
        )
        return replace(outcome, verdict=told, covered=None, stats={})
