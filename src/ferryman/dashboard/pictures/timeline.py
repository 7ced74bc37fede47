"""A timeline: rows with a name, what happened on a common axis of time, and how long it took.

Names and lengths are text beside the drawing, not inside it, so that they stay readable however narrow the page is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from ferryman.dashboard.pictures.svg import element, title
from ferryman.dashboard.spelling import length

WIDTH, HEIGHT = 1000.0, 18.0
THIN, THICK = 4.0, 12.0
LEAST = 2.0  # so wide is even the shortest span


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


def _row(row: Row, place: object) -> Markup:
    assert callable(place)
    shapes = []
    for span in row.spans:
        left, right = place(span.begin), place(span.end)
        high = THIN if span.thin else THICK
        wide = max(LEAST, right - left)
        shapes.append(
            element(
                "rect", title(span.says), x=min(left, WIDTH - LEAST), y=(HEIGHT - high) / 2, width=wide, height=high,
                class_=f"fill-{span.colour}",
            )  # fmt: skip
        )
    for mark in row.marks:
        at = place(mark.at)
        shapes.append(
            element("rect", title(mark.says), x=max(0.0, at - 1.5), y=1, width=3, height=HEIGHT - 2, class_=f"fill-{mark.colour}")
        )
    says = "; ".join(each.says for each in (*row.spans, *row.marks))
    picture = element(
        "svg", *shapes, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", preserveAspectRatio="none", role="img", aria_label=says or row.name
    )
    return element(
        "li",
        element("span", row.name, class_="name", title=row.name),
        picture,
        element("span", row.note, class_="took"),
    )
