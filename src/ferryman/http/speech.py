"""What turns say, as server-sent events: pieces of text as they come, and a sign of life while none do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import orjson
from fastapi.responses import StreamingResponse

from ferryman.app.agents import Agents

MEDIA_TYPE = "text/event-stream"
# Whatever is between us and the client closes connections that are silent for half a minute or more.
QUIET_SECONDS = 15.0


def answer(events: AsyncIterator[bytes], *, closing: asyncio.Event) -> StreamingResponse:
    """Answer with events as they come; nobody between us and the client may keep or hold them back."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lively(events, closing), media_type=MEDIA_TYPE, headers=headers)


def event(name: str, data: object) -> bytes:
    """Return one event; its data is JSON, which has no line ends of its own."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))


async def turn(door: Agents, id: UUID) -> AsyncIterator[bytes]:
    """Tell what a turn streams, and how it ended."""
    async for text in door.stream(id):
        yield event("text", text)
    found = await door.turn(id)
    yield event("end", {"status": found.turn_status, "error_code": found.error_code})


async def lively(events: AsyncIterator[bytes], closing: asyncio.Event) -> AsyncIterator[bytes]:
    """Give events until the server closes, and a comment whenever there was none for a while.

    It begins with a comment, so that the answer begins at once.
    """
    yield b": \n\n"
    closed = asyncio.ensure_future(closing.wait())
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while not closed.done():
            await asyncio.wait([coming, closed], timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield b": \n\n"
                continue
            told = coming.result()
            if told is None:
                return
            yield told
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        closed.cancel()
        coming.cancel()
        await asyncio.gather(coming, closed, return_exceptions=True)
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
