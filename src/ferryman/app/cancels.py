"""Cancelling tasks, told also where the answer to it was lost (T14, K24).

A cancel whose answer was lost is sent again, and finds nothing live any more. What the first one did is then read: those of the
named tasks that were cancelled since the call began. Whom that woke, and which children went along, is not known here; so the
rings name nobody, and everybody looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.app.repeat import repeated
from ferryman.kernel import telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Line
from ferryman.tasks.intake import cancel
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED, RUNNING
from ferryman.tasks.work.lanes import named


class Cancelled(NamedTuple):
    """What a cancel came to: the tasks that it ended, what followed, and those of a try whose answer was lost."""

    rows: Sequence[Row]
    after: Aftermath
    lost: Sequence[UUID] = ()


class Cancels:
    """Cancel tasks over a line of their own, because a cancel may wait for a lock."""

    def __init__(
        self,
        line: Line,
        doorbell: Doorbell,
        owners: Owners,
        session: Callable[[], AbstractAsyncContextManager[Tx]],
        *,
        patience: timedelta,
    ) -> None:
        """Know to whom ends are owed."""
        self._line = line
        self._doorbell = doorbell
        self._owners = owners
        self._session = session
        self._patience = patience

    async def cancel(self, wanted: Sequence[UUID], *, tenant: str, reason: str | None) -> Sequence[UUID]:
        """Cancel those that have not ended; return those that were cancelled now."""
        began, tries = time.monotonic(), 0

        async def once() -> Cancelled:
            nonlocal tries
            tries += 1
            after = Aftermath()
            rows = await cancel.cancel(self._line, self._owners, wanted, tenant=tenant, reason=reason, after=after)
            left = set(wanted) - {row["id"] for row in rows}
            if tries == 1 or not left:
                return Cancelled(rows, after)
            async with self._session() as tx:
                return Cancelled(rows, after, await cancel.since(tx, left, tenant=tenant, began=began))

        done = await repeated(once, self._patience)
        self._ring(done)
        told = {row["id"] for row in done.rows} | set(done.lost)
        return [id for id in dict.fromkeys(wanted) if id in told]

    def _ring(self, done: Cancelled) -> None:
        ended = len(done.rows) + len(done.after.cancelled) + len(done.lost)
        if ended:
            telemetry.ended("task", CANCELLED.value, None, ended)
        if done.lost:
            for topic in ("cancel", "done", "ready"):
                self._doorbell.ring(topic)
            return
        if done.rows:
            hints = [str(id) for id in (*(row["id"] for row in done.rows), *done.after.cancelled)]
            self._doorbell.ring("cancel", hints)
            self._doorbell.ring("done", hints)
            freed = {row["queue"] for row in done.rows if row["from_state"] == RUNNING.value}
            if freed:
                self._doorbell.ring("ready", [named(queue, "", keyed=True) for queue in freed])
        if done.after.lanes:
            self._doorbell.ring("ready", done.after.lanes)
