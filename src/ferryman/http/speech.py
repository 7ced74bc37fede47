"""What turns say, as server-sent events: pieces of text as they come, and how the turn ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID

import orjson

from ferryman.app.agents import Agents
from ferryman.http.streams import beat, frame


async def turn(door: Agents, id: UUID) -> AsyncGenerator[bytes, None]:
    """Tell what a turn streams, and how it ended."""
    yield beat()  # the answer begins at once
    async for text in door.stream(id):
        yield frame(orjson.dumps(text), event="text")
    found = await door.turn(id)
    yield frame(orjson.dumps({"status": found.turn_status, "error_code": found.error_code}), event="end")
