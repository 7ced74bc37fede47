"""Following the log as it grows: one reader for all who listen in a process (K10).

A thousand followers cost the database one: the reader keeps one place in the log, and gives what it reads to everybody who
wants it. Nothing is skipped. The reader opens when its first window is closed, so up to its place nothing can appear any more;
a follower that begins further back reads that part for itself, in pages, and joins the reader when it is near.

What waits for a follower is bounded. One that falls behind is cut: it has `position`, the event after which it can come again.
A follower that wants little is moved along with the reader, so that it need not look through the same part of the log twice.
One that resumes after an event that the log does not have gets a gap (resume.py). When the log itself goes back while it is
read, because another server answers, followers are cut; they get the gap when they come again.

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

from ferryman.kernel import errors, events, resume
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Event, Place
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Database
from ferryman.kernel.resume import Gap, GapReason, Position
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
        self._seen = EventId(0)  # the last event up to there
        self._begin = Position.after(EventId(0))
        self._rung = asyncio.Event()
        self._opened = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self.followers: set[Follower] = set()

    def follow(self, choice: Choice, *, after: EventId | None = None) -> Follower:
        """Follow the log after an event, or from now on."""
        if self._closed:
            raise errors.NotOpen()
        here = None if self._place is None else Position(self._place, self._seen)
        begin = here if after is None else Position.after(after)
        follower = Follower(self, choice, begin, resumed=after is not None and after.number > 0)
        self.followers.add(follower)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return follower

    async def opened(self, seconds: float) -> bool:
        """Wait until the place of this reader is known."""
        return self._opened.is_set() or await within(self._opened, seconds)

    @property
    def begin(self) -> Position:
        """Where a follower begins that came before this reader was open."""
        return self._begin

    @property
    def upto(self) -> int:
        """Up to which event everything has been read."""
        assert self._place is not None
        return self._place.last_id

    async def read(self, choice: Choice, after: Position, upto: int) -> tuple[Sequence[Event], Position]:
        """Read a part of the log that this reader has passed; answer with how far it came."""
        begin = after.place.last_id
        async with self._db.session() as tx:
            if choice.subject is not None:
                found = await events.of(tx, choice.subject, tenant=choice.tenant)
                found = [each for each in found if begin < each.id <= upto]
            else:
                upto = min(upto, begin + REACH)
                found = await events.between(tx, begin, upto, tenant=choice.tenant, limit=PAGE)
                upto = found[-1].id if len(found) == PAGE else upto
            seen = await resume.last(tx, upto, after=after.seen)
        return [each for each in found if choice.takes(each)], Position(Place(upto), seen)

    async def gap(self, seen: EventId) -> Gap | None:
        """Return why a follower cannot resume after an event, and where it can."""
        before = self._place
        async with self._db.session() as tx:
            own = await resume.check(tx, self._seen, passed=self.upto)
            if own is not None and self._place is before:
                self._went_back(own)
            return await resume.check(tx, seen, closed=self.upto)

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
            begin = min(known.last_id, mark.end_id)
            self._begin = Position(Place(begin), await resume.last(tx, begin, after=EventId(0)))
        while True:
            async with self._db.session() as tx:
                if await events.closed(tx, mark):
                    break
            await asyncio.sleep(PACE_SECONDS)
        async with self._db.session() as tx:
            self._seen = await resume.last(tx, mark.end_id, after=EventId(0))
        self._place = Place(mark.end_id)
        self._opened.set()

    async def _look(self) -> None:
        before = self._place
        assert before is not None
        self._rung.clear()
        async with self._db.transaction() as tx:
            found, position, gap = await resume.tail(tx, Position(before, self._seen), limit=PAGE)
        if self._place is not before:
            return  # a follower that resumed has found out before that the log went back
        if gap is not None:
            self._went_back(gap)
        self._place, self._seen = position
        for follower in list(self.followers):
            follower.hear(found, position)
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

    def _went_back(self, gap: Gap) -> None:
        """Read on from an earlier event, and cut those who have read events that the log does not have any more."""
        if gap.reason is GapReason.DROPPED:
            return
        log.warning("the log went back to event %s, cutting those who follow it", gap.resume)
        self._begin = Position.after(gap.resume)
        self._place, self._seen = self._begin
        for follower in list(self.followers):
            if follower.has_read:
                follower.cut()


class Follower:
    """One who follows the log."""

    def __init__(self, reader: Reader, choice: Choice, after: Position | None, *, resumed: bool) -> None:
        """Begin at a position; none: where the reader begins. Who has been here before may have missed something."""
        self._reader = reader
        self._choice = choice
        self._after = after
        self._joint: int | None = None  # from there on it hears what the reader reads
        self._heard: Position | None = None
        self._resumed = resumed
        self._gap: Gap | None = None
        self._waiting: deque[Event] = deque()
        self._roused = asyncio.Event()
        self.over = False

    @property
    def position(self) -> EventId | None:
        """The event after which to resume; none before anything is known."""
        return None if self._after is None else self._after.seen

    @property
    def has_read(self) -> bool:
        """Whether its position is one of the log as this process knows it, and not only what a client has sent."""
        return self._after is not None and not self._resumed

    def rouse(self) -> None:
        """Let `next` return."""
        self._roused.set()

    def hear(self, found: Sequence[Event], upto: Position) -> None:
        """Take what the reader has read, and its position; too much, and this one is cut."""
        if self._joint is None:
            return  # still further back
        joint, takes = self._joint, self._choice.takes
        wanted = [each for each in found if each.id > joint and takes(each)]
        if len(self._waiting) + len(wanted) > WAITING_MAX:
            self.cut()
            return
        self._heard = upto
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
        while not self.over and (self._joint is None or self._after.place.last_id < self._joint):
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
            self._after = Position.after(taken[-1].identity)
            self._roused.set()
        elif self._after is not None and self._heard is not None:
            self._after = max(self._after, self._heard, key=lambda each: each.place.last_id)
        return taken

    async def _catch_up(self, after: Position) -> Sequence[Event]:
        if self._resumed:
            self._gap = await self._reader.gap(after.seen)
            self._resumed = False
            after = self._after = after if self._gap is None else Position.after(self._gap.resume)
        begin, upto = after.place.last_id, self._reader.upto
        if self._joint is None and upto - begin <= WAITING_MAX:
            # No await since the reader's place was read: what it reads from now on is heard.
            self._joint = max(begin, upto)
        if begin >= upto:
            return ()
        found, self._after = await self._reader.read(self._choice, after, self._joint or upto)
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
