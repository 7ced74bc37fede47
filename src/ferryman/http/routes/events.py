"""The log over HTTP: as pages, and as a stream of server-sent events that can be resumed (K10)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field

from ferryman.app.doctor.report import plain
from ferryman.http.answers import LIMIT, Limit, Shape
from ferryman.http.callers import Reading
from ferryman.http.streams import MEDIA_TYPE, Stream, beat, frame
from ferryman.kernel import errors
from ferryman.kernel.event_id import PATTERN, EventId
from ferryman.kernel.events import Event
from ferryman.kernel.follow import Follower
from ferryman.kernel.resume import Gap, GapReason

# So long a stream waits for the reader of the log; who writes for longer hides what is new from everybody.
OPEN_SECONDS = 5.0

router = APIRouter(prefix="/events", tags=["events"])

After = Annotated[
    str | None,
    Query(
        pattern=f"^{PATTERN}$",
        description="After this event: `next` of the page before, an `event_id`, or a plain number.",
    ),
]
Kinds = Annotated[list[str] | None, Query(description="Of these kinds only, such as task; may be repeated.")]
Subject = Annotated[UUID | None, Query(description="Of one object only.")]


class LogEvent(Shape):
    """One move of one object, or its birth."""

    id: int
    event_id: str
    at: datetime
    kind: str
    subject: UUID
    subject_name: str | None
    from_state: str | None
    to_state: str | None
    attempt: int | None
    reason_code: str | None
    reason_message: str | None
    data: Any = None


class LogGap(Shape):
    """The log does not have the event after which reading was asked for. It resumes after the event `resume`.

    `dropped`: the events with the numbers `from` to `to` are not kept any more. `beyond_end` and `other_history`: the log went
    back, after a failover or a restore; events with these numbers that were seen before are not in this log.
    """

    from_: int = Field(alias="from")
    to: int
    reason: GapReason
    resume: str


class LogPage(Shape):
    """Events, oldest first. `next` is what to give as `after`: it goes on even where a page is empty."""

    items: Sequence[LogEvent]
    next: str
    gap: LogGap | None = Field(None, description="Only where the log does not have the event of `after`.")


@router.get("", response_model=LogPage, response_model_exclude_unset=True)
async def read(
    visit: Reading,
    after: After = None,
    last: Annotated[int, Query(ge=0, le=10_000, description="Without `after`: about the last so many.")] = LIMIT,
    kind: Kinds = None,
    subject: Subject = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """Read what happened, oldest first. A transaction that commits late delays what comes after it; nothing is skipped."""
    found = await visit.doors.log.page(after=after, last=last, kinds=kind, subject=subject, limit=limit)
    page: dict[str, Any] = {"items": [shown(each) for each in found.items], "next": str(found.next)}
    return page if found.gap is None else page | {"gap": found.gap.as_json()}


@router.get("/stream", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def stream(
    visit: Reading,
    request: Request,
    after: After = None,
    kind: Kinds = None,
    subject: Subject = None,
    resume: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The last event that was seen; wins over `after`.")
    ] = None,
) -> Response:
    """Follow what happens as server-sent events, from now on or after an event; reconnect with Last-Event-ID.

    A client that resumes after an event that the log does not have gets an event `gap` first, with the fields of LogGap: the
    event was dropped (`log.retention`), or the log went back after a failover or a restore. It continues after `resume`.
    """
    follower = visit.doors.log.follow(after=_resumed(resume, after), kinds=kind, subject=subject)
    try:
        await follower.begin(OPEN_SECONDS)  # what happens after the head of this answer is told
    except BaseException:
        follower.leave()
        raise
    return following(follower, request)


def _resumed(header: str | None, after: str | None) -> EventId | str | None:
    if not header:
        return after
    named = EventId.parse(header)
    if named is None:
        raise errors.RequestInvalid(
            f"Last-Event-ID: expected the id of an event, got {ascii(header)[:60]}.", field="Last-Event-ID"
        )
    return named


def following(follower: Follower, request: Request) -> Stream:
    """Stream what a follower hears."""

    async def tell(seconds: float) -> bytes | None:
        found = await follower.next(seconds)
        if (gap := follower.missed()) is not None:
            return missing(gap) + b"".join(map(told, found))
        if found:
            return b"".join(map(told, found))
        return None if follower.over else beat(follower.position)

    async def left() -> None:
        follower.leave()

    return Stream(tell, rouse=follower.rouse, left=left, closing=request.app.state.closing)


def missing(gap: Gap) -> bytes:
    """Write that the log does not have the event after which the client resumes."""
    return frame(orjson.dumps(gap.as_json()), id=gap.resume, event="gap")


@lru_cache(maxsize=4096)
def told(event: Event) -> bytes:
    """Write an event for a stream; once, however many follow."""
    return frame(
        orjson.dumps(shown(event), default=plain, option=orjson.OPT_UTC_Z), id=event.identity, event=event.kind
    )


def shown(event: Event) -> dict[str, Any]:
    """Return an event as the outside sees it."""
    return {
        "id": event.id,
        "event_id": event.event_id,
        "at": event.at,
        "kind": event.kind,
        "subject": event.subject,
        "subject_name": event.subject_name,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "attempt": event.attempt,
        "reason_code": event.reason_code,
        "reason_message": event.reason_message,
        "data": None if event.data is None else orjson.loads(event.data),
    }
