"""Following the log as it grows: one reader for all who listen in a process (K10).

A thousand followers cost the database one: the reader keeps one place in the log, and gives what it reads to everybody who
wants it. Nothing is skipped. The reader opens when its first window is closed, so up to its place nothing can appear any more;
a follower that begins further back reads that part for itself, in pages, and joins the reader when it is near.

What waits for a follower is bounded. One that falls behind is cut: it has `position`, the event after which it can come again.
A follower that wants little is moved along with the reader, so that it need not look through the same part of the log twice.
One that comes again from before what the log keeps is told of the gap.

The reader goes on only while somebody follows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, events
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.events import Event, Gap, Place
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Database
from ferryman.kernel.timed import timed

log = logging.getLogger("ferryman.follow")

PAGE = 500
WAITING_MAX = 1000
# A look over the events of others, for a tenant that has few, goes so far and no further at once.
REACH = 10_000
# How far back the first follower may begin when somebody still writes there.
LOOK_BACK = 1000
POLL_SECONDS = 0.5
# Rings come in crowds; a reader that answered each would read one event at a time.
PACE_SECONDS = 0.02


class Choice(NamedTuple):
    """What a follower wants: of one tenant or of all, of some kinds, of one object."""

    tenant: str | None = None
    kinds: Collection[str] | None = None
    subject: UUID | None = None

    def takes(self, event: Event) -> bool:
        """Say whether an event is wanted."""
        return (
            (self.tenant is None or event.tenant == self.tenant)
            and (self.kinds is None or event.kind in self.kinds)
            and (self.subject is None or event.subject == self.subject)
        )


class Reader:
    """The one who reads the log for all followers of a process."""

    def __init__(self, db: Database, doorbell: Doorbell, *, topics: Sequence[str]) -> None:
        """Read through the pool; these topics are rung when there is something new in the log."""
        self._db = db
        self._doorbell = doorbell
        self._topics = topics
        self._place: Place | None = None
        self._begin = 0
        self._rung = asyncio.Event()
        self._opened = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self.followers: set[Follower] = set()

    def follow(self, choice: Choice, *, after: int | None = None) -> Follower:
        """Follow the log after an event, or from now on."""
        if self._closed:
            raise errors.NotOpen()
        begin = after if after is not None or self._place is None else self._place.last_id
        follower = Follower(self, choice, begin, resumed=after is not None and after > 0)
        self.followers.add(follower)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return follower

    async def opened(self, seconds: float) -> bool:
        """Wait until the place of this reader is known."""
        return self._opened.is_set() or await within(self._opened, seconds)

    @property
    def begin(self) -> int:
        """Where a follower begins that came before this reader was open."""
        return self._begin

    @property
    def upto(self) -> int:
        """Up to which event everything has been read."""
        assert self._place is not None
        return self._place.last_id

    async def read(self, choice: Choice, after: int, upto: int) -> tuple[Sequence[Event], int]:
        """Read a part of the log that this reader has passed; answer with how far it came."""
        async with self._db.session() as tx:
            if choice.subject is not None:
                found = await events.of(tx, choice.subject, tenant=choice.tenant)
                return [each for each in found if after < each.id <= upto and choice.takes(each)], upto
            upto = min(upto, after + REACH)
            found = await events.between(tx, after, upto, tenant=choice.tenant, limit=PAGE)
        return [each for each in found if choice.takes(each)], found[-1].id if len(found) == PAGE else upto

    async def gap(self, after: int, upto: int) -> Gap | None:
        """Return what is not kept any more of a part of the log that this reader has passed."""
        async with self._db.session() as tx:
            return await events.missed(tx, after, upto)

    async def _run(self) -> None:
        hushes = [self._doorbell.listen(topic, lambda _hints: self._rung.set()) for topic in self._topics]
        failures = 0
        try:
            while self.followers:
                try:
                    await (self._look() if self._opened.is_set() else self._open())
                    failures = 0
                except Exception as error:  # who follows waits for this one, whatever it meets
                    failures += 1
                    if failures == 1:
                        log.warning("the log cannot be followed just now", exc_info=error)
                    if self._place is not None:
                        # Whoever answers next may be another server, which knows nothing of a window marked before.
                        self._place = Place(self._place.last_id)
                    await asyncio.sleep(RECONNECT.delay(failures).total_seconds())
        finally:
            for hush in hushes:
                hush()
            self._place, self._running = None, None
            self._opened.clear()

    async def _open(self) -> None:
        """Begin at the end, when all who wrote before have ended."""
        async with self._db.transaction() as tx:
            mark = await events.mark(tx)
        async with self._db.transaction() as tx:
            _, known = await events.tail(tx, Place(max(0, mark.end_id - LOOK_BACK)), limit=LOOK_BACK)
        self._begin = min(known.last_id, mark.end_id)
        while True:
            async with self._db.session() as tx:
                if await events.closed(tx, mark):
                    break
            await asyncio.sleep(PACE_SECONDS)
        self._place = Place(mark.end_id)
        self._opened.set()

    async def _look(self) -> None:
        assert self._place is not None
        self._rung.clear()
        async with self._db.transaction() as tx:
            found, self._place = await events.tail(tx, self._place, limit=PAGE)
        for follower in list(self.followers):
            follower.hear(found, self._place.last_id)
        if len(found) < PAGE:
            await within(self._rung, POLL_SECONDS)
            await asyncio.sleep(PACE_SECONDS)

    async def close(self) -> None:
        """Read no more; who follows is told."""
        self._closed = True
        for follower in list(self.followers):
            follower.cut()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])


class Follower:
    """One who follows the log."""

    def __init__(self, reader: Reader, choice: Choice, after: int | None, *, resumed: bool) -> None:
        """Begin after an event; none: where the reader begins. Who has been here before may have missed something."""
        self._reader = reader
        self._choice = choice
        self._after = after
        self._joint: int | None = None  # from there on it hears what the reader reads
        self._heard = 0
        self._resumed = resumed
        self._gap: Gap | None = None
        self._waiting: deque[Event] = deque()
        self._roused = asyncio.Event()
        self.over = False

    @property
    def position(self) -> int | None:
        """The event after which to go on; none before anything is known."""
        return self._after

    def rouse(self) -> None:
        """Let `next` return."""
        self._roused.set()

    def hear(self, found: Sequence[Event], upto: int) -> None:
        """Take what the reader has read, and how far it is; too much, and this one is cut."""
        if self._joint is None:
            return  # still further back
        joint, takes = self._joint, self._choice.takes
        wanted = [each for each in found if each.id > joint and takes(each)]
        if len(self._waiting) + len(wanted) > WAITING_MAX:
            self.cut()
            return
        self._heard = max(self._heard, upto)
        self._waiting += wanted
        if wanted:
            self._roused.set()

    def cut(self) -> None:
        """Hear no more: what waits is given out, and that is all."""
        self.over = True
        self._reader.followers.discard(self)
        self._roused.set()

    async def next(self, seconds: float) -> Sequence[Event]:
        """Return what is new, or nothing after so many seconds; after the end (`over`) nothing comes any more."""
        until = time.monotonic() + seconds
        if not await self.begin(seconds):
            return ()
        assert self._after is not None
        while not self.over and (self._joint is None or self._after < self._joint):
            found = await self._catch_up(self._after)
            if found or self._gap is not None or time.monotonic() > until:
                return found
        if not self._waiting and not self.over:
            await within(self._roused, seconds)
        self._roused.clear()
        return self._take()

    async def begin(self, seconds: float) -> bool:
        """Wait until it is known where this one begins: what happens from then on is heard."""
        if self._joint is None:
            if not await self._reader.opened(seconds):
                return False
            self._after = self._reader.begin if self._after is None else self._after
        return True

    def missed(self) -> Gap | None:
        """Return what was not kept until this one came again for it; told once, before what follows it."""
        gap, self._gap = self._gap, None
        return gap

    def _take(self) -> Sequence[Event]:
        taken = [self._waiting.popleft() for _ in range(min(PAGE, len(self._waiting)))]
        if self._waiting:
            self._after = taken[-1].id
            self._roused.set()
        elif self._after is not None:
            self._after = max(self._after, self._heard)
        return taken

    async def _catch_up(self, after: int) -> Sequence[Event]:
        upto = self._reader.upto
        if self._joint is None and upto - after <= WAITING_MAX:
            # No await since the reader's place was read: what it reads from now on is heard.
            self._joint = max(after, upto)
        if self._resumed:
            self._resumed = False
            self._gap = await self._reader.gap(after, self._joint or upto)
            after = after if self._gap is None else self._gap.last
        found, self._after = (
            ((), upto) if upto <= after else await self._reader.read(self._choice, after, self._joint or upto)
        )
        self._after = max(after, self._after)
        return found

    def leave(self) -> None:
        """Follow no more."""
        self._reader.followers.discard(self)


async def within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, for so long at most; say whether it was set."""
    try:
        await timed(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
