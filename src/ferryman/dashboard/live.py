"""What changes, told to every open page, a word a second at most.

The log says what changed: each viewer follows it (see `kernel/follow`, whose one reader serves the whole process) and is told
which kinds of objects of its tenant moved, and which objects if they are few. A page then asks for its own fresh parts.

A viewer that falls behind misses words, not changes: each word says only that it is time to look again. While the reader waits
for somebody who still writes, nobody knows what changed, and every word says that anything may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import orjson

from ferryman.app.log import Log
from ferryman.http.streams import frame
from ferryman.kernel import errors
from ferryman.kernel.events import Event
from ferryman.kernel.follow import Follower

LOOK_SECONDS = 1.0
# So long a page waits for a word while nobody can say what changed.
BLIND_SECONDS = 5.0
VIEWERS_MAX = 200
NAMED_MAX = 50
HELLO = b"retry: 2000\nevent: hello\ndata: {}\n\n"
ANYTHING = frame(orjson.dumps({"kinds": ["*"], "subjects": None}), event="changed")


class Live:
    """The open pages of this process."""

    def __init__(self) -> None:
        """Nobody looks yet."""
        self.viewers = 0

    async def stream(self, log: Log) -> AsyncGenerator[bytes, None]:
        """Give what changes for the tenant of a log, as server-sent events, until the viewer goes."""
        follower = log.follow()
        self.viewers += 1
        try:
            await follower.begin(BLIND_SECONDS)  # what changes after this hello is told
            yield HELLO
            while True:
                found = await _news(follower)
                if follower.over or follower.position is None:
                    yield ANYTHING
                elif found:
                    yield word(found)
                if follower.over:
                    follower = log.follow()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self.viewers -= 1
            follower.leave()

    def room(self) -> None:
        """Refuse one viewer too many; its page looks by itself then, now and again."""
        if self.viewers >= VIEWERS_MAX:
            raise errors.RateExceeded("Too many pages are open at once.", retry_after=5)


async def _news(follower: Follower) -> Sequence[Event]:
    """Return all that has come since the last word, waiting for it if there is nothing."""
    found = list(await follower.next(BLIND_SECONDS))
    while found and (more := await follower.next(0)):
        found += more
    return found


def word(found: Sequence[Event]) -> bytes:
    """Say what has changed. With so many objects that they are not all named, none is."""
    kinds = sorted({event.kind for event in found})
    subjects = sorted({str(event.subject) for event in found})
    told = {"kinds": kinds, "subjects": subjects if len(subjects) < NAMED_MAX else None}
    return frame(orjson.dumps(told), event="changed")
