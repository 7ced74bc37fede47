"""Columns over time, one kind standing on another: how much ended, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from ferryman.dashboard.pictures.svg import drawing, element

WIDTH, HEIGHT = 600.0, 120.0
GAP = 0.22  # of a column's room
LINES = (0.25, 0.5, 0.75)


class Kind(NamedTuple):
    """One kind of what is counted: its name, its colour, and a count for each stretch of time."""

    name: str
    colour: str
    counts: Sequence[int]


def top(kinds: Sequence[Kind]) -> int:
    """Return the height of the highest column, rounded up to a number that reads well."""
    highest = max((sum(column) for column in zip(*(kind.counts for kind in kinds), strict=True)), default=0)
    size = 1
    while size * 10 <= highest:
        size *= 10
    return next((step * size for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * size >= highest), size * 10)


def columns(kinds: Sequence[Kind], *, says: str) -> Markup:
    """Return the columns, each kind as one shape, the first at the bottom."""
    highest = top(kinds)
    length = len(kinds[0].counts) if kinds else 0
    lines = [element("path", d=f"M0,{HEIGHT * (1 - part)}H{WIDTH}", class_="grid-line") for part in (*LINES, 0.0, 1.0)]
    foot = [0] * length
    shapes = []
    for kind in kinds:
        shapes.append(element("path", d=_shape(kind.counts, foot, highest), class_=f"fill-{kind.colour}"))
        foot = [below + count for below, count in zip(foot, kind.counts, strict=True)]
    return drawing(*lines, *shapes, width=WIDTH, height=HEIGHT, class_="chart", says=says)


def _shape(counts: Sequence[int], foot: Sequence[int], highest: int) -> str:
    room = WIDTH / max(1, len(counts))
    parts = []
    for index, (count, below) in enumerate(zip(counts, foot, strict=True)):
        if count:
            left, wide = index * room + room * GAP / 2, room * (1 - GAP)
            low, high = HEIGHT * (1 - below / highest), HEIGHT * (1 - (below + count) / highest)
            parts.append(f"M{left:.2f},{low:.2f}V{high:.2f}h{wide:.2f}V{low:.2f}z")
    return "".join(parts)


def legend(kinds: Sequence[Kind]) -> Markup:
    """Return the names of the kinds with their colours."""
    return element("ul", *(_named(kind) for kind in kinds), class_="legend")


def _named(kind: Kind) -> Markup:
    dot = element(
        "svg", element("circle", cx=5, cy=5, r=5, class_=f"fill-{kind.colour}"), viewBox="0 0 10 10", aria_hidden="true"
    )
    return element("li", dot, kind.name)
