"""What is done in a transaction that a caller lends (K16): it appears if and only if the caller commits.

The statements are those of the door itself, so validation, idempotency and the log are the same; only whose transaction it is
differs. So nothing is repeated when the database goes away (the caller begins anew), and the ring travels in the transaction:
PostgreSQL delivers it at the commit. Where that doorbell is not used, polling finds what was committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.kernel import doorbell_pg, errors, ids, telemetry
from ferryman.kernel.borrow import borrow
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import MAX_HINTS
from ferryman.tasks.intake import cancel, create, read
from ferryman.tasks.model import Created, Draft
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import CANCELLED, PENDING, READY
from ferryman.tasks.work.lanes import named

SET = 1000


class Lent:
    """Create and cancel tasks of one tenant in callers' transactions."""

    def __init__(self, owners: Owners, *, schema: str, tenant: str, ends_after: timedelta, rings: bool) -> None:
        """Know whose tasks; `rings` says whether the doorbell is PostgreSQL's and may ring from within."""
        self._owners = owners
        self._schema = schema
        self._tenant = tenant
        self._ends_after = ends_after
        self._rings = rings

    async def create(self, connection: object, drafts: Sequence[Draft]) -> list[Created]:
        """Create all of these or, by the first that conflicts, none that the caller will be told of."""
        tx = borrow(connection, schema=self._schema)
        created: list[Created] = []
        for place in range(0, len(drafts), SET):
            some = drafts[place : place + SET]
            created += all_created(await create.create(tx, some, ends_after=self._ends_after))
        await self._born(tx, [each for each in created if not each.idempotent_hit])
        return created

    async def _born(self, tx: Tx, created: Sequence[Created]) -> None:
        # Counted though the caller may still roll back: what is never counted would be missed more.
        for queue, count in Counter(each.task.queue for each in created).items():
            telemetry.created("task", queue, count)
        rings: dict[str, frozenset[str]] = {}
        if any(each.task.state is PENDING for each in created):
            rings["due"] = frozenset()
        ready = frozenset(named(each.task.queue, each.task.tenant) for each in created if each.task.state is READY)
        if ready:
            rings["ready"] = ready if len(ready) <= MAX_HINTS else frozenset()
        await self._ring(tx, rings)

    async def cancel(self, connection: object, task_ids: Sequence[str | UUID], *, reason: str | None) -> list[UUID]:
        """Cancel tasks that have not ended, also those that the same transaction has just created."""
        tx = borrow(connection, schema=self._schema)
        wanted = [await self._id(tx, each) for each in task_ids]
        rows = await cancel.end(tx, self._owners, wanted, tenant=self._tenant, reason=reason)
        told = [row["id"] for row in rows]
        if told:
            hints = frozenset(str(id) for id in told) if len(told) <= MAX_HINTS else frozenset[str]()
            await self._ring(tx, {"cancel": hints, "done": hints})
            telemetry.ended("task", CANCELLED.value, None, len(told))
        return told

    async def _id(self, tx: Tx, task_id: str | UUID) -> UUID:
        known = task_id if isinstance(task_id, UUID) else request.as_uuid(ids.check_name(task_id, "task_id"))
        if known is not None:
            return known
        found = await read.get(tx, task_id, tenant=self._tenant)
        if found is None:
            raise errors.TaskNotFound(f"There is no task {task_id} for tenant {self._tenant}.", task_id=str(task_id))
        return found.id

    async def _ring(self, tx: Tx, rings: dict[str, frozenset[str]]) -> None:
        if rings and self._rings:
            await doorbell_pg.ring_within(tx, rings)


def all_created(answers: Sequence[Created | errors.TaskDuplicate]) -> list[Created]:
    """Return what exists now, or raise the first conflict."""
    for each in answers:
        if isinstance(each, errors.TaskDuplicate):
            raise each
    return [each for each in answers if isinstance(each, Created)]
