"""What running capabilities tell of themselves, written into their async tasks in sets (C6, C8).

The task of a capability has its try, its worker and its progress; an async task shows the same. A first try that reports
nothing is told of when it has run for a while, so that its worker can be seen; a short one writes nothing here: its end does.
Only the latest word of each is kept, each carries the fence of its claim, and a word that cannot be written is dropped with a
line in the log: the end will tell the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from ferryman.commands.orchestrator import Word
from ferryman.kernel import errors, telemetry
from ferryman.tasks.model import Claimed

log = logging.getLogger("ferryman.commands")

SOON = 1.0  # seconds
MOST = 500

Write = Callable[[Sequence[Word]], Awaitable[int]]


class Mirror:
    """Collect the latest words, and write them."""

    def __init__(self, write: Write, *, patience: float = SOON) -> None:
        """Belong to the event loop that is running; a first try is told of after `patience` seconds."""
        self._write = write
        self._patience = patience
        self._begun: dict[tuple[UUID, int], asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._words: dict[tuple[UUID, int], Word] = {}
        self._writer: asyncio.Task[None] | None = None

    def begin(self, task: Claimed, id: UUID) -> None:
        """Take note of a try that has begun, from any thread: it is told of unless it ends before."""
        self._loop.call_soon_threadsafe(self._watch, task, id)

    def end(self, task: Claimed) -> None:
        """Take note of the end of a try, from any thread."""
        self._loop.call_soon_threadsafe(self._unwatch, (task.id, task.epoch))

    def _watch(self, task: Claimed, id: UUID) -> None:
        self._begun[task.id, task.epoch] = self._loop.call_later(self._patience, self._late, task, id)

    def _late(self, task: Claimed, id: UUID) -> None:
        self._begun.pop((task.id, task.epoch), None)
        self.tell(task, id)

    def _unwatch(self, key: tuple[UUID, int]) -> None:
        timer = self._begun.pop(key, None)
        if timer is not None:
            timer.cancel()

    def tell(self, task: Claimed, id: UUID, percent: float | None = None) -> None:
        """Take a word, from any thread."""
        with self._lock:
            key = (task.id, task.epoch)
            before = self._words.get(key)
            said = before.percent if percent is None and before is not None else percent
            self._words[key] = Word(task.id, task.epoch, id, said)
        self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._writer is None and self._words:
            self._writer = self._loop.create_task(self._run())

    def _forget(self) -> None:
        for key in list(self._begun):
            self._unwatch(key)

    async def _run(self) -> None:
        try:
            while self._words:
                with self._lock:
                    keys = list(self._words)[:MOST]
                    words = [self._words.pop(key) for key in keys]
                try:
                    heard = await self._write(words)
                    telemetry.fenced("async_task", "progress", len(words) - heard)
                except errors.FerrymanError as error:
                    log.warning("the words of %s capabilities were not written: %s", len(words), error.message)
        finally:
            self._writer = None

    async def written(self) -> None:
        """Wait until what was told is written, for SOON at most: the end of the task makes its words stale."""
        self._start()
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=SOON)

    async def close(self) -> None:
        """Write what is left."""
        self._forget()
        await self.written()
