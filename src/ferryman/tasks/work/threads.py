"""Threads for plain functions.

A thread cannot be ended from outside: one whose attempt timed out is told, fenced and left behind, and must not take a place
away from the living. So threads are kept while they are idle and made when there is none; how many run at once is bounded by
the pump, which claims no more than it has room for.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ferryman.tasks.rules.ending import said

IDLE_MAX = 32

Job = tuple[Callable[[], Any], contextvars.Context, asyncio.Future[Any], asyncio.AbstractEventLoop]


class Threads:
    """A set of idle threads."""

    def __init__(self) -> None:
        """Begin with none."""
        self._idle: list[SimpleQueue[Job | None]] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a plain function in a thread; nobody waits for a thread whose future was cancelled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="ferryman-handler", daemon=True).start()
        inbox.put((function, contextvars.copy_context(), future, loop))
        return future

    def _serve(self, inbox: SimpleQueue[Job | None]) -> None:
        while (job := inbox.get()) is not None:
            function, context, future, loop = job
            result: Any = None
            failure: BaseException | None = None
            try:
                result = context.run(function)
            except BaseException as error:  # noqa: BLE001 - SystemExit too ends its own task only
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell, future, result, failure)
            del job, function, context, future, result, failure
            with self._lock:
                if len(self._idle) >= IDLE_MAX:
                    return
                self._idle.append(inbox)

    def close(self) -> None:
        """Let the idle ones go; the busy ones end with the process."""
        with self._lock:
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)


def _tell(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    elif isinstance(failure, Exception) and not isinstance(failure, StopIteration):
        future.set_exception(failure)
    else:
        future.set_exception(RuntimeError(said(failure)))
