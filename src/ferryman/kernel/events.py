"""The log of every state change, and its named readers (K10).

Rows are written by the statements that move objects, in the same transaction. An event's id is drawn while its object is
locked, so that the ids of one object follow its commits, and reading by id keeps every object's order. But transactions
become visible in any order: whoever remembers only the last id it saw skips the row of a writer that commits late.

So a reader never passes a gap between ids unless the gap is known to stay empty. A run of ids without a gap is given out at
once, whoever else still writes. For the rest the reader marks a window: it looks at the end of the log, and only then gets a
transaction id of its own, so that every writer that drew an id up to that end has an older one. The window is closed when no
older transaction is open in the cluster; what is missing then was rolled back. A window that is not closed yet is kept with the
reader's place, so that a stream of new writers cannot push it away.

A kept mark may be of another cluster: of the one that a dump was taken from, or of a primary whose last transactions were lost
in a failover. Its transaction id may be one that this cluster reaches in years, or its end one that the log has yet to reach.
Whoever reads is younger than any mark made here, and the log never ends before one. A mark for which that is not so is thrown
away, and the window begun anew from the same place.

Windows cut by the writers' transaction ids would not keep the order: of two moves of one object the later may belong to the
older transaction, and a third one, still open, with an id between theirs would let the reader see the later move alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter
from uuid import UUID

from ferryman.kernel import beyond_end, db, errors, event_id
from ferryman.kernel.event_id import EventId

END = db.load("ferryman.kernel", "events/end")
LAST = db.load("ferryman.kernel", "events/last")
TAKE = db.load("ferryman.kernel", "events/take")
BEGIN = db.load("ferryman.kernel", "events/begin")
OLDEST = db.load("ferryman.kernel", "events/oldest")
MARK = db.load("ferryman.kernel", "events/mark")
CLOSED = db.load("ferryman.kernel", "events/closed")
PAGE = db.load("ferryman.kernel", "events/page")
ADVANCE = db.load("ferryman.kernel", "events/advance")
FORGET = db.load("ferryman.kernel", "events/forget")
OF = db.load("ferryman.kernel", "events/of")
ENSURE_PARTITIONS = db.load("ferryman.kernel", "events/ensure_partitions")
DROP_PARTITIONS = db.load("ferryman.kernel", "events/drop_partitions")

AHEAD = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Event:
    """One state change. `data` is JSON text, as it was written."""

    id: int
    at: datetime
    tenant: str
    kind: str
    subject: UUID
    subject_name: str | None
    from_state: str | None
    to_state: str | None
    attempt: int | None
    reason_code: str | None
    reason_message: str | None
    data: str | None
    token: int

    @property
    def identity(self) -> EventId:
        """What tells this event from every other, also from one with the same number in another history of the log."""
        return EventId(self.id, self.token)

    @property
    def event_id(self) -> str:
        """The identity as envelopes, webhooks and messages carry it."""
        return event_id.name(self.id, self.token)


_COLUMNS = itemgetter(*Event.__slots__)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader is, and the window it has marked."""

    last_id: int = 0
    mark_id: int = 0
    mark_xid: str = "0"

    @property
    def marked(self) -> bool:
        """Whether a part of the window is still to be read."""
        return self.mark_id > self.last_id


