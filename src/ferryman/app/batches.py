"""The door to batches: what users reach as `app.batches` (B10).

Who forks here is a virtual parent: no turn waits, the batch and its deadline are the same, and its result can be awaited.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ferryman.agents.ends import Aftermath
from ferryman.agents.work.profiles import Budget, Profiles
from ferryman.app.forks import Forks
from ferryman.batches import intake, rules
from ferryman.batches.ends import JOINED, BatchEnds, cancel
from ferryman.batches.intake import Wanted
from ferryman.batches.intake.read import Tree
from ferryman.batches.model import BatchRecord, Caller, Refused, TaskRecord
from ferryman.kernel import errors, ids, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, Line, spoken
from ferryman.kernel.waiting import Waiting, Waits

LOOK_SECONDS = 1.0
CANCELED = "canceled"


class Joined(NamedTuple):
    """A batch that has ended, with its tasks."""

    batch: BatchRecord
    tasks: Sequence[TaskRecord]


class BatchHandle:
    """One batch, in the hands of whoever forked it."""

    __slots__ = ("_door", "id", "idempotent_hit")

    def __init__(self, door: Batches, id: UUID, *, idempotent_hit: bool = False) -> None:
        """Belong to a door; `idempotent_hit` says that the batch was there before it was asked for."""
        self._door = door
        self.id = id
        self.idempotent_hit = idempotent_hit

    async def record(self) -> BatchRecord:
        """Read the batch as it is now."""
        return await self._door.get(self.id)

    async def tasks(self) -> Sequence[TaskRecord]:
        """Read its tasks, in order."""
        return await self._door.tasks(self.id)

    async def result(self, *, timeout: timedelta | float | None = None) -> Mapping[str, Any]:
        """Wait for the end and return it: `status`, and one of `results` for each task, whatever they came to."""
        return await self._door.join(self.id, timeout=timeout)

    async def cancel(self) -> bool:
        """End the batch and stop its children; false if it had ended."""
        return await self._door.cancel(self.id)

    def __repr__(self) -> str:
        """Name the batch."""
        return f"<batch {self.id}>"


class Batches:
    """Fork batches from outside of an agent, ask about them, end them."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        ends: BatchEnds,
        profiles: Profiles,
        *,
        line: Callable[[], Line],
        tenant: str,
    ) -> None:
        """Serve one tenant; forks that come together go over lines of their own."""
        self._db = db
        self._doorbell = doorbell
        self.ends = ends
        self._tenant = tenant
        self._forks = Forks(doorbell, ends.terms, profiles, line=line)
        self._waits = Waits[Waiting[Joined]](
            lambda tenant: Waiting(partial(self._joined, tenant=tenant), doorbell, topic=JOINED, poll=LOOK_SECONDS)
        )

    def of(self, tenant: str) -> Batches:
        """Return the same door for one tenant."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        return door

    async def close(self) -> None:
        """Send what is under way; let nobody wait any more."""
        await self._forks.close()
        await self._waits.close()

    async def fork(
        self,
        tasks: Sequence[Mapping[str, Any]],
        *,
        id: UUID | None = None,
        channel: str = "default",
        budget: Budget | None = None,
        **asked: Any,
    ) -> BatchHandle:
        """Ask several agents for turns at once. Each task says target_strategy, target_ref, instruction, context_box_id.

        `fail_fast` and `deadline_seconds` are those of the source; `id` makes a repeat harmless; `budget` is for all that the
        batch leads to. BATCH_REFUSED says what is wrong, and then nothing was made.
        """
        return await self.accept({"tasks": tasks, **asked}, id=id, channel=channel, budget=budget)

    async def accept(
        self,
        asked: Mapping[str, Any],
        *,
        id: UUID | None = None,
        channel: str = "default",
        budget: Budget | None = None,
    ) -> BatchHandle:
        """Fork a batch from a request in the form of the source."""
        read = rules.read(asked, self.ends.terms)
        batch = ids.new_id() if id is None else rules.read_id(id)
        rules.check_channel(channel)
        caller = Caller(
            tenant=self._tenant,
            channel=channel,
            budget=batch if budget is not None else None,
            traceparent=telemetry.carry(),
        )
        wanted = Wanted(read, caller, batch, allows=None if budget is None else asdict(budget))
        answer = await self._forks.fork(wanted, keyed=id is not None)
        if isinstance(answer, Refused):
            kind = errors.BatchDuplicate if answer.code == "conflict" else errors.BatchRefused
            raise kind(answer.reason, code=answer.code, field=answer.field)
        return BatchHandle(self, answer.id, idempotent_hit=not answer.created)

    async def get(self, batch: UUID) -> BatchRecord:
        """Read a batch."""
        with spoken():
            async with self._db.session() as tx:
                found = await intake.read.batches(tx, [batch], tenant=self._tenant)
        if not found:
            raise _not_found(batch)
        return found[0]

    async def list(
        self,
        *,
        status: Literal["running", "success", "failed", "timeout", "partial"] | None = None,
        before: UUID | None = None,
        limit: int = 50,
    ) -> Sequence[BatchRecord]:
        """Read a page of batches, newest first; `before` is the last of the page before."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.listed(tx, tenant=self._tenant, status=status, before=before, limit=limit)

    async def tasks(self, batch: UUID) -> Sequence[TaskRecord]:
        """Read the tasks of a batch, in order."""
        await self.get(batch)
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.tasks(tx, batch)

    async def counts(self, batches: Collection[UUID]) -> Mapping[UUID, Mapping[str, int]]:
        """Count the tasks of batches by their status: how far each of a page is."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.counts(tx, batches, tenant=self._tenant)

    async def forked(self, turn: UUID, agent_id: str) -> Sequence[BatchRecord]:
        """Read the batches that a turn of an agent forked, in order."""
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.forked(tx, turn, agent_id, tenant=self._tenant)

    async def tree(self, batch: UUID) -> Tree:
        """Read a batch with its tasks, and the batches that their turns forked."""
        record = await self.get(batch)
        with spoken():
            async with self._db.session() as tx:
                return await intake.read.tree(tx, record)

    async def result(self, batch: UUID) -> Mapping[str, Any]:
        """Return what a batch came to, or has come to so far (its status is then `running`)."""
        record = await self.get(batch)
        return rules.result(record.status, await self.tasks(batch), limit=self.ends.terms.card_limit)

    async def wait(self, batch: UUID, *, timeout: timedelta | float | None = None) -> BatchRecord:
        """Wait until a batch has ended; raises TimeoutError after `timeout`."""
        return (await self._end(batch, timeout)).batch

    async def join(self, batch: UUID, *, timeout: timedelta | float | None = None) -> Mapping[str, Any]:
        """Wait until a batch has ended, and return what it came to; raises TimeoutError after `timeout`."""
        record, tasks = await self._end(batch, timeout)
        return rules.result(record.status, tasks, limit=self.ends.terms.card_limit)

    async def _end(self, batch: UUID, timeout: timedelta | float | None) -> Joined:
        async with asyncio.timeout(timeout.total_seconds() if isinstance(timeout, timedelta) else timeout):
            return await self._waits.of(self._tenant).end(batch)

    async def _joined(self, batches: Collection[UUID], *, tenant: str) -> dict[UUID, Joined | Exception]:
        """Read what ended batches came to; all who wait share this look."""
        with spoken():
            async with self._db.session() as tx:
                found = {each.id: each for each in await intake.read.batches(tx, batches, tenant=tenant)}
                over = [each for each in found.values() if each.terminal]
                tasks = await intake.read.tasks_of(tx, [each.id for each in over]) if over else {}
        met: dict[UUID, Joined | Exception] = {each.id: Joined(each, tasks[each.id]) for each in over}
        return met | {batch: _not_found(batch) for batch in batches if batch not in found}

    async def cancel(self, batch: UUID) -> bool:
        """End a batch as failed, stop its children and all that they forked; false if it had ended."""
        await self.get(batch)
        after = Aftermath()
        with spoken():
            async with self._db.transaction() as tx:
                closed = await cancel(tx, [batch], self.ends.parties, self.ends.terms, reason=CANCELED, after=after)
        after.ring(self._doorbell)
        return bool(closed)


def _not_found(batch: UUID) -> errors.BatchNotFound:
    return errors.BatchNotFound(f"There is no batch {batch}.", batch=str(batch))
