"""Runs of claimed tasks: one walk each, and what it came to (I6, I7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

from ferryman.ingest.model import Claimed, Outcome
from ferryman.ingest.ports import Gate
from ferryman.ingest.registry import Sources
from ferryman.ingest.rules import ending
from ferryman.ingest.rules.ending import Done
from ferryman.ingest.store import tasks
from ferryman.ingest.work.desk import Desk, Pool, Stale
from ferryman.ingest.work.journal import Journal
from ferryman.ingest.work.walk import Walk
from ferryman.kernel import telemetry


class Runner:
    """Run claimed tasks."""

    def __init__(
        self, sources: Sources, gate: Gate, *, owner: UUID, pool: Pool, strikes: int, pause: timedelta
    ) -> None:
        """Write under one boot id; `strikes` failed requests in a row open the circuit breaker for `pause`."""
        self._sources = sources
        self._gate = gate
        self._owner = owner
        self._desk = Desk(pool, owner=owner, strikes=strikes, pause=pause)
        self._journals: dict[UUID, Journal] = {}

    async def run(self, task: Claimed) -> Outcome | None:
        """Do one run; None when the claim was lost meanwhile."""
        try:
            return await self._run(task)
        except Stale:
            telemetry.fenced("ingest", "step")
            return None
        except asyncio.CancelledError:
            return None  # by the pump: the lease is gone, or the task has been handed back
        finally:
            self._journals.pop(task.id, None)

    def hand_back(self, task: Claimed) -> Outcome:
        """Return a task that was not finished here; what it has fetched stays."""
        journal = self._journals.get(task.id)
        verdict = ending.handed_back(journal.pages if journal else 0)
        if journal is None:
            return Outcome(task.id, task.epoch, self._owner, verdict)
        return Outcome(task.id, task.epoch, self._owner, verdict, stats=journal.stats(), requests=journal.sent)

    async def _run(self, task: Claimed) -> Outcome:
        declared = self._sources.declared[task.source, task.endpoint]
        begun = await self._desk.write(lambda tx: tasks.execute(tx, task, owner=self._owner))
        if begun is None:
            raise Stale
        journal = self._journals[task.id] = Journal(task, begun, declared.page_items)
        end = await Walk(task, declared, journal, self._desk, self._gate).go()
        verdict = ending.verdict(
            end, done_now=journal.pages, done=journal.done, used=task.used, max_attempts=task.max_attempts
        )
        covered = task.cut.upper if isinstance(end, Done) else None
        stats = journal.stats()
        return Outcome(task.id, task.epoch, self._owner, verdict, covered=covered, stats=stats, requests=journal.sent)
