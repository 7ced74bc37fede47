"""Natural batching: what comes while the previous set is on its way forms the next one.

Many callers want one thing each; the database is many times cheaper in sets. No timer is involved: the first caller's thing
goes out at once, alone, in its caller's own hands, and whoever comes while it is under way shares the next trip. So a lonely
call keeps its latency, and a crowd gets its throughput. Each caller waits for its own set and gets its own answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


class Gather(Generic[Thing, Answer]):
    """Combine concurrent calls into sets.

    `send` gets a set and answers one for each, in order; an answer that is an exception is raised at its caller alone. When
    `send` itself raises, all callers of that set get the exception.
    """

    def __init__(
        self, send: Callable[[list[Thing]], Awaitable[Sequence[Answer | Exception]]], *, most: int = 500
    ) -> None:
        """Bound a set to `most` things."""
        self._send = send
        self._most = most
        self._waiting: list[tuple[Thing, asyncio.Future[Answer]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._alone: asyncio.Future[None] | None = None

    async def __call__(self, thing: Thing) -> Answer:
        """Send one thing, with whatever else goes now, and wait for its answer."""
        if self._sender is not None or self._alone is not None:
            return await self.put(thing)
        self._alone = asyncio.get_running_loop().create_future()
        try:
            [answer] = await self._send([thing])
        finally:
            self._alone.set_result(None)
            self._alone = None
            self._start()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, thing: Thing) -> asyncio.Future[Answer]:
        """Put one thing into the next set; its answer comes later."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, future))
        if self._alone is None:
            self._start()
        return future

    def _start(self) -> None:
        if self._waiting and self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._flush(batch)
                # Who has just been answered often comes again at once: one trip for all of them, not two for half each.
                await asyncio.sleep(0)
        finally:
            self._sender = None

    async def _flush(self, batch: list[tuple[Thing, asyncio.Future[Answer]]]) -> None:
        try:
            answers: Sequence[Answer | Exception] = await self._send([thing for thing, _ in batch])
        except Exception as error:  # noqa: BLE001 - told to every caller of the set
            answers = [error] * len(batch)
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue  # the caller has gone away; what was written stays written
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def drain(self) -> None:
        """Wait until everything that was put has been sent."""
        while under_way := self._sender or self._alone:
            await asyncio.wait([under_way])
