"""A spark line: how a number went, in the height of a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ferryman.dashboard.pictures.svg import drawing, element, points

WIDTH, HEIGHT, EDGE = 120.0, 28.0, 2.0


def spark(values: Sequence[float], *, says: str) -> Markup:
    """Return the line through values, with the ground below it filled; the highest value touches the top."""
    if not values:
        return drawing(width=WIDTH, height=HEIGHT, class_="spark", says=says)
    top = max(*values, 1) if len(values) > 1 else max(values[0], 1)
    apart = WIDTH / max(1, len(values) - 1)
    places = [(index * apart, HEIGHT - EDGE - value / top * (HEIGHT - 2 * EDGE)) for index, value in enumerate(values)]
    under = [(0.0, HEIGHT), *places, (places[-1][0], HEIGHT)]
    return drawing(
        element("polygon", points=points(under), class_="under"),
        element("polyline", points=points(places), class_="line"),
        width=WIDTH, height=HEIGHT, class_="spark", says=says,
    )  # fmt: skip


def buckets(values: Sequence[int], count: int) -> list[int]:
    """Return the sums of so many equal stretches of a series, the newest last; what does not fill a stretch is the oldest."""
    size = max(1, len(values) // count)
    rest = len(values) - size * count
    return [sum(values[max(0, rest + each * size) : max(0, rest + (each + 1) * size)]) for each in range(count)]
