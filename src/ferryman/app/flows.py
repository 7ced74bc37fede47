"""The side of the door to tasks that looks before it stores: keys, queues that may be full, tries anew.

Creates that need nothing of it never come here. Those that do are combined like the others, in sets that are stored in a
transaction each. Which queues may be full is read when the app opens and when a ring says that queues have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.app.repeat import apart, repeated
from ferryman.kernel import errors, faults, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Database, Line, spoken
from ferryman.tasks import flow
from ferryman.tasks.birth import place
from ferryman.tasks.intake import queues, retry
from ferryman.tasks.intake.retry import Retried
from ferryman.tasks.model import Created, Draft, NewTask
from ferryman.tasks.work.births import rings
from ferryman.tasks.work.lanes import named

SET = 500


class Flows:
    """Create tasks that meet others, and try ended ones anew."""

    def __init__(
        self, db: Database, doorbell: Doorbell, line: Line, *, patience: timedelta, ends_after: timedelta
    ) -> None:
        """Store sets over a line of their own."""
        self._db = db
        self._doorbell = doorbell
        self._line = line
        self._patience = patience
        self._ends_after = ends_after
        self._bounded: frozenset[str] = frozenset()
        self._rung = False
        self._learning: asyncio.Task[None] | None = None
        self._hush: Callable[[], None] | None = None
        self._creates: Gather[Draft, Created] = Gather(self._create_set, most=SET, revocable=True)

    async def open(self) -> None:
        """Learn which queues may be full, and listen for changes."""
        await self.learn()
        self._hush = self._doorbell.listen("queues", lambda _hints: self._learn_soon())

    async def close(self) -> None:
        """Send what is under way."""
        if self._hush is not None:
            self._hush()
        await self._creates.drain()
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.wait([self._learning])
        await self._line.close()

    async def learn(self) -> None:
        """Read which queues may be full."""
        with spoken():
            async with self._db.session() as tx:
                self._bounded = await queues.bounded(tx)

    def _learn_soon(self) -> None:
        self._rung = True
        if self._learning is None:
            self._learning = asyncio.get_running_loop().create_task(self._learn_anew())

    async def _learn_anew(self) -> None:
        """Read once for all who have rung by now, and once more for those who ring meanwhile."""
        try:
            while self._rung:
                self._rung = False
                try:
                    await self.learn()
                except Exception as error:  # noqa: BLE001 - what was known holds until the next ring
                    telemetry.logger("tasks").warning("could not read which queues are bounded: %s", error)
        finally:
            self._learning = None

    def looks(self, task: NewTask, /) -> bool:
        """Tell whether a task must look before it is stored."""
        return task.keyed or (bool(self._bounded) and task.queue in self._bounded)

    async def create(self, draft: Draft) -> Created:
        """Create one task."""
        return await self._creates(draft)

    async def _create_set(self, drafts: list[Draft]) -> Sequence[Created | Exception]:
        return await apart([drafts], self._store, self._patience)

    async def _store(self, drafts: Sequence[Draft]) -> Sequence[flow.Answer]:
        faults.point("create.before")
        async with self._line.transaction() as tx:
            flowed = await flow.create(tx, drafts, ends_after=self._ends_after)
        faults.point("create.committed")
        self._tell(flowed)
        return flowed.answers

    async def create_all(self, drafts: Sequence[Draft]) -> list[Created]:
        """Create many, all or none."""
        flowed = await repeated(lambda: self._store_all(drafts), self._patience)
        self._tell(flowed)
        return [each for each in flowed.answers if isinstance(each, Created)]

    async def _store_all(self, drafts: Sequence[Draft]) -> flow.Flowed:
        faults.point("create.before")
        async with self._db.transaction() as tx:
            flowed = await self.store(tx, drafts)
        faults.point("create.committed")
        return flowed

    async def store(self, tx: Tx, drafts: Sequence[Draft]) -> flow.Flowed:
        """Store many in somebody's transaction; raise what stands against one of them."""
        answers: dict[int, flow.Answer] = {}
        displaced: list[UUID] = []
        # By key over all sets: of two that share keys, one waits for the other's first and then for no more.
        order = sorted(range(len(drafts)), key=lambda n: place(drafts[n].task))
        for start in range(0, len(order), SET):
            part = order[start : start + SET]
            flowed = await flow.create(tx, [drafts[n] for n in part], ends_after=self._ends_after)
            for n, each in zip(part, flowed.answers, strict=True):
                if isinstance(each, errors.FerrymanError):
                    raise each
                answers[n] = each
            displaced += flowed.displaced
        return flow.Flowed([answers[n] for n in range(len(drafts))], displaced)

    def _tell(self, flowed: flow.Flowed) -> None:
        for topic, hints in rings(flowed).items():
            self._doorbell.ring(topic, hints)

    async def retry(self, wanted: Sequence[UUID], *, tenant: str, untried: bool) -> list[Retried]:
        """Try ended tasks anew."""
        with spoken():
            async with self._db.transaction() as tx:
                retried = await self._retry(tx, wanted, tenant=tenant, untried=untried)
        hints = {named(each.queue, tenant, keyed=each.limit_key is not None) for each in retried}
        if hints:
            self._doorbell.ring("ready", hints)
        for each in retried:
            telemetry.created("task", each.queue, 1)
        return retried

    async def _retry(self, tx: Tx, wanted: Sequence[UUID], *, tenant: str, untried: bool) -> list[Retried]:
        retried: list[Retried] = []
        for start in range(0, len(wanted), SET):
            part = wanted[start : start + SET]
            retried += await retry.retry(tx, part, tenant=tenant, untried=untried, ends_after=self._ends_after)
        return retried