# Older than every transaction: a window with this mark is closed.
SETTLED = "0"


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of the log at one moment, and a transaction that is younger than every writer up to there."""

    end_id: int
    xid: str


async def read(
    tx: db.Tx,
    consumer: str,
    *,
    limit: int = 500,
    on_set_back: Callable[[db.Tx, int], Awaitable[object]] | None = None,
) -> Sequence[Event]:
    """Return the next events of a named consumer and move it past them; to be called first in a transaction.

    What the caller does with them in the same transaction commits together with the new place, or not at all. Nothing is
    returned while another reader of that name is at work. After an empty answer the transaction should be committed too: it
    may hold a mark.

    If the consumer was beyond the end, `on_set_back` is called with the id after which it resumes.
    """
    end = await _end(tx, consumer)
    if end["last_id"] is None:
        held = await db.one(tx, BEGIN, name=consumer, last_id=0)
    elif end["last_id"] < end["end_id"]:
        held = await db.one(tx, TAKE, name=consumer)
    else:
        if end["last_id"] > end["end_id"]:
            resume_id = await beyond_end.set_back(tx, consumer)
            if resume_id is not None and on_set_back is not None:
                await on_set_back(tx, resume_id)
        return ()
    if held is None:
        return ()
    before = Place(held["last_id"], held["mark_id"], held["mark_xid"])
    end_id, own_xid = end["end_id"], held["own_xid"]
    events, place = await _windows(tx, _of_here(before, end_id, own_xid), end_id, own_xid=own_xid, limit=limit)
    if place != before:
        await db.many(tx, ADVANCE, name=consumer, last_id=place.last_id, mark_id=place.mark_id, mark_xid=place.mark_xid)
    return events


async def tail(
    tx: db.Tx,
    place: Place,
    *,
    tenant: str | None = None,
    subject: UUID | None = None,
    limit: int = 500,
    reach: int | None = None,
) -> tuple[Sequence[Event], Place]:
    """Return the next events after a place that the caller keeps in memory, and the place after them.

    For people who follow the log: `Place(id)` begins after an event, `latest()` at the end. With `reach` so many ids are looked
    at and no more, however few of them are the tenant's.
    """
    end = await _end(tx, None)
    if place.last_id >= end["end_id"]:
        return (), place
    own = await db.one(tx, MARK)
    assert own is not None
    own_xid = own["own_xid"]
    place = _of_here(place, end["end_id"], own_xid)
    end_id = end["end_id"] if reach is None else min(end["end_id"], place.last_id + reach)
    return await _windows(tx, place, end_id, own_xid=own_xid, limit=limit, tenant=tenant, subject=subject)


async def latest(tx: db.Tx) -> Place:
    """Return the place at the end of the log."""
    end = await db.one(tx, LAST)
    assert end is not None
    return Place(end["end_id"])


async def oldest(tx: db.Tx) -> int | None:
    """Return the first event that is kept; None while there is none."""
    row = await db.one(tx, OLDEST)
    assert row is not None
    found: int | None = row["id"]
    return found


async def mark(tx: db.Tx) -> Mark:
    """Mark the end of the log; to be called first in a transaction."""
    end = _fresh(await db.one(tx, LAST))
    own = await db.one(tx, MARK)
    assert own is not None
    return Mark(end["end_id"], own["own_xid"])


async def closed(tx: db.Tx, mark: Mark) -> bool:
    """Say whether nothing can appear any more up to a mark whose transaction has been committed."""
    row = await db.one(tx, CLOSED, mark_xid=mark.xid)
    assert row is not None
    if not row["reached"]:
        raise errors.DatabaseUnavailable("The end of the log was marked in another cluster than the one that answers.")
    return bool(row["closed"])


async def between(tx: db.Tx, after: int, upto: int, *, tenant: str | None = None, limit: int = 500) -> Sequence[Event]:
    """Return events of a part of the log in which nothing can appear any more; the caller knows that it is so."""
    rows = await db.many(
        tx, PAGE, last_id=after, mark_id=upto, mark_xid=SETTLED, tenant=tenant, subject=None, limit=limit
    )
    return [Event(*_COLUMNS(row)) for row in rows if row["id"] is not None]


async def begin(tx: db.Tx, consumer: str, *, after_id: int = 0) -> bool:
    """Add a consumer that begins after an event (by default with the oldest); False if it exists already."""
    return await db.one(tx, BEGIN, name=consumer, last_id=after_id) is not None


async def forget(tx: db.Tx, consumer: str) -> bool:
    """Remove a consumer, which no longer keeps the log from being dropped; False if there was none."""
    return await db.one(tx, FORGET, name=consumer) is not None


async def of(tx: db.Tx, subject: UUID, *, tenant: str | None = None) -> Sequence[Event]:
    """Return the events of one object, in order."""
    return [Event(*_COLUMNS(row)) for row in await db.many(tx, OF, subject=subject, tenant=tenant)]


async def ensure_partitions(tx: db.Tx, *, ahead: timedelta = AHEAD) -> Sequence[str]:
    """Make the daily partitions from tomorrow up to `ahead`; return the new ones. Commit at once: it holds locks."""
    return [row["name"] for row in await db.many(tx, ENSURE_PARTITIONS, ahead=ahead.days)]


async def drop_partitions(tx: db.Tx, *, older_than: timedelta, even_unread: bool = False) -> Sequence[str]:
    """Drop the days that ended longer ago, up to the first that a consumer has not read; return them. Commit at once."""
    rows = await db.many(tx, DROP_PARTITIONS, older_than=older_than, even_unread=even_unread)
    return [row["name"] for row in rows]


async def _end(tx: db.Tx, consumer: str | None) -> db.Row:
    return _fresh(await db.one(tx, END, name=consumer))


def _fresh(end: db.Row | None) -> db.Row:
    assert end is not None
    if not end["fresh"]:
        raise RuntimeError(
            "Read the log first in its transaction: its id must be younger than the look at the log's end."
        )
    return end


def _of_here(place: Place, end_id: int, own_xid: str) -> Place:
    """Return a place without a mark that cannot have been made in this cluster."""
    if place.mark_id <= end_id and int(place.mark_xid) < int(own_xid):
        return place
    return Place(place.last_id)


async def _windows(
    tx: db.Tx,
    place: Place,
    end_id: int,
    *,
    own_xid: str,
    limit: int,
    tenant: str | None = None,
    subject: UUID | None = None,
) -> tuple[Sequence[Event], Place]:
    """Read what is left of the marked window, then mark and read up to the end, as far as each lets us."""
    events: list[Event] = []
    while len(events) < limit:
        if not place.marked:
            if place.last_id >= end_id:
                break
            place = Place(place.last_id, end_id, own_xid)
        room = limit - len(events)
        rows = await db.many(
            tx,
            PAGE,
            last_id=place.last_id,
            mark_id=place.mark_id,
            mark_xid=place.mark_xid,
            tenant=tenant,
            subject=subject,
            limit=room,
        )
        page = [Event(*_COLUMNS(row)) for row in rows if row["id"] is not None]
        place = replace(place, last_id=page[-1].id if len(page) == room else rows[0]["safe_id"])
        events += page
        if not rows[0]["closed"]:
            break
    return events, place
