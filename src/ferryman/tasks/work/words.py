"""What handlers say while they run: progress and log lines, written in sets.

Handlers may speak from any thread and often; the latest progress of a claim is enough, log lines are all kept, up to
LINES_MAX that wait to be written. Nothing here delays a handler: words are taken at once and written by the worker when the
previous set is through.

Every word carries the fence of its claim: that of a stale holder is refused and counted, and so is that of a task which is
gone. The next claim makes this one stale, so an outcome waits until the words of its attempt are written, but not for longer
than SOON: the database may be away, or the pool in the hands of others.

When the database is away a set is put back and tried again with backoff; if it went away in the middle, lines that it has
written already stand there twice. A set that PostgreSQL refuses is halved until the bad word stands alone. Tasks whose words
cannot be written now, because somebody holds their rows in an open transaction or a page of theirs is damaged, are put aside:
what they say, up to HELD_MAX lines more of each, is tried again with backoff, apart from what all others say and after it. At
the end of the worker what has not been written after CLOSING is given up, and that is logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
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

LINES_MAX = 10_000
HELD_MAX = 1_000
SOON = 1.0  # seconds
CLOSING = 5.0  # seconds

Word = TypeVar("Word", store.Line, store.Report)
# By claim, not by task: a holder that lost its claim must not hide the word of the next one.
Progress = dict[tuple[UUID, int], store.Report]


class Said:
    """What waits to be written: of everybody, or of one task that was put aside."""

    def __init__(self, most: int) -> None:
        """Keep so many lines; a flood beyond all measure is cut off, and says so."""
        self.most = most
        self.lines: list[store.Line] = []
        self.progress: Progress = {}

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.lines or self.progress)

    def add(self, line: store.Line) -> None:
        """Take a line."""
        if len(self.lines) < self.most:
            self.lines.append(line)
        elif len(self.lines) == self.most:
            self.lines.append((*line[:3], "warning", "too many lines at once: some are missing here"))

    def take(self) -> tuple[list[store.Line], Progress]:
        """Take all of it out."""
        lines, self.lines = self.lines, []
        progress, self.progress = self.progress, {}
        return lines, progress

    def put_back(self, lines: list[store.Line], progress: Progress) -> None:
        """Put what was taken out in front of what was said meanwhile."""
        later, self.lines = self.lines, lines
        self.progress = progress | self.progress
        for line in later:
            self.add(line)

    def part(self, tasks: set[UUID]) -> dict[UUID, Said]:
        """Take out what some tasks said, each by itself."""
        lines, progress = self.take()
        parts = {task: Said(HELD_MAX) for task in tasks}
        for line in lines:
            parts.get(line[0], self).lines.append(line)
        for claim, word in progress.items():
            parts.get(claim[0], self).progress[claim] = word
        for each in parts.values():
            each.most += len(each.lines)
        return parts


class Words:
    """Collect what handlers say, and write it."""

    def __init__(self, session: Callable[[], AbstractAsyncContextManager[Tx]], doorbell: Doorbell) -> None:
        """Write through sessions of the pool."""
        self._session = session
        self._doorbell = doorbell
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._said = Said(LINES_MAX)
        self._aside: dict[UUID, Said] = {}  # of tasks whose words cannot be written now
        self._due = False  # those aside are to be tried again
        self._left = 0  # how often in a row some were left there
        self._again: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def report(self, task: Claimed, percent: int, message: str | None) -> None:
        """Take the latest progress of a task."""
        with self._lock:
            if self._closed:
                return
            said = self._aside.get(task.id, self._said)
            said.progress[task.id, task.epoch] = (task.id, task.epoch, percent, message)
            self._loop.call_soon_threadsafe(self._begin)

    def say(self, task: Claimed, level: str, message: str) -> None:
        """Take a line of a task's log."""
        with self._lock:
            if self._closed:
                return
            self._aside.get(task.id, self._said).add((task.id, task.epoch, task.attempt, level, message))
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._writer is None and self._owes():
            self._writer = self._loop.create_task(self._write())

    def _owes(self) -> bool:
        return bool(self._waiting or self._due or self._said)

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
        """Write one set, and then what was put aside and is to be tried again."""
        waiting, self._waiting = self._waiting, []
        try:
            stuck = await self._empty(self._said)
            with self._lock:
                self._aside |= self._said.part(stuck)
            for done in waiting:
                done.set_result(None)
            waiting = []
        finally:
            self._waiting[:0] = waiting
        if self._due:
            await self._try_aside()
        self._come_back()

    async def _empty(self, said: Said) -> set[UUID]:
        """Write what was said; answer with the tasks whose words cannot be written now. What could not be sent stays."""
        with self._lock:
            lines, progress = said.take()
        stuck: set[UUID] = set()
        try:
            if lines:
                stuck |= await self._send(lines, self._append)
                lines = [line for line in lines if line[0] in stuck]
            if progress:
                late = await self._send(sorted(progress.values(), key=lambda word: word[0].int), self._report)
                progress = {claim: word for claim, word in progress.items() if claim[0] in late}
                stuck |= late
        finally:
            with self._lock:
                said.put_back(lines, progress)
        return stuck

    # What is put aside

    async def _try_aside(self) -> None:
        """Try again what was put aside, of each task by itself; who is let go speaks with the others again."""
        held = await self._held(self._aside)
        for task in [each for each in self._aside if each not in held]:
            if await self._empty(self._aside[task]):
                continue
            with self._lock:
                lines, progress = self._aside.pop(task).take()
                self._said.progress |= progress
                for line in lines:
                    self._said.add(line)
        self._due = False

    def _come_back(self) -> None:
        """Try again after a while that grows."""
        if not self._aside:
            self._left = 0
        elif self._again is None:
            self._left += 1
            self._again = self._loop.call_later(RECONNECT.delay(self._left).total_seconds(), self._try_again)

    def _try_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._due = bool(self._aside)
        self._begin()

    async def _held(self, tasks: Collection[UUID]) -> set[UUID]:
        """Find whom somebody else holds: nobody else need wait for them."""
        try:
            async with self._session() as tx:
                return await store.held(tx, tasks)
        except errors.FerrymanError as error:
            if not outage.narrow(error):
                raise
            return set()  # some cannot be asked for either: each is tried by itself

    # Sending

    async def _send(self, words: Sequence[Word], write: Callable[[Sequence[Word]], Awaitable[None]]) -> set[UUID]:
        """Write a set of words; what PostgreSQL refuses is found by halving, and left out (K25).

        Answer with the tasks whose words it cannot write now.
        """
        try:
            await write(words)
        except errors.FerrymanError as error:
            # A word is refused in PostgreSQL's own words. Ours are about the database: any other set would meet the same.
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
        """Send what each task says by itself, in its order; not what belongs to a task that somebody holds."""
        by_task: dict[UUID, list[Word]] = {}
        for word in words:
            by_task.setdefault(word[0], []).append(word)
        stuck = {*by_task} if len(by_task) == 1 else await self._held(by_task)
        if stuck and self._left == 0:
            told = {"task": str(min(stuck)), "tasks": len(stuck), "reason": error.message}
            log.warning("what a handler says cannot be written now; coming back", extra=told)
        for task in [each for each in by_task if each not in stuck]:
            stuck |= await self._send(by_task[task], write)
        return stuck

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
        left = [each for each in (self._said, *self._aside.values()) if each]
        if left:
            lost = {
                "lines": sum(len(each.lines) for each in left),
                "progress": sum(len(each.progress) for each in left),
            }
            log.error("what handlers said is lost: it could not be written in time", extra=lost)
