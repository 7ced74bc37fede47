"""The door to the log: pages of it, and what is new as it happens (K10)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, events, ids
from ferryman.kernel.events import Event
from ferryman.kernel.follow import REACH, Choice, Follower, Reader
from ferryman.kernel.pool import Database, spoken

# Rings that come with something new in the log.
TOPICS = ("ready", "due", "done", "cancel", "agents", "turns", "stopped", "webhooks")
EVENT_ID_MAX = 2**63 - 1
KINDS_MAX = 50


class LogPage(NamedTuple):
    """Some events, and the event after which to go on; the same as before when there is nothing new."""

    items: Sequence[Event]
    next: int


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
        after: int | None = None,
        last: int = 0,
        kinds: Collection[str] | None = None,
        subject: UUID | None = None,
        limit: int = 50,
    ) -> LogPage:
        """Read events after one, oldest first; without one, about the `last` so many. Nothing is skipped.

        A page may have fewer than asked for, or none, and a `next` that goes on: then there were events of others between.
        """
        choice = Choice(self._tenant, _kinds(kinds), subject)
        with spoken():
            if after is None:
                async with self._db.session() as tx:
                    after = max(0, (await events.latest(tx)).last_id - last)
            if subject is not None:
                return await self._of_one(choice, after, limit)
            async with self._db.transaction() as tx:
                found, place = await events.tail(tx, events.Place(after), tenant=self._tenant, limit=limit, reach=REACH)
        return LogPage([each for each in found if choice.takes(each)], place.last_id)

    async def _of_one(self, choice: Choice, after: int, limit: int) -> LogPage:
        """The story of one object needs no window: each of its events is written while its row is held."""
        assert choice.subject is not None
        async with self._db.session() as tx:
            story = await events.of(tx, choice.subject, tenant=choice.tenant)
        found = [each for each in story if each.id > after and choice.takes(each)][:limit]
        return LogPage(found, found[-1].id if found else after)

    def follow(
        self, *, after: int | None = None, kinds: Collection[str] | None = None, subject: UUID | None = None
    ) -> Follower:
        """Follow the log after an event, or from now on; `leave` the follower at the end."""
        return self._reader.follow(Choice(self._tenant, _kinds(kinds), subject), after=after)

    async def close(self) -> None:
        """Let nobody follow any more."""
        await self._reader.close()


def _kinds(given: Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    if not 1 <= len(given) <= KINDS_MAX:
        raise errors.RequestInvalid(f"kind: expected 1 to {KINDS_MAX} kinds, got {len(given)}.", field="kind")
    return frozenset(ids.check_name(each, "kind") for each in given)
