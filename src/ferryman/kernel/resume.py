"""Resumes reading of the log after an event that was read before (K10).

A client sends the identity of the last event that it has. The log may not have that event: retention dropped it, or the log
went back, because a standby was promoted or a backup was restored, and the client has seen events that are lost now. Reading on
from the number would then skip events without notice. The client gets a gap instead, and reading resumes at an earlier event.

That event is found by time, which the identity holds. Events that were written after the log went back are younger than the
event of the client, so reading resumes at the last event that is older. A client may get events twice. It skips none.

A plain number holds no time. It is refused only where the log has not reached it; then reading resumes at the end of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import db, events
from ferryman.kernel.beyond_end import SLACK
from ferryman.kernel.event_id import EventId
from ferryman.kernel.events import Event, Place

_KNOWN = db.load("ferryman.kernel", "events/known")
_BETWEEN = db.load("ferryman.kernel", "events/between")
_LAST_BEFORE = db.load("ferryman.kernel", "events/last_before")


class GapReason(StrEnum):
    """Why reading could not resume after an event."""

    DROPPED = "dropped"  # log.retention is over for it
    BEYOND_END = "beyond_end"  # the log has not reached its number
    OTHER_HISTORY = "other_history"  # the log went back, and has another event of that number or none


class Gap(NamedTuple):
    """The numbers from `first` to `last` are not the events that the reader asked for; reading resumes after `resume`."""

    first: int
    last: int
    reason: GapReason
    resume: EventId

    def as_json(self) -> dict[str, object]:
        """Return the gap as streams and pages show it."""
        return {"from": self.first, "to": self.last, "reason": self.reason.value, "resume": str(self.resume)}


class Position(NamedTuple):
    """How far a reader is, and the identity of the last event up to there, of whichever tenant."""

    place: Place
    seen: EventId

    @classmethod
    def after(cls, seen: EventId) -> Position:
        """Return the position of a reader that has seen this event and all before it."""
        return cls(Place(seen.number), seen)


async def tail(
    tx: db.Tx,
    position: Position,
    *,
    tenant: str | None = None,
    subject: UUID | None = None,
    limit: int = 500,
    reach: int | None = None,
) -> tuple[Sequence[Event], Position, Gap | None]:
    """Read on as `events.tail` does, or from an earlier event where the log does not have the last one that was seen."""
    gap = await check(tx, position.seen, passed=position.place.last_id)
    if gap is not None:
        # What retention dropped is not there to be read again, and before the first event kept another may still appear.
        position = Position(Place(min(gap.resume.number, position.place.last_id)), gap.resume)
    found, place = await events.tail(tx, position.place, tenant=tenant, subject=subject, limit=limit, reach=reach)
    seen = position.seen
    if found and found[-1].id == place.last_id:
        seen = found[-1].identity
    elif place.last_id != position.place.last_id:
        seen = await last(tx, place.last_id, after=seen)
    return found, Position(place, seen), gap


async def last(tx: db.Tx, upto: int, *, after: EventId) -> EventId:
    """Return the last event up to a number; the one given if none follows it."""
    row = await db.one(tx, _LAST_BEFORE, id=upto, before=None)
    return after if row is None or row["id"] <= after.number else EventId(row["id"], row["token"])


async def check(tx: db.Tx, seen: EventId, *, passed: int | None = None, closed: int | None = None) -> Gap | None:
    """Return why reading cannot resume after an event, and where it can; None if it can.

    `passed`: up to where the reader has passed numbers after the event that no event had. `closed`: up to where no event can
    appear any more, if the caller knows.
    """
    if seen.number == 0:
        return None
    if seen.token is not None and await _is_known(tx, seen, passed or 0):
        return None
    end = (await events.latest(tx)).last_id
    first = await events.oldest(tx)
    if seen.number > end:
        resume = EventId(min(end, closed or end)) if seen.token is None else await _by_time(tx, seen, first)
        return Gap(resume.number + 1, seen.number, GapReason.BEYOND_END, resume)
    dropped = min(end if first is None else first - 1, end if closed is None else closed)
    if seen.number < dropped:
        return Gap(seen.number + 1, dropped, GapReason.DROPPED, EventId(dropped))
    if seen.token is None or first is None or seen.number < first:
        return None
    resume = await _by_time(tx, seen, first)
    return Gap(resume.number + 1, seen.number, GapReason.OTHER_HISTORY, resume)


async def _is_known(tx: db.Tx, seen: EventId, passed: int) -> bool:
    row = await db.one(tx, _KNOWN, id=seen.number, logged_at=seen.logged_at)
    assert row is not None
    if passed > seen.number:
        between = await db.one(tx, _BETWEEN, id=seen.number, upto=passed)
        assert between is not None
        return bool(row["known"] and not between["found"])
    return bool(row["known"])


async def _by_time(tx: db.Tx, seen: EventId, first: int | None) -> EventId:
    """Return the last event that was certainly written before the one that was seen."""
    assert seen.logged_at is not None
    row = await db.one(tx, _LAST_BEFORE, id=seen.number, before=seen.logged_at - SLACK)
    return EventId(0 if first is None else first - 1) if row is None else EventId(row["id"], row["token"])
