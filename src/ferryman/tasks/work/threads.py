"""Threads for plain functions.

A thread cannot be ended from outside: one whose attempt is over before it (a timeout, a cancel, a lost lease) is told, fenced
and left behind, and must not take a place away from the living. So threads are kept while they are idle and made when there
is none. How many attempts run at once is bounded by the pump, which claims no more than it has room for; those left behind
come on top of it and have a bound of their own. Beyond it no other thread is begun until one of them ends: the worker claims no
plain functions, which others may take, and says so; what it had claimed already is handed back.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ferryman.kernel import telemetry
from ferryman.tasks.rules.ending import said

log = logging.getLogger("ferryman.tasks")

IDLE_MAX = 32
# Times the worker's concurrency. By default a task is tried four times: if everything that runs at once hangs in each of its
# tries, that is still let through; what leaves more behind does not get better by itself.
LEFT_MAX = 4


class TooManyLeftBehind(Exception):
    """Too many threads go on although their attempts are over."""


class Job:
    """One call of a function, and who waits for it."""

    __slots__ = ("context", "function", "future", "left", "loop", "over")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        """Run in the context of whoever asks."""
        self.function = function
        self.context = contextvars.copy_context()
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.over = False
        self.left = False


class Threads:
    """A set of threads, the idle ones and those left behind."""

    def __init__(self, concurrency: int, *, freed: Callable[[], None] | None = None) -> None:
        """Begin with none; the bound on those left behind grows with what can run at once.

        `freed` is called, on the loop of whoever ran the last one, when there is room again.
        """
        self._freed = freed
        self._left_max = LEFT_MAX * concurrency
        self._left = 0
        self._full = False
        self._idle: list[SimpleQueue[Job | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a plain function in a thread; nobody waits for a thread whose future was cancelled."""
        with self._lock:
            self._refuse_if_full()
            inbox = self._idle.pop() if self._idle else None
        job = Job(function, asyncio.get_running_loop())
        job.future.add_done_callback(lambda future: self._leave(job) if future.cancelled() else None)
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="ferryman-handler", daemon=True).start()
        inbox.put(job)
        return job.future

    @property
    def full(self) -> bool:
        """Whether no other thread is begun now."""
        return self._full

    def _refuse_if_full(self) -> None:
        if self._full:
            raise TooManyLeftBehind(f"{self._left} threads of this worker go on although their attempts are over.")

    def _leave(self, job: Job) -> None:
        with self._lock:
            if job.over:
                return
            job.left = True
            self._left += 1
            filled = not self._full and self._left >= self._left_max
            self._full = self._full or filled
        telemetry.left_behind(1)
        if filled:
            told = f"{self._left} threads of this worker go on although their attempts are over: no other is begun"
            log.error("%s, and no plain function is claimed, until one of them ends", told, extra={"left": self._left})

    def _end(self, job: Job) -> None:
        with self._lock:
            job.over = True
            self._left -= job.left
            freed = self._full and self._left < self._left_max
            self._full = self._full and not freed
        if job.left:
            telemetry.left_behind(-1)
        if freed:
            log.warning("there is room for plain functions again", extra={"left": self._left})
            if self._freed is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                    job.loop.call_soon_threadsafe(self._freed)

    def _serve(self, inbox: SimpleQueue[Job | None]) -> None:
        while (job := inbox.get()) is not None:
            result: Any = None
            failure: BaseException | None = None
            try:
                result = job.context.run(job.function)
            except BaseException as error:  # noqa: BLE001 - SystemExit too ends its own task only
                failure = error
            self._end(job)
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                job.loop.call_soon_threadsafe(_tell, job.future, result, failure)
            del job, result, failure
            with self._lock:
                if self._closed or len(self._idle) >= IDLE_MAX:
                    return
                self._idle.append(inbox)

    def close(self) -> None:
        """Let the idle ones go at once and the busy ones when they are done; those that never are end with the process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)


def _tell(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    elif issubclass(type(failure), Exception) and not isinstance(failure, StopIteration):
        future.set_exception(failure)
    else:
        future.set_exception(RuntimeError(said(failure)))
