"""A timeline: rows with a name, what happened on a common axis of time, and how long it took.

Names and lengths are text beside the drawing, not inside it, so that they stay readable however narrow the page is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from ferryman.dashboard.pictures.svg import element, title
from ferryman.dashboard.spelling import length

WIDTH, HEIGHT = 1000.0, 18.0
THIN, THICK = 4.0, 12.0
LEAST = 2.0  # so wide is even the shortest span
MARK = 3.0


class Span(NamedTuple):
    """A stretch of time; a thin one is a wait."""

    begin: datetime
    end: datetime
    colour: str
    says: str
    thin: bool = False


class Mark(NamedTuple):
    """A moment."""

    at: datetime
    colour: str
    says: str


class Row(NamedTuple):
    """One row: its name, what is drawn in it, and what is said behind it."""

    name: str
    spans: Sequence[Span] = ()
    marks: Sequence[Mark] = ()
    note: str = ""


def timeline(rows: Sequence[Row], *, begin: datetime, end: datetime, says: str) -> Markup:
    """Return the rows on one axis from begin to end, with the length of the axis below."""
    whole = max((end - begin).total_seconds(), 0.001)

    def place(at: datetime) -> float:
        return min(1.0, max(0.0, (at - begin).total_seconds() / whole)) * WIDTH

    items = [_row(row, place) for row in rows]
    axis = element(
        "li",
        element("span"),
        element("span", *(element("span", text) for text in ticks(end - begin)), class_="axis ticks"),
        element("span"),
        aria_hidden="true",
    )
    return element("ol", *items, axis, class_="timeline", aria_label=says)


def ticks(whole: timedelta, parts: int = 4) -> list[str]:
    """Return what stands below the axis: how long after the beginning."""
    return ["0", *(length(whole * part / parts) for part in range(1, parts + 1))]


def _row(row: Row, place: Callable[[datetime], float]) -> Markup:
    shapes = [_span(span, place(span.begin), place(span.end)) for span in row.spans]
    for mark in row.marks:
        left = max(0.0, place(mark.at) - MARK / 2)
        shapes.append(_bar(mark.says, mark.colour, x=left, y=1.0, width=MARK, height=HEIGHT - 2))
    says = "; ".join([*(span.says for span in row.spans), *(mark.says for mark in row.marks)])
    picture = element(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=says or row.name,
    )
    return element(
        "li",
        element("span", row.name, class_="name", title=row.name),
        picture,
        element("span", row.note, class_="took"),
    )


def _span(span: Span, left: float, right: float) -> Markup:
    high = THIN if span.thin else THICK
    wide = max(LEAST, right - left)
    return _bar(span.says, span.colour, x=min(left, WIDTH - LEAST), y=(HEIGHT - high) / 2, width=wide, height=high)


def _bar(says: str, colour: str, **places: float) -> Markup:
    return element("rect", title(says), class_=f"fill-{colour}", **places)
