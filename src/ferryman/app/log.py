"""The door to the log: pages of it, and what is new as it happens (K10)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, events, ids, resume
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Event, Place
from ferryman.kernel.follow import REACH, Choice, Follower, Reader
from ferryman.kernel.pool import Database, spoken
from ferryman.kernel.resume import Gap, Position

# Rings that come with something new in the log.
TOPICS = ("ready", "due", "done", "cancel", "agents", "turns", "stopped", "webhooks")
KINDS_MAX = 50

# Where to begin: the identity of an event, as text too, or a plain number.
After = EventId | str | int


class LogPage(NamedTuple):
    """Some events, and the event after which to go on; the same as before when there is nothing new.

    `gap` says that the log does not have the event after which the page was asked for, and where the page begins instead.
    """

    items: Sequence[Event]
    next: EventId
    gap: Gap | None = None


class Log:
    """Read the log of one tenant."""

    def __init__(self, reader: Reader, db: Database, *, tenant: str) -> None:
        """Follow through the one reader of this process."""
        self._reader = reader
        self._db = db
        self._tenant = tenant

    def of(self, tenant: str) -> Log:
        """Return the same door for one tenant."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        return door

    @property
    def followers(self) -> int:
        """How many follow the log in this process."""
        return len(self._reader.followers)

    async def page(
        self,
        *,
        after: After | None = None,
        last: int = 0,
        kinds: Collection[str] | None = None,
        subject: UUID | None = None,
        limit: int = 50,
    ) -> LogPage:
        """Read events after one, oldest first; without one, about the `last` so many. Nothing is skipped.

        A page may have fewer than asked for, or none, and a `next` that goes on: then there were events of others between.
        """
        choice = Choice(self._tenant, _kinds(kinds), subject)
        seen = _event_id(after)
        with spoken():
            begin = await self._before_end(last) if seen is None else Position.after(seen)
            if subject is not None:
                return await self._of_one(choice, begin, limit)
            async with self._db.transaction() as tx:
                found, (place, seen), gap = await resume.tail(tx, begin, tenant=self._tenant, limit=limit, reach=REACH)
        # A page that found nothing but numbers without events reads them again, unless they fill a page.
        following = seen if place.last_id - seen.number < REACH else EventId(place.last_id)
        return LogPage([each for each in found if choice.takes(each)], following, gap)

    async def _before_end(self, count: int) -> Position:
        async with self._db.session() as tx:
            number = max(0, (await events.latest(tx)).last_id - count)
            return Position(Place(number), await resume.last(tx, number, after=EventId(0)))

    async def _of_one(self, choice: Choice, begin: Position, limit: int) -> LogPage:
        """The story of one object needs no window: each of its events is written while its row is held."""
        assert choice.subject is not None
        async with self._db.session() as tx:
            gap = await resume.check(tx, begin.seen)
            story = await events.of(tx, choice.subject, tenant=choice.tenant)
        begin = begin if gap is None else Position.after(gap.resume)
        found = [each for each in story if each.id > begin.place.last_id and choice.takes(each)][:limit]
        return LogPage(found, found[-1].identity if found else begin.seen, gap)

    def follow(
        self, *, after: After | None = None, kinds: Collection[str] | None = None, subject: UUID | None = None
    ) -> Follower:
        """Follow the log after an event, or from now on; `leave` the follower at the end."""
        return self._reader.follow(Choice(self._tenant, _kinds(kinds), subject), after=_event_id(after))

    async def close(self) -> None:
        """Let nobody follow any more."""
        await self._reader.close()


def _event_id(given: After | None) -> EventId | None:
    if given is None or isinstance(given, EventId):
        return given
    found = EventId.parse(str(given))
    if found is None:
        raise errors.RequestInvalid(
            f"after: expected the id of an event, such as 1200 or evt_1200-654c08dd3a1c0, got {ascii(given)[:60]}.",
            field="after",
        )
    return found


def _kinds(given: Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    if not 1 <= len(given) <= KINDS_MAX:
        raise errors.RequestInvalid(f"kind: expected 1 to {KINDS_MAX} kinds, got {len(given)}.", field="kind")
    return frozenset(ids.check_name(each, "kind") for each in given)
