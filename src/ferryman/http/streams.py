"""Streams of server-sent events, which end when the client goes, when the server stops, or when the client is too slow.

A stream is plain ASGI and not a generator of the framework: a thousand of them that say nothing cost little. Each carries
the identity of the last event it told, also in its heartbeats; whoever comes again with `Last-Event-ID` goes on there, and
misses nothing (K10). A client that does not read is cut after STUCK_SECONDS; what waits for it meanwhile is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ferryman.kernel import telemetry
from ferryman.kernel.timed import timed

log = logging.getLogger("ferryman.http")

BEAT_SECONDS = 15.0
STUCK_SECONDS = 30.0
MEDIA_TYPE = "text/event-stream"

# Gives the next part of a stream within so many seconds, empty for a heartbeat, or None at its end.
Tell = Callable[[float], Awaitable[bytes | None]]


class Stream(Response):
    """An answer that goes on."""

    media_type = MEDIA_TYPE

    def __init__(
        self, tell: Tell, *, rouse: Callable[[], None], left: Callable[[], Awaitable[None]], closing: asyncio.Event
    ) -> None:
        """Send what `tell` gives; `rouse` lets it return early, and `left` is called at the end in any case."""
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._tell = tell
        self._rouse = rouse
        self._left = left
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until somebody ends it."""
        telemetry.streaming(1)
        over = asyncio.Event()
        watching = asyncio.create_task(_watch(receive, self._closing, over, self._rouse))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not over.is_set():
                part = await self._tell(BEAT_SECONDS)
                if part is None:
                    break
                body = {"type": "http.response.body", "body": part, "more_body": True}
                await timed(send(body), STUCK_SECONDS)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # Not ended in order: the client sees that something is missing, and comes again.
            log.info("a stream was cut: its client does not read")
        finally:
            watching.cancel()
            telemetry.streaming(-1)
            await self._left()


async def _watch(receive: Receive, closing: asyncio.Event, over: asyncio.Event, rouse: Callable[[], None]) -> None:
    """Notice that the client has gone, or that the server stops."""
    ends = [asyncio.ensure_future(closing.wait()), asyncio.ensure_future(_gone(receive))]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        over.set()
        rouse()
    finally:
        for each in ends:
            each.cancel()


@asynccontextmanager
async def staying(request: Request) -> AsyncIterator[asyncio.Event]:
    """Give an event that is set when the client of a long request has gone, or the server stops."""
    over = asyncio.Event()
    watching = asyncio.create_task(_watch(request.receive, request.app.state.closing, over, lambda: None))
    try:
        yield over
    finally:
        watching.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(data: bytes, *, id: object = None, event: str | None = None) -> bytes:
    """Write one event of a stream; JSON has no line ends, so the data is one line."""
    head = b"" if id is None else b"id: %s\n" % str(id).encode()
    kind = b"" if event is None else b"event: %s\n" % event.encode()
    return b"%s%sdata: %s\n\n" % (head, kind, data)


def beat(id: object = None) -> bytes:
    """Write a heartbeat: nothing is dispatched for it, but the client remembers the id."""
    return b": beat\n\n" if id is None else b": beat\nid: %s\n\n" % str(id).encode()


def told(source: AsyncGenerator[bytes, None], *, closing: asyncio.Event) -> Stream:
    """Stream what a generator gives, until it ends; it is closed when nobody listens any more."""
    coming: asyncio.Task[bytes | None] | None = None
    roused = asyncio.Event()

    async def tell(seconds: float) -> bytes | None:
        nonlocal coming
        coming = coming or asyncio.ensure_future(anext(source, None))
        rousing = asyncio.ensure_future(roused.wait())
        try:
            await asyncio.wait([coming, rousing], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rousing.cancel()
        if not coming.done():
            return b"" if roused.is_set() else beat()
        part, coming = coming.result(), None
        return part

    async def left() -> None:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await source.aclose()

    return Stream(tell, rouse=roused.set, left=left, closing=closing)
