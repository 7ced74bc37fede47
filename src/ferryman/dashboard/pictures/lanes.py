"""Lanes: what happened side by side, one line each, over one axis of time.

On the left stands what a line is, under what it came of; on the right what it did: bars for what lasted, dots for what was a
moment, an upright line for the time by which a rule ends it. A bar without an end goes on until now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from ferryman.dashboard import spelling
from ferryman.dashboard.pictures import axis, marks
from ferryman.dashboard.pictures.svg import element

ROW = 26
HEAD = 24
LEFT = 0.42
INDENT = 16
THICK = 12
# A deadline so many times as far off as all that happened is left out: the axis would be all of it.
STRETCH = 4
# More than this nobody can follow.
MOST = 500

Place = Callable[[datetime], float]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted, or still does; as one of the moments only its beginning counts."""

    at: datetime
    until: datetime | None
    colour: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line: what it is, what it did, and by when it ends."""

    name: str
    colour: str
    spans: Sequence[Span] = ()
    moments: Sequence[Span] = ()
    note: str = ""
    href: str | None = None
    deadline: datetime | None = None
    depth: int = 0


def draw(lanes: Sequence[Lane], *, now: datetime, says: str) -> Markup:
    """Return the picture of some lanes; empty without any."""
    if not lanes:
        return Markup()
    if len(lanes) > MOST + 1:
        lanes = [*lanes[:MOST], Lane(f"{len(lanes) - MOST} more", "grey", note="not drawn")]
    first, last = extent(lanes, now=now)
    whole = (last - first).total_seconds()
    height = HEAD + ROW * len(lanes) + 2
    ticks = axis.elapsed(last - first, most=4)
    parts = [marks.room(marks.scale(ticks, y=HEAD - 6, until=height), x=LEFT, y=0, width=1 - LEFT, height=height)]
    for number, (lane, below) in enumerate(zip(lanes, rails(lanes), strict=True)):
        y = HEAD + ROW * number
        parts.append(marks.room([_label(lane, below)], x=0, y=y, width=LEFT - 0.01, height=ROW))
        track = _track(lane, lambda at: (at - first).total_seconds() / whole, now=now, last=last)
        parts.append(marks.room(track, x=LEFT, y=y, width=1 - LEFT, height=ROW))
    return marks.canvas(parts, height=height, class_="lanes", says=says, role="group")


def extent(lanes: Sequence[Lane], *, now: datetime) -> tuple[datetime, datetime]:
    """Return from when to when the axis goes: all that happened, and the deadlines that are not too far off."""
    edges = [each.at for lane in lanes for each in (*lane.spans, *lane.moments)]
    edges += [each.until or max(now, each.at) for lane in lanes for each in lane.spans]
    first, last = min(edges, default=now), max(edges, default=now)
    last = max(last, first + timedelta(milliseconds=1))
    near = first + STRETCH * (last - first)
    return first, max([last, *(each.deadline for each in lanes if each.deadline is not None and each.deadline <= near)])


def rails(lanes: Sequence[Lane]) -> list[set[int]]:
    """Return for each lane the depths whose lines go on below it: there is a later child of the same parent."""
    found: list[set[int]] = []
    alive: set[int] = set()
    for lane in reversed(lanes):
        found.append({depth for depth in alive if 0 < depth <= lane.depth + 1})
        alive = {depth for depth in alive if depth < lane.depth} | {lane.depth}
    return found[::-1]


def _label(lane: Lane, below: set[int]) -> Markup:
    middle, x = ROW / 2, 8 + INDENT * lane.depth
    path = "".join(
        f"M{8 + INDENT * (depth - 1)} {middle if depth > lane.depth else 0:g}V{ROW}" for depth in sorted(below)
    )
    path += f"M{x - INDENT} 0V{middle:g}H{x - 5}" if lane.depth else ""
    note = element("tspan", lane.note, class_="note", dx=8)
    whole = marks.title(f"{lane.name} {lane.note}".strip())
    name = element("text", lane.name, note, whole, class_="name", x=x + 10, y=middle + 4)
    rail = element("path", class_="branch", d=path) if path else Markup()
    return rail + marks.dot(f"{x}", middle, class_=f"fill-{lane.colour}") + marks.link(lane.href, name)


def _track(lane: Lane, place: Place, *, now: datetime, last: datetime) -> list[Markup]:
    parts = [marks.level(ROW - 0.5, class_="grid-line")]
    for span in lane.spans:
        until = span.until or max(now, span.at)
        class_ = f"fill-{span.colour}" + ("" if span.until else " open")
        says = _told(span, spelling.length(until - span.at))
        parts.append(
            marks.bar(place(span.at), place(until), y=(ROW - THICK) / 2, height=THICK, class_=class_, says=says),
        )
    parts += [
        marks.dot(place(each.at), ROW / 2, class_=f"fill-{each.colour}", says=_told(each, "")) for each in lane.moments
    ]
    if lane.deadline is not None and lane.deadline <= last:
        says = f"ends by {spelling.exact(lane.deadline)}"
        parts.append(marks.upright(place(lane.deadline), 3, ROW - 3, class_="deadline", says=says))
    return parts


def _told(span: Span, took: str) -> str:
    return ", ".join(part for part in (span.says, took, spelling.exact(span.at)) if part)
