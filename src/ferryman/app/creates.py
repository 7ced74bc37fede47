"""How tasks get from the door into the database.

A lonely create travels alone, at once; those that come while one is under way share the next trip (kernel/gather.py). What must
look before it is stored goes through the flows, what belongs to a caller's transaction is lent to it, and many like tasks go
as ids and payloads. Whatever the way: an answer that was lost is asked for again, and ids made here keep that from making a
second task (K24); who may have something to do is rung.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import takewhile

from ferryman.app.flows import Flows
from ferryman.app.lent import Lent
from ferryman.app.repeat import repeated
from ferryman.kernel import faults, outage, telemetry
from ferryman.kernel.db import sqlstate
from ferryman.kernel.doorbell import Doorbell, Inside
from ferryman.kernel.gather import Gather, Ways
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.intake import create
from ferryman.tasks.intake.create import Alike
from ferryman.tasks.model import Created, Draft, SentTwice, TaskRecord
from ferryman.tasks.ports import Owners
from ferryman.tasks.work import births
from ferryman.tasks.work.lanes import named

log = telemetry.logger("creates")

NO_TIME = timedelta(0)


class Creates:
    """Store drafts, by the way that fits."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        owners: Owners,
        *,
        lines: Sequence[Line],
        keyed: Line,
        flows: Line,
        ends_after: timedelta,
        patience: timedelta,
        rings_within: bool,
    ) -> None:
        """Send combined creates over lines of their own, of which those after the first serve a crowd.

        A create with a key may have to wait for a transaction that has the same one and is still open; those without one
        can meet nobody, and never wait in its company.
        """
        self._db = db
        self._doorbell = doorbell
        self._lines = (*lines, keyed)
        self._ends_after = ends_after
        self._patience = patience
        self._plain: Ways[Draft, Created] = Ways(*map(self._gather, lines))
        self._keyed = self._gather(keyed)
        self.flows = Flows(db, doorbell, flows, patience=patience, ends_after=ends_after)
        self._lent = Lent(owners, self.flows, schema=db.schema, ends_after=ends_after, rings=rings_within)
        self.looks = self.flows.looks
        self.cancel_lent = self._lent.cancel

    def _gather(self, line: Line) -> Gather[Draft, Created]:
        return Gather(partial(self._create_set, line), alone=partial(self._create_one, line), revocable=True)

    def create(self, draft: Draft, connection: object) -> Awaitable[Created]:
        """Store one task."""
        if connection is not None:
            return self._lent.create(connection, draft)
        if self.looks(draft.task):
            return self.flows.create(draft)
        keyed = draft.task.idempotency_key is not None or "task_id" in draft.given
        return self._keyed(draft) if keyed else self._plain(draft)

    def create_all(self, drafts: Sequence[Draft], connection: object) -> Awaitable[list[Created]]:
        """Store tasks that must look first, all or none."""
        return self.flows.create_all(drafts) if connection is None else self._lent.create_all(connection, drafts)

    async def create_alike(
        self, like: Draft, some: Callable[[], Alike], connection: object, *, full: int
    ) -> list[tuple[Alike, TaskRecord]]:
        """Store tasks that differ only in id and payload, all or none.

        `some` makes the next set, an empty one at the end; after one that is not full there is no other.
        """
        if connection is not None:
            # All are checked before the first is in the caller's hands.
            return await self._lent.create_many(connection, like, list(takewhile(_holds_some, iter(some, None))))
        made: list[Alike] = []  # kept to be sent again if the answer is lost: their ids make the repeat harmless

        def next_set(place: int) -> Alike:
            if place == len(made):
                made.append(some())
            return made[place]

        ring = self._ring_inside([like])
        only = next_set(0)
        if 0 < len(only.ids) < full:
            sets = [(only, await repeated(lambda: self._create_only(like, only, ring), self._patience))]
        else:
            sets = await repeated(lambda: self._create_sets(like, next_set), self._patience)
        self._born([(first, len(alike.ids)) for alike, first in sets], inside=ring)
        return sets

    async def _create_only(self, like: Draft, alike: Alike, ring: Inside | None) -> TaskRecord:
        """Store all there is by one statement, which commits itself and takes the ring along: one trip instead of four."""
        faults.point("create.before")
        async with self._db.session() as tx:
            first = await create.create_alike(tx, like, alike, ends_after=self._ends_after, ring=ring)
        faults.point("create.committed")
        return first

    async def _create_sets(self, like: Draft, next_set: Callable[[int], Alike]) -> list[tuple[Alike, TaskRecord]]:
        try:
            return await self._add_sets(like, next_set)
        except SentTwice:  # all of them were committed when the answer was lost
            sets = takewhile(_holds_some, map(next_set, itertools.count()))
            async with self._db.session() as tx:
                return [(alike, await create.made_alike(tx, like, alike)) for alike in sets]

    async def _add_sets(self, like: Draft, next_set: Callable[[int], Alike]) -> list[tuple[Alike, TaskRecord]]:
        created: list[tuple[Alike, TaskRecord]] = []
        faults.point("create.before")
        async with self._db.transaction() as tx:
            place = 0
            alike = next_set(place)
            while alike.ids:
                sent = asyncio.ensure_future(create.add_alike(tx, like, alike, ends_after=self._ends_after))
                place += 1
                try:
                    await asyncio.sleep(0)  # PostgreSQL inserts this set while Python makes the next
                    following = next_set(place)
                finally:
                    first = await sent
                created.append((alike, first))
                alike = following
        faults.point("create.committed")
        return created

    async def _create_one(self, line: Line, draft: Draft) -> Created | Exception:
        """Store one task by the shortest way there is.

        What fails is tried again as a set of one: its id keeps that from making a second task, and that way waits for a
        database that is away, for what is left of its patience, and knows what to say.
        """
        began = time.monotonic()
        if create.lonely(draft):
            task = draft.task
            lane = frozenset((named(task.queue, task.tenant),))
            ring = self._doorbell.inside("ready", lane)
            try:
                faults.point("create.before")
                made = await create.create_one(line, draft, ends_after=self._ends_after, ring=ring)
                faults.point("create.committed")
            except Exception as error:  # noqa: BLE001 - raised at its caller if it comes again
                log.debug("a create is sent again: %s", sqlstate(error) or type(error).__name__)
            except BaseException:  # its caller has gone away; it may be stored all the same
                if ring is not None and ring.put_off:
                    self._doorbell.ring("ready", lane, inside=ring)
                raise
            else:
                telemetry.created("task", task.queue)
                self._doorbell.ring("ready", lane, inside=ring)
                return made
        spent = timedelta(seconds=time.monotonic() - began)
        [answer] = await self._create_set(line, [draft], patience=max(NO_TIME, self._patience - spent))
        return answer

    async def _create_set(
        self, line: Line, drafts: list[Draft], *, patience: timedelta | None = None
    ) -> Sequence[Created | Exception]:
        alike = create.alike_among(drafts)
        patience = self._patience if patience is None else patience
        try:
            if alike is not None:
                return await self._create_like(line, drafts[0], alike, patience)
            return await self._create_various(line, drafts, patience)
        except Exception as error:  # noqa: BLE001 - raised at its own caller
            if len(drafts) == 1 or not outage.of_one(error):
                return [error] * len(drafts)
            # One of them is refused by PostgreSQL, or cannot be written now; the others must not suffer by their company.
            return [each for draft in drafts for each in await self._create_set(line, [draft])]

    async def _create_like(self, line: Line, like: Draft, alike: Alike, patience: timedelta) -> Sequence[Created]:
        ring = self._ring_inside([like])

        async def send() -> TaskRecord:
            faults.point("create.before")
            first = await create.create_alike(line, like, alike, ends_after=self._ends_after, ring=ring)
            faults.point("create.committed")
            return first

        first = await repeated(send, patience)
        self._born([(first, len(alike.ids))], inside=ring)
        return create.born_alike(first, alike)

    async def _create_various(
        self, line: Line, drafts: list[Draft], patience: timedelta
    ) -> Sequence[Created | Exception]:
        ring = self._ring_inside(drafts)

        async def send() -> list[create.Answer]:
            faults.point("create.before")
            answers = await create.create(line, drafts, ends_after=self._ends_after, ring=ring)
            faults.point("create.committed")
            return answers

        answers = await repeated(send, patience)
        born = [(each.task, 1) for each in answers if isinstance(each, Created) and not each.idempotent_hit]
        self._born(born, inside=ring)
        return answers

    def _ring_inside(self, drafts: Sequence[Draft]) -> Inside | None:
        """Let the transaction ring for tasks that can be claimed as soon as it commits."""
        if any(each.task.scheduled_at is not None for each in drafts):
            return None
        return self._doorbell.inside("ready", {named(each.task.queue, each.task.tenant) for each in drafts})

    def _born(self, created: Sequence[tuple[TaskRecord, int]], *, inside: Inside | None = None) -> None:
        """Ring for tasks that are stored; where their transaction has, or it is put off, the doorbell knows by `inside`."""
        for topic, hints in births.count(created).items():
            self._doorbell.ring(topic, hints, inside=inside)

    async def close(self) -> None:
        """Send what is under way."""
        await self._plain.drain()
        await self._keyed.drain()
        await self.flows.close()
        for line in self._lines:
            await line.close()


def _holds_some(alike: Alike) -> bool:
    return bool(alike.ids)
