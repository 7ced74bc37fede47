"""What handlers say while they run: progress and log lines, written in sets.

Handlers may speak from any thread and often; the latest progress of a claim is enough, log lines are all kept, up to
LINES_MAX that wait to be written. Nothing here delays a handler: words are taken at once and written by the worker when the
previous set is through.

Every word carries the fence of its claim: that of a stale holder is refused and counted, and so is that of a task which is
gone. The next claim makes this one stale, so an outcome waits until the words of its attempt are written, but not for longer
than SOON: the database may be away, or the pool in the hands of others.

When the database is away a set is put back and tried again with backoff; if it went away in the middle, lines that it has
written already stand there twice. A set that PostgreSQL refuses is halved until the bad word stands alone. Tasks whose words
cannot be written now, as those at a damaged page, are found in the same way; their words wait, and no other does. At the end
of the worker what has not been written after CLOSING is given up, and that is logged.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from uuid import UUID

from ferryman.kernel import errors, outage, telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import RECONNECT
from ferryman.tasks import store
from ferryman.tasks.model import Claimed

log = logging.getLogger("ferryman.tasks")

# What would refuse any other set as well: halving would only ask more often.
NOT_THE_WORDS = (errors.DatabaseUnavailable, errors.DatabaseRefused, errors.DatabaseNotMigrated, errors.NotOpen)

LINES_MAX = 10_000
SOON = 1.0  # seconds
CLOSING = 5.0  # seconds

Word = TypeVar("Word", store.Line, store.Report)


class Words:
    """Collect what handlers say, and write it."""

    def __init__(self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell) -> None:
        """Write through sessions of the pool."""
        self._session = session
        self._doorbell = doorbell
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        # By claim, not by task: a holder that lost its claim must not hide the word of the next one.
        self._progress: dict[tuple[UUID, int], store.Report] = {}
        self._lines: list[store.Line] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._stuck: set[UUID] = set()  # tasks whose words cannot be written now
        self._left = 0  # how often in a row some were
        self._again: asyncio.TimerHandle | None = None
        self._closed = False

    def report(self, task: Claimed, percent: int, message: str | None) -> None:
        """Take the latest progress of a task."""
        with self._lock:
            if self._closed:
                return
            self._progress[task.id, task.epoch] = (task.id, task.epoch, percent, message)
            self._loop.call_soon_threadsafe(self._begin)

    def say(self, task: Claimed, level: str, message: str) -> None:
        """Take a line of a task's log; a flood beyond all measure is cut off, and says so."""
        with self._lock:
            if self._closed:
                return
            self._add((task.id, task.epoch, task.attempt, level, message))
            self._loop.call_soon_threadsafe(self._begin)

    def _add(self, line: store.Line) -> None:
        if len(self._lines) < LINES_MAX:
            self._lines.append(line)
        elif len(self._lines) == LINES_MAX:
            self._lines.append((*line[:3], "warning", "too many lines at once: some are missing here"))

    def _begin(self) -> None:
        if self._writer is None and self._owes():
            self._writer = self._loop.create_task(self._write())

    def _owes(self) -> bool:
        with self._lock:
            said = itertools.chain(self._lines, self._progress.values())
            return bool(self._waiting) or any(word[0] not in self._stuck for word in said)

    async def written(self) -> None:
        """Wait until all that has been said so far is written, for SOON at most."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(done)
        self._begin()
        await asyncio.wait([done], timeout=SOON)

    async def _write(self) -> None:
        failures = 0
        try:
            while self._owes():
                try:
                    await self._flush()
                    failures = 0
                except errors.FerrymanError as error:
                    if not outage.passes(error):
                        raise
                    failures += 1
                    if failures == 1:
                        log.warning("what handlers say waits for the database", extra={"reason": error.message})
                    await asyncio.sleep(RECONNECT.delay(failures).total_seconds())
        except Exception:
            log.exception("what handlers said could not be written")
        finally:
            self._writer = None

    async def _flush(self) -> None:
        """Write one set; what could not be sent is put back."""
        waiting, self._waiting = self._waiting, []
        lines, progress = self._take()
        try:
            stuck: set[UUID] = set()
            if lines:
                stuck |= await self._send(lines, self._append)
                lines = [line for line in lines if line[0] in stuck]
            if progress:
                late = await self._send(sorted(progress.values(), key=lambda word: word[0].int), self._report)
                progress = {claim: word for claim, word in progress.items() if claim[0] in late}
                stuck |= late
            self._leave(stuck)
            for done in waiting:
                done.set_result(None)
            waiting = []
        finally:
            self._put_back(lines, progress)
            self._waiting[:0] = waiting

    def _take(self) -> tuple[list[store.Line], dict[tuple[UUID, int], store.Report]]:
        with self._lock:
            stuck = self._stuck
            lines = [line for line in self._lines if line[0] not in stuck]
            progress = {claim: word for claim, word in self._progress.items() if claim[0] not in stuck}
            self._lines = [line for line in self._lines if line[0] in stuck]
            self._progress = {claim: word for claim, word in self._progress.items() if claim[0] in stuck}
        return lines, progress

    def _leave(self, tasks: set[UUID]) -> None:
        """Let the words of tasks wait for a while that grows."""
        if not tasks and not self._stuck:
            self._left = 0
        self._stuck |= tasks
        if tasks and self._again is None:
            self._left += 1
            self._again = self._loop.call_later(RECONNECT.delay(self._left).total_seconds(), self._try_again)

    def _try_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._stuck = set()
        self._begin()

    def _put_back(self, lines: list[store.Line], progress: dict[tuple[UUID, int], store.Report]) -> None:
        with self._lock:
            self._progress = progress | self._progress
            later, self._lines = self._lines, lines
            for line in later:
                self._add(line)

    async def _send(self, words: Sequence[Word], write: Callable[[Sequence[Word]], Awaitable[None]]) -> set[UUID]:
        """Write a set of words; what PostgreSQL refuses is found by halving, and left out (K25).

        Answer with the tasks whose words it cannot write now.
        """
        try:
            await write(words)
        except NOT_THE_WORDS as error:
            if not outage.narrow(error):
                raise
            return await self._send_apart(words, write, error)
        except Exception as error:
            if len(words) == 1:
                log.exception("a word of a handler was refused", extra={"task": str(words[0][0])})
                return set()
            log.debug("a set of words was refused", exc_info=error)
            half = len(words) // 2
            return await self._send(words[:half], write) | await self._send(words[half:], write)
        return set()

    async def _send_apart(
        self, words: Sequence[Word], write: Callable[[Sequence[Word]], Awaitable[None]], error: errors.FerrymanError
    ) -> set[UUID]:
        """Halve a set by its tasks: what one of them says stays in order."""
        tasks = list(dict.fromkeys(word[0] for word in words))
        if len(tasks) == 1:
            if self._left == 0:
                told = {"task": str(tasks[0]), "reason": error.message}
                log.warning("what a handler says cannot be written now; coming back", extra=told)
            return set(tasks)
        half = set(tasks[: len(tasks) // 2])
        first = await self._send([word for word in words if word[0] in half], write)
        return first | await self._send([word for word in words if word[0] not in half], write)

    async def _append(self, lines: Sequence[store.Line]) -> None:
        async with self._session() as tx:
            written = await store.append_log(tx, lines)
        telemetry.fenced("task", "log", len(lines) - written)

    async def _report(self, words: Sequence[store.Report]) -> None:
        async with self._session() as tx:
            written = await store.report(tx, words)
        telemetry.fenced("task", "progress", len(words) - len(written))
        self._doorbell.ring("progress", [str(id) for id in written])

    async def close(self) -> None:
        """Write what has been said, as long as that can be waited for; what is said later is not heard."""
        with self._lock:
            self._closed = True
        self._try_again()
        writer = self._writer
        if writer is None:
            return
        await asyncio.wait([writer], timeout=CLOSING)
        if not writer.done():
            writer.cancel()
            await asyncio.wait([writer])
        if self._again is not None:
            self._again.cancel()
        if self._lines or self._progress:
            lost = {"lines": len(self._lines), "progress": len(self._progress)}
            log.error("what handlers said is lost: it could not be written in time", extra=lost)
