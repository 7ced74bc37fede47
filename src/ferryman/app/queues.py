"""The door to queues: what users reach as `app.queues`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from ferryman.kernel import errors
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Database, spoken
from ferryman.tasks.intake import queues
from ferryman.tasks.intake.queues import Holder, Queue


class Queues:
    """Ask about queues, agree on their limits, pause and resume them.

    The names of queues are shared by all tenants. `app.queues` is the operator's: what it changes holds for all tenants, or for
    the one that is named. `app.of(tenant).queues` changes nothing for other tenants. A change holds for whatever starts after
    it is stored.
    """

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        whose: Callable[[], str],
        learn: Callable[[], Awaitable[None]],
        *,
        only: str | None = None,
    ) -> None:
        """Tell workers of changes by the doorbell; `whose` says which tenant's tasks the next call may name.

        Others hear of a change; this process must know it when its caller does, and `learn` reads it. With `only`, changes
        concern that tenant alone.
        """
        self._only = only
        self._db = db
        self._learn = learn
        self._whose = whose
        self._doorbell = doorbell

    def of(self, tenant: str) -> Queues:
        """Return the same door for one tenant, whatever task is running."""
        return Queues(self._db, self._doorbell, lambda: tenant, self._learn, only=tenant)

    def _concerned(self, tenant: str | None) -> str | None:
        """Return the tenant that a change concerns, None for all; refuse one that this door may not change."""
        if self._only is None:
            return tenant
        if tenant not in (None, self._only):
            raise _forbidden(f"This is the door of {self._only}: it changes nothing for {tenant}.")
        return self._only

    async def list(self) -> Sequence[Queue]:
        """Read every queue that was declared or has something live."""
        with spoken():
            async with self._db.session() as tx:
                return await queues.read(tx)

    async def get(self, name: str) -> Queue:
        """Read one queue."""
        return (await self.rows(name))[0]

    async def rows(self, name: str) -> Sequence[Queue]:
        """Read one queue: what is agreed for all tenants together, then for single ones."""
        with spoken():
            async with self._db.session() as tx:
                return await queues.read(tx, name)

    async def holders(self, name: str) -> Sequence[Holder]:
        """Read which tasks of this tenant hold slots of a queue, and until when.

        Of other tenants' tasks only the number is told: `held` of the queue counts all.
        """
        with spoken():
            async with self._db.session() as tx:
                return await queues.holders(tx, name, tenant=self._whose())

    async def set(self, name: str, *, tenant: str | None = None, new: bool = False, **terms: Any) -> Queue:
        """Change what is agreed; terms are those of `app.queue`, and None takes one away.

        With a tenant, for that one alone, within what holds for all. A queue that nobody knows is refused, unless `new`.
        """
        with spoken():
            async with self._db.transaction() as tx:
                await queues.change(tx, name, tenant=self._concerned(tenant), new=new, given=terms)
        await self._learn()
        self._ring()
        return await self.get(name)

    async def pause(self, name: str, *, tenant: str | None = None) -> None:
        """Start nothing of a queue from now on, for all tenants or for one; running tasks continue."""
        await self._pause(name, tenant=tenant, paused=True)

    async def resume(self, name: str, *, tenant: str | None = None) -> None:
        """Start what waits in a paused queue again; a pause for all tenants is lifted only for all."""
        await self._pause(name, tenant=tenant, paused=False)

    async def _pause(self, name: str, *, tenant: str | None, paused: bool) -> None:
        with spoken():
            async with self._db.transaction() as tx:
                await queues.pause(tx, name, tenant=self._concerned(tenant), paused=paused)
        self._ring()

    async def pause_task(self, name: str) -> None:
        """Let no worker take tasks of this handler; workers hear of it within a moment."""
        await self._pause_name(name, paused=True)

    async def resume_task(self, name: str) -> None:
        """Let workers take tasks of this handler again."""
        await self._pause_name(name, paused=False)

    async def _pause_name(self, name: str, *, paused: bool) -> None:
        if self._only is not None:
            raise _forbidden("Handlers are paused for all tenants, and only by an operator.")
        with spoken():
            async with self._db.transaction() as tx:
                await queues.pause_name(tx, name, paused=paused)
        self._ring()

    async def paused_tasks(self) -> dict[str, datetime]:
        """Read which handlers are paused, and since when."""
        with spoken():
            async with self._db.session() as tx:
                return await queues.paused_names(tx)

    def _ring(self) -> None:
        self._doorbell.ring("queues")


def _forbidden(says: str) -> errors.Forbidden:
    return errors.Forbidden(f"{says} Pause a queue for this tenant, or use `app.queues`.", scope="operator")
