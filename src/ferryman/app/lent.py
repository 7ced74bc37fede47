"""What is done in a transaction that a caller lends (K16): it appears if and only if the caller commits.

The statements are those of the door itself, so validation, idempotency and the log are the same; only whose transaction it is
differs. So nothing is repeated when the database goes away (the caller begins anew), and the ring travels in the transaction:
PostgreSQL delivers it at the commit. Where that doorbell is not used, polling finds what was committed. What is created is
counted at once, though the caller may still roll back: what is never counted would be missed more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from uuid import UUID

from ferryman.app.flows import Flows
from ferryman.kernel import doorbell_pg, errors, telemetry
from ferryman.kernel.borrow import borrow
from ferryman.kernel.db import READ_COMMITTED, Tx
from ferryman.kernel.doorbell import MAX_HINTS
from ferryman.tasks.intake import cancel, create, read
from ferryman.tasks.intake.create import Alike
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Created, Draft, TaskRecord
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED
from ferryman.tasks.work import births
from ferryman.tasks.work.births import rings


class Lent:
    """Create and cancel tasks in callers' transactions."""

    def __init__(self, owners: Owners, flows: Flows, *, schema: str, ends_after: timedelta, rings: bool) -> None:
        """Know to whom ends are owed; `rings` says whether the doorbell is PostgreSQL's and may ring from within."""
        self._owners = owners
        self._flows = flows
        self._schema = schema
        self._ends_after = ends_after
        self._rings = rings

    async def create(self, connection: object, draft: Draft) -> Created:
        """Create a task, or answer with the one that is there."""
        if self._flows.looks(draft.task):
            [created] = await self.create_all(connection, [draft])
            return created
        tx = borrow(connection, schema=self._schema)
        [answer] = await create.create(tx, [draft], ends_after=self._ends_after)
        if isinstance(answer, errors.TaskDuplicate):
            raise answer
        if not answer.idempotent_hit:
            await self._ring(tx, births.count([(answer.task, 1)]))
        return answer

    async def create_many(
        self, connection: object, like: Draft, sets: Sequence[Alike]
    ) -> list[tuple[Alike, TaskRecord]]:
        """Create tasks that differ only in id and payload."""
        tx = borrow(connection, schema=self._schema)
        created = [(alike, await create.add_alike(tx, like, alike, ends_after=self._ends_after)) for alike in sets]
        await self._ring(tx, births.count((first, len(alike.ids)) for alike, first in created))
        return created

    async def create_all(self, connection: object, drafts: Sequence[Draft]) -> list[Created]:
        """Create tasks that must look before they are stored."""
        tx = borrow(connection, schema=self._schema)
        # All or none, also for a caller who catches what is raised and commits.
        await tx.fetch("savepoint ferryman_creates")
        try:
            flowed = await self._flows.store(tx, drafts)
        except errors.FerrymanError:
            await tx.fetch("rollback to savepoint ferryman_creates")
            raise
        await tx.fetch("release savepoint ferryman_creates")
        await self._ring(tx, {topic: _hints(hints) for topic, hints in rings(flowed).items()})
        return [each for each in flowed.answers if isinstance(each, Created)]

    async def cancel(
        self, connection: object, task_ids: Sequence[str | UUID], *, tenant: str, reason: str | None
    ) -> list[UUID]:
        """Cancel tasks that have not ended, also those that the same transaction has just created."""
        tx = borrow(connection, schema=self._schema)
        await _check_isolation(tx)
        wanted = await read.ids_of(lambda: nullcontext(tx), task_ids, tenant=tenant)
        after = Aftermath()
        rows = await cancel.end(tx, self._owners, wanted, tenant=tenant, reason=reason, after=after)
        told = [row["id"] for row in rows]
        if told:
            hints = _hints(str(id) for id in (*told, *after.cancelled))
            woken = {"ready": _hints(after.lanes)} if after.lanes else {}
            await self._ring(tx, {"cancel": hints, "done": hints, **woken})
            telemetry.ended("task", CANCELLED.value, None, len(told) + len(after.cancelled))
        return told

    async def _ring(self, tx: Tx, rings: dict[str, frozenset[str]]) -> None:
        if rings and self._rings:
            await doorbell_pg.ring_within(tx, rings)


async def _check_isolation(tx: Tx) -> None:
    """Refuse a transaction whose snapshot may be older than the children and the waits of the tasks that it cancels."""
    [row] = await tx.fetch("show transaction_isolation")
    level = row["transaction_isolation"]
    if level != READ_COMMITTED:
        raise errors.ConnectionUnfit(
            f"This transaction is {level}: it does not see what the tasks have started since it began, and would leave that "
            f"running. Cancel in a {READ_COMMITTED} transaction, or after your commit. Nothing was cancelled."
        )


def _hints(named: Iterable[str]) -> frozenset[str]:
    """Return the hints of a ring; of too many, none: look at everything."""
    hints = frozenset(named)
    return hints if len(hints) <= MAX_HINTS else frozenset()
