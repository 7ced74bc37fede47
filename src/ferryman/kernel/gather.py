"""Natural batching: what comes while the previous set is on its way forms the next one.

Many callers want one thing each; the database is many times cheaper in sets. No timer is involved: the first caller's thing
goes out at once, alone, in its caller's own hands, and whoever comes while it is under way shares the next trip. So a lonely
call keeps its latency, and a crowd gets its throughput. Each caller waits for its own set and gets its own answer.

With several ways (`Ways`) a crowd parts: while PostgreSQL works on the set of one and flushes it, this process answers that of
another and makes its next set of those who come again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from ferryman.kernel.timed import timed

log = logging.getLogger("ferryman.gather")

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


# A thing that is busy is sent again: soon, because what keeps it is over soon as a rule, and ever later if it is not.
SOON_SECONDS = 0.002
LATER_SECONDS = 0.1
# What cannot be written may stay so until somebody mends it, and each try has its set halved.
LATEST_SECONDS = 2.0


class Again(Exception):
    """The answer for a thing that must go with a later set; the others of its set do not wait for it.

    With a reason it is one that may last: it is told, and the thing is put off for longer, and then goes alone; others have the
    way for as long as that took, at least, also from all else that was put off.
    """

    def __init__(self, reason: Exception | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


class Gather(Generic[Thing, Answer]):
    """Combine concurrent calls into sets.

    `send` gets a set and answers one for each, in order; an answer that is an exception is raised at its caller alone. When
    `send` itself raises, all callers of that set get the exception.
    """

    def __init__(
        self,
        send: Callable[[list[Thing]], Awaitable[Sequence[Answer | Exception]]],
        *,
        alone: Callable[[Thing], Awaitable[Answer | Exception]] | None = None,
        most: int = 500,
        revocable: bool = False,
    ) -> None:
        """Bound a set to `most` things; what goes `alone` may have a shorter way.

        What is `revocable` is not sent if its caller has gone away before. What tells of something that was done is not.
        """
        self._send = send
        self._send_one = alone or self._send_set_of_one
        self._revocable = revocable
        self._most = most
        # Each with how long it is put off when it is busy.
        self._waiting: list[tuple[Thing, asyncio.Future[Answer], float]] = []
        self._sender: asyncio.Task[None] | None = None
        self._under_way = False
        self._alone = False
        self._back: asyncio.Future[None] | None = None  # somebody waits until what went alone is back
        self._again: dict[asyncio.Future[Answer], asyncio.TimerHandle] = {}
        self._stuck: set[asyncio.Future[Answer]] = set()  # put off for a reason that may last
        # Of those, what is to be tried again, and from when on: before, others have the way.
        self._late: dict[asyncio.Future[Answer], tuple[Thing, asyncio.Future[Answer], float]] = {}
        self._late_at = 0.0
        self._came = asyncio.Event()  # somebody, or who was late has gone away

    def __call__(self, thing: Thing) -> Awaitable[Answer]:
        """Send one thing, with whatever else goes now; its answer is waited for at once."""
        return self._send_alone(thing) if self.idle else self.put(thing)

    @property
    def idle(self) -> bool:
        """Whether who comes now may go alone: no set is under way or about to be."""
        return self._sender is None and not self._alone

    async def _send_alone(self, thing: Thing) -> Answer:
        if not self.idle:  # who was called in the same breath is under way
            return await self.put(thing)
        self._alone = True
        began = time.monotonic()
        try:
            answer = await self._send_one(thing)
        finally:
            self._alone = False
            if self._back is not None:
                self._back.set_result(None)
                self._back = None
            self._start()
        if isinstance(answer, Again):
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._send_later(thing, future, SOON_SECONDS, answer.reason, took=time.monotonic() - began)
            return await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _send_set_of_one(self, thing: Thing) -> Answer | Exception:
        [answer] = await self._send([thing])
        return answer

    def crowd(self) -> tuple[bool, int]:
        """Say whether a set is under way, and how many wait for the next: who comes does best where that is least."""
        return self._under_way or self._alone, len(self._waiting)

    def put(self, thing: Thing) -> asyncio.Future[Answer]:
        """Put one thing into the next set; its answer comes later."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._wait(thing, future, SOON_SECONDS)
        return future

    def _wait(self, thing: Thing, future: asyncio.Future[Answer], pause: float) -> None:
        self._waiting.append((thing, future, pause))
        self._came.set()
        self._start()

    def _start(self) -> None:
        if (self._waiting or self._late) and self._sender is None and not self._alone:
            self._sender = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting or self._late:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._flush(batch)
                # One at a time, and not in front of those who come: each may have to be waited for.
                if self._late and await self._rested():
                    await self._flush([self._late.pop(next(iter(self._late)))])
                # Who has just been answered often comes again at once: one trip for all of them, not two for half each.
                await asyncio.sleep(0)
        finally:
            self._sender, self._under_way = None, False

    async def _rested(self) -> bool:
        """Wait until what is late may go, or somebody comes or goes away; tell whether it may."""
        rest = self._late_at - time.monotonic()
        if rest > 0 and not self._waiting:
            self._came.clear()
            with suppress(TimeoutError):
                await timed(self._came.wait(), rest)
        return bool(self._late) and time.monotonic() >= self._late_at

    async def _flush(self, batch: list[tuple[Thing, asyncio.Future[Answer], float]]) -> None:
        if self._revocable:
            batch = [each for each in batch if not each[1].done()]
        if not batch:
            return
        self._under_way = True
        began = time.monotonic()
        try:
            answers: Sequence[Answer | Exception] = await self._send([thing for thing, _, _ in batch])
        except Exception as error:  # noqa: BLE001 - told to every caller of the set
            answers = [error] * len(batch)
        except BaseException:
            for _, future, _ in batch:
                future.cancel()
            raise
        self._under_way = False
        took = time.monotonic() - began if len(batch) == 1 else 0.0  # by itself
        for (thing, future, pause), answer in zip(batch, answers, strict=True):
            if future.done():
                continue  # the caller has gone away; what was written stays written
            if isinstance(answer, Again):
                self._send_later(thing, future, pause, answer.reason, took=took)
            elif isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _send_later(
        self, thing: Thing, future: asyncio.Future[Answer], pause: float, reason: Exception | None, *, took: float
    ) -> None:
        if reason is not None:
            self._stick(future, reason)
            pause = max(pause, LATER_SECONDS, took)
            self._late_at = max(self._late_at, time.monotonic() + took)
        most = LATER_SECONDS if reason is None else LATEST_SECONDS

        def send() -> None:
            del self._again[future]
            if future.done():
                return
            if reason is None:
                self._wait(thing, future, min(2 * pause, most))
            else:
                self._late[future] = (thing, future, min(2 * pause, most))
                self._start()

        self._again[future] = asyncio.get_running_loop().call_later(pause, send)

    def _stick(self, future: asyncio.Future[Answer], reason: Exception) -> None:
        if not self._stuck:
            log.warning("a call cannot be written now; coming back", extra={"reason": str(reason)})
        if future not in self._stuck:
            self._stuck.add(future)
            future.add_done_callback(self._come_loose)

    def _come_loose(self, future: asyncio.Future[Answer]) -> None:
        self._stuck.discard(future)
        self._late.pop(future, None)
        self._came.set()

    async def stop(self) -> None:
        """Let go of what is under way and of what waits; their callers are cancelled."""
        sender = self._sender
        again, self._again = self._again, {}
        for future, timer in again.items():
            timer.cancel()
            future.cancel()
        waiting, self._waiting, self._late = [*self._waiting, *self._late.values()], [], {}
        for _, future, _ in waiting:
            future.cancel()
        if sender is not None:
            sender.cancel()
            await asyncio.wait([sender])

    async def drain(self) -> None:
        """Wait until everything that was put has been sent."""
        while True:
            if self._alone and self._back is None:
                self._back = asyncio.get_running_loop().create_future()
            later = [each for each in self._again if not each.done()]  # whose caller has gone away is not sent again
            under_way = [each for each in (self._sender, self._back, *later) if each is not None]
            if not under_way:
                return
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)


class Ways(Generic[Thing, Answer]):
    """Several ways for things that need not go in order.

    Who comes goes where no set is under way, and else where fewer wait. So a lonely call goes the first way, and those who were
    answered together go together again: the sets stay large, and one is made while another is under way.
    """

    def __init__(self, *ways: Gather[Thing, Answer]) -> None:
        """Prefer the first, if they are alike."""
        self._ways = ways

    def __call__(self, thing: Thing) -> Awaitable[Answer]:
        """Send one thing, with whatever else goes now; its answer is waited for at once."""
        first = self._ways[0]
        return (first if first.idle else min(self._ways, key=_crowd))(thing)

    async def drain(self) -> None:
        """Wait until everything that was put has been sent."""
        for way in self._ways:
            await way.drain()


def _crowd(way: Gather[Any, Any]) -> tuple[bool, int]:
    return way.crowd()
