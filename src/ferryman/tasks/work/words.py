"""What handlers say while they run: progress and log lines, written in sets.

Handlers may speak from any thread and often; the latest progress of a task is enough, log lines are all kept. Nothing here
delays a handler: words are taken at once and written by the worker when the previous set is through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.tasks import store
from ferryman.tasks.model import Claimed

log = logging.getLogger("ferryman.tasks")

LINES_MAX = 10_000


class Words:
    """Collect what handlers say, and write it."""

    def __init__(self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell) -> None:
        """Write through sessions of the pool."""
        self._session = session
        self._doorbell = doorbell
        self._loop = asyncio.get_running_loop()
        self._progress: dict[UUID, tuple[UUID, int, int, str | None]] = {}
        self._lines: list[tuple[UUID, int, str, str]] = []
        self._writer: asyncio.Task[None] | None = None

    def report(self, task: Claimed, percent: int, message: str | None) -> None:
        """Take the latest progress of a task."""
        self._progress[task.id] = (task.id, task.epoch, percent, message)
        self._loop.call_soon_threadsafe(self._begin)

    def say(self, task: Claimed, level: str, message: str) -> None:
        """Take a line of a task's log; a flood beyond all measure is cut off, and says so."""
        if len(self._lines) < LINES_MAX:
            self._lines.append((task.id, task.attempt, level, message))
        elif len(self._lines) == LINES_MAX:
            self._lines.append((task.id, task.attempt, "warning", "too many lines at once: some are missing here"))
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._progress or self._lines:
                progress, self._progress = self._progress, {}
                lines, self._lines = self._lines, []
                await self._flush(progress, lines)
        except errors.FerrymanError as error:
            log.warning("progress could not be written", extra={"code": error.code, "reason": error.message})
        finally:
            self._writer = None

    async def _flush(
        self, progress: dict[UUID, tuple[UUID, int, int, str | None]], lines: list[tuple[UUID, int, str, str]]
    ) -> None:
        async with self._session() as tx:
            if lines:
                await store.append_log(tx, lines)
            if progress:
                written = await store.report(tx, sorted(progress.values(), key=lambda word: word[0].int))
                self._doorbell.ring("progress", [str(id) for id in written])

    async def close(self) -> None:
        """Write what has been said."""
        while self._writer is not None:
            await asyncio.wait([self._writer])
