"""A bar in parts: which share each kind has of a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from ferryman.dashboard.pictures.svg import drawing, element, title

WIDTH, HEIGHT = 400.0, 8.0


class Part(NamedTuple):
    """One part: its name, its colour and its size."""

    name: str
    colour: str
    size: float


def share(parts: Sequence[Part], *, whole: float | None = None, says: str) -> Markup:
    """Return the bar; what the parts leave of the whole stays empty."""
    total = max(sum(part.size for part in parts), whole or 0.0) or 1.0
    left = 0.0
    shapes = [element("rect", x=0, y=0, width=WIDTH, height=HEIGHT, class_="fill-line")]
    for part in parts:
        wide = part.size / total * WIDTH
        if wide:
            text = title(f"{part.name}: {part.size:g}")
            shapes.append(element("rect", text, x=left, y=0, width=wide, height=HEIGHT, class_=f"fill-{part.colour}"))
        left += wide
    return drawing(*shapes, width=WIDTH, height=HEIGHT, class_="share", says=says)
