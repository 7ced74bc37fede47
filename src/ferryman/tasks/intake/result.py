"""Waiting for tasks to end, and for their progress, without busy polling (T18).

All waiters of a tenant share one look: a ring about `done` names the tasks that ended, and one statement reads the ends of
those that somebody here waits for. A ring without names, and a slow poll in any case, ask for all of them, so a lost ring only
costs time; where thousands are waited for, that look is not repeated before four times its own duration has passed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import RECONNECT
from ferryman.tasks import store
from ferryman.tasks.states import CANCELLED, TASK, TaskState

log = logging.getLogger("ferryman.tasks")

# A look at everything is repeated at the earliest after this many times what it took.
REST = 4


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


class Waiting:
    """Everybody in this process who waits for a task of one tenant."""

    def __init__(
        self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell, *, tenant: str, poll: float
    ) -> None:
        """Read through sessions of the pool; listen at the doorbell while somebody waits."""
        self._session = session
        self._doorbell = doorbell
        self._tenant = tenant
        self._poll = poll
        self._ends: dict[str, asyncio.Future[End]] = {}  # by the text of the id, as rings name it
        self._named: set[str] = set()
        self._everything = False
        self._rested = 0.0  # until then no look at everything is repeated
        self._poll_at = 0.0
        self._waiters: Counter[asyncio.Future[End]] = Counter()
        self._wake = asyncio.Event()
        self._looker: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody waits, and nothing is under way."""
        return not self._ends and self._looker is None

    async def end(self, id: UUID) -> End:
        """Wait until the task has ended."""
        name = str(id)
        future = self._ends.get(name)
        if future is None:
            future = self._ends[name] = asyncio.get_running_loop().create_future()
        self._waiters[future] += 1
        self._look(name)
        try:
            return await asyncio.shield(future)
        finally:
            self._leave(name, future)

    def _leave(self, name: str, future: asyncio.Future[End]) -> None:
        """Forget a task that nobody waits for any more."""
        self._waiters[future] -= 1
        if self._waiters[future]:
            return
        del self._waiters[future]
        if self._ends.get(name) is future:
            del self._ends[name]
        if not future.done():
            future.cancel()

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
                await _within(changed.wait(), self._poll)
        finally:
            stop()
            ended()

    def _look(self, name: str) -> None:
        self._named.add(name)
        self._wake.set()
        if self._looker is None:
            self._looker = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        stop = self._doorbell.listen("done", self._heard)
        self._poll_at = time.monotonic() + self._poll
        failures = 0
        try:
            while self._ends:
                self._wake.clear()
                try:
                    await (self._read_all() if self._due() else self._read(self._take_named()))
                except errors.FerrymanError as error:
                    if not error.retryable:
                        self._fail(error)
                        return
                    log.warning("ends could not be read", extra={"code": error.code})
                    failures += 1
                    self._everything = True
                    self._rested = time.monotonic() + RECONNECT.delay(failures).total_seconds()
                except Exception as error:  # noqa: BLE001 - told to those who wait, who would wait for ever
                    self._fail(error)
                    return
                else:
                    failures = 0
                await self._rest()
        finally:
            stop()
            self._looker = None

    def _due(self) -> bool:
        """Tell whether it is time to ask for everything."""
        now = time.monotonic()
        return now >= self._rested and (self._everything or now >= self._poll_at)

    async def _read_all(self) -> None:
        began = time.monotonic()
        self._everything = False
        self._named.clear()
        await self._read(list(self._ends))
        now = time.monotonic()
        self._rested, self._poll_at = now + REST * (now - began), now + self._poll

    def _take_named(self) -> Collection[str]:
        named, self._named = self._named, set()
        return [name for name in named if name in self._ends]

    async def _rest(self) -> None:
        """Wait for a ring that names somebody, or for the time of the next look at everything."""
        if self._ends and not self._named:
            next_look = max(self._rested, 0.0 if self._everything else self._poll_at)
            await _within(self._wake.wait(), max(0.0, next_look - time.monotonic()))

    def _heard(self, hints: frozenset[str]) -> None:
        named = hints & self._ends.keys()
        self._named |= named
        self._everything = self._everything or not hints
        if named or not hints:
            self._wake.set()

    async def _read(self, names: Collection[str]) -> None:
        if not names:
            return
        async with self._session() as tx:
            rows = await store.finished(tx, [UUID(name) for name in names], tenant=self._tenant)
            cancelled = [row["id"] for row in rows if row["state"] == CANCELLED]
            reasons = await store.reasons(tx, cancelled, tenant=self._tenant) if cancelled else {}
        for row in rows:
            self._tell(row, reasons.get(row["id"]))

    def _tell(self, row: Row, cancelled: str | None) -> None:
        future = self._ends.pop(str(row["id"]), None)
        if future is None or future.done():
            return
        if row["state"] is None:
            future.set_exception(errors.TaskNotFound(id=str(row["id"])))
            return
        state = TaskState(row["state"])
        reason = cancelled if state is CANCELLED else row["last_error_reason"]
        future.set_result(End(state, row["result"], row["last_error_code"], reason, row["attempt"]))

    def _fail(self, error: Exception) -> None:
        waiting, self._ends = self._ends, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: whoever waited for it may have given up

    async def close(self) -> None:
        """Let nobody wait any more."""
        self._fail(errors.NotOpen("The app was closed while somebody waited for a task."))
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.wait([self._looker])


def _concerns(hints: Iterable[str], id: UUID) -> bool:
    named = frozenset(hints)
    return not named or str(id) in named


async def _within(awaitable: Awaitable[object], seconds: float) -> bool:
    try:
        await asyncio.wait_for(awaitable, seconds)
    except TimeoutError:
        return False
    return True


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
