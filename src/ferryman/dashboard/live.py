"""What changes, told to every open page: one look a second for the whole process, whatever the number of viewers.

The log says what changed: each look reads what it gained and tells each viewer which kinds of objects of its tenant moved, and
which objects if they are few. A page then asks for its own fresh parts. The look goes on only while somebody views; a viewer
that is too slow to take what it is told misses words, not changes: each word says only that it is time to look again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import orjson

from ferryman.app.ferryman import Ferryman
from ferryman.kernel import errors, events

log = logging.getLogger("ferryman.dashboard")

LOOK_SECONDS = 1.0
BEAT_SECONDS = 15.0
VIEWERS_MAX = 200
NAMED_MAX = 50
PAGE = 2000
ANYTHING = "*"


@dataclass(eq=False)
class Viewer:
    """One open page: whose work it shows, and what has changed since it was last told."""

    tenant: str
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    kinds: set[str] = field(default_factory=set)
    subjects: set[str] = field(default_factory=set)

    def tell(self, found: Iterable[events.Event], *, more: bool) -> None:
        """Note what concerns this viewer; with more than could be read, everything may have changed."""
        if more:
            self.kinds.add(ANYTHING)
            self.rung.set()
        for event in found:
            if event.tenant == self.tenant:
                self.kinds.add(event.kind)
                if len(self.subjects) < NAMED_MAX:
                    self.subjects.add(str(event.subject))
                self.rung.set()

    def word(self) -> bytes:
        """Return what has changed, and forget it. With so many objects that they are not all named, none is."""
        many = len(self.subjects) >= NAMED_MAX or ANYTHING in self.kinds
        told = {"kinds": sorted(self.kinds), "subjects": None if many else sorted(self.subjects)}
        self.kinds, self.subjects = set(), set()
        self.rung.clear()
        return b"event: changed\ndata: " + orjson.dumps(told) + b"\n\n"


class Live:
    """Looks for all viewers of this process."""

    def __init__(self, app: Ferryman) -> None:
        """Look through an opened app, as long as there are viewers."""
        self._app = app
        self._viewers: set[Viewer] = set()
        self._looking: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def viewers(self) -> int:
        """How many pages are open."""
        return len(self._viewers)

    async def stream(self, tenant: str) -> AsyncIterator[bytes]:
        """Give what changes for a tenant as server-sent events, until the viewer goes or the server closes."""
        viewer = Viewer(tenant)
        self._viewers.add(viewer)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
            while not self._closing.is_set():
                if await self._rung(viewer):
                    yield viewer.word()
                elif not self._closing.is_set():
                    yield b": still here\n\n"
        finally:
            self._viewers.discard(viewer)

    def room(self) -> None:
        """Refuse one viewer too many; its page looks by itself then, now and again."""
        if len(self._viewers) >= VIEWERS_MAX:
            raise errors.RateExceeded("Too many pages are open at once.", retry_after=5)

    async def close(self) -> None:
        """Let every viewer go."""
        self._closing.set()
        for viewer in self._viewers:
            viewer.rung.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _rung(self, viewer: Viewer) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(viewer.rung.wait(), BEAT_SECONDS)
        return bool(viewer.kinds)

    async def _look(self) -> None:
        place: events.Place | None = None
        missed = False
        while self._viewers:
            try:
                async with self._app.database.transaction() as tx:
                    if place is None:
                        place = await events.latest(tx)
                    found, place = await events.tail(tx, place, limit=PAGE)
            except Exception as error:  # noqa: BLE001 - viewers wait for the next look, whatever kept this one
                log.warning("cannot look what changed: %s", error)
                place, missed = None, True
            else:
                more = missed or len(found) >= PAGE
                for viewer in list(self._viewers):
                    viewer.tell(found, more=more)
                place, missed = None if len(found) >= PAGE else place, False
            await asyncio.sleep(LOOK_SECONDS)
