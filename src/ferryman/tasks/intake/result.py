"""Waiting for tasks to end (kernel/waiting.py), and for their progress (T18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, waiting
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.tasks import store
from ferryman.tasks.states import CANCELLED, TASK, TaskState


class End(NamedTuple):
    """How a task ended; the reason of a cancelled one is that of the cancel, not of an attempt before it."""

    state: TaskState
    result: str | None
    code: str | None
    reason: str | None
    attempt: int


class Progress(NamedTuple):
    """How far a task is: a percentage and a word, and its state."""

    percent: int | None
    message: str | None
    state: TaskState


class Waiting(waiting.Waiting[End]):
    """Everybody in this process who waits for a task of one tenant."""

    def __init__(
        self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell, *, tenant: str, poll: float
    ) -> None:
        """Read through sessions of the pool; listen at the doorbell while somebody waits."""
        super().__init__(self._finished, doorbell, topic="done", poll=poll)
        self._session = session
        self._tenant = tenant

    async def _finished(self, ids: Collection[UUID]) -> dict[UUID, End | Exception]:
        async with self._session() as tx:
            rows = await store.finished(tx, list(ids), tenant=self._tenant)
            cancelled = [row["id"] for row in rows if row["state"] == CANCELLED]
            reasons = await store.reasons(tx, cancelled, tenant=self._tenant) if cancelled else {}
        return {row["id"]: _end(row, reasons.get(row["id"])) for row in rows}

    async def watch(self, id: UUID) -> AsyncIterator[Progress]:
        """Give the task's progress whenever it changes, until it has ended."""
        changed = asyncio.Event()
        stop = self._doorbell.listen("progress", lambda hints: changed.set() if _concerns(hints, id) else None)
        ended = self._doorbell.listen("done", lambda hints: changed.set() if _concerns(hints, id) else None)
        last: Progress | None = None
        try:
            while True:
                changed.clear()
                async with self._session() as tx:
                    rows = await store.progress(tx, [id], tenant=self._tenant)
                if not rows:
                    raise errors.TaskNotFound(id=str(id))
                now = Progress(rows[0]["percent"], rows[0]["message"], TaskState(rows[0]["state"]))
                if now != last:
                    last = now
                    yield now
                if now.state in TASK.terminal:
                    return
                await waiting.within(changed.wait(), self._poll)
        finally:
            stop()
            ended()


def _end(row: Row, cancelled: str | None) -> End | Exception:
    if row["state"] is None:
        return errors.TaskNotFound(id=str(row["id"]))
    state = TaskState(row["state"])
    reason = cancelled if state is CANCELLED else row["last_error_reason"]
    return End(state, row["result"], row["last_error_code"], reason, row["attempt"])


def _concerns(hints: Iterable[str], id: UUID) -> bool:
    named = frozenset(hints)
    return not named or str(id) in named


_FAILURES: dict[str, type[errors.FerrymanError]] = {
    kind.code: kind
    for kind in (
        errors.TaskExecutionFailed,
        errors.TaskTimeout,
        errors.TaskRetryExhausted,
        errors.TaskExpired,
        errors.TaskInvalidPayload,
        errors.TaskInvalidResult,
        errors.TaskUnknownHandler,
        errors.TaskReplayMismatch,
        errors.TaskStepAmbiguous,
        errors.TaskWaitTooLong,
    )
}


def failure(end: End, task_id: str) -> errors.FerrymanError:
    """Return what a waiter is raised when the task did not succeed."""
    code = end.code or ""
    if end.state is CANCELLED and code != errors.TaskExpired.code:
        why = f": {end.reason}" if end.reason else ""
        return errors.TaskCancelled(f"Task {task_id} was cancelled{why}.", task_id=task_id, reason=end.reason)
    kind = _FAILURES.get(code, errors.TaskExecutionFailed)
    return kind(f"Task {task_id} {end.state.value}: {end.reason or code}.", task_id=task_id, reason=end.reason)
