"""Strokes of pictures that are as wide as their place.

What stands side by side is put in percent, what stands below each other in pixels, so that bars grow and letters do not.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from ferryman.dashboard.pictures.axis import Tick
from ferryman.dashboard.pictures.svg import element
from ferryman.dashboard.pictures.svg import title as pointed

EDGE = 0.06  # nearer to an end than this a text stands beside its place, not over it
TICK_EDGE = 0.13  # on a phone an axis has room for some five of its numbers


def percent(share: float) -> str:
    """Return a share as a length of SVG, kept inside the picture."""
    return f"{min(1.0, max(0.0, share)) * 100:.3f}".rstrip("0").rstrip(".") + "%"


def canvas(parts: Iterable[Markup], *, height: float, class_: str, says: str, role: str = "img") -> Markup:
    """Return a picture; `says` is what it tells those who do not see it. One that has links inside is a group."""
    return element("svg", *parts, class_=f"picture {class_}", role=role, aria_label=says, width="100%", height=height)


def room(parts: Iterable[Markup], *, x: float, y: float, width: float, height: float) -> Markup:
    """Return a part of a picture from one share of its width on; what is too long for it is cut off."""
    return element("svg", *parts, x=percent(x), y=y, width=percent(width), height=height)


def bar(
    since: float, until: float, *, y: float, height: float, class_: str, says: str = "", least: float = 0.004
) -> Markup:
    """Return a bar between two shares, never too thin to be seen."""
    begin = min(1 - least, max(0.0, since))
    wide = max(least, min(1.0, until) - begin)
    return element("rect", title(says), class_=class_, x=percent(begin), y=y, width=percent(wide), height=height, rx=2)


def dot(x: float | str, y: float, *, class_: str, says: str = "", radius: float = 4) -> Markup:
    """Return a dot; `x` is a share, or a length of SVG."""
    place = x if isinstance(x, str) else percent(x)
    return element("circle", title(says), class_=class_, cx=place, cy=y, r=radius)


def upright(x: float, y: float, until: float, *, class_: str, says: str = "") -> Markup:
    """Return a vertical line at a share of the width."""
    return element("line", title(says), class_=class_, x1=percent(x), x2=percent(x), y1=y, y2=until)


def level(y: float, *, class_: str) -> Markup:
    """Return a line across the picture."""
    return element("line", class_=class_, x1="0", x2="100%", y1=y, y2=y)


def words(text: str, *, at: float, y: float, class_: str, edge: float = EDGE) -> Markup:
    """Return a text at a share of the width; near an end it stays inside."""
    anchor = "start" if at < edge else "end" if at > 1 - edge else "middle"
    return element("text", text, class_=class_, x=percent(at), y=y, text_anchor=anchor)


def title(says: str) -> Markup:
    """Return what is shown to who points at something."""
    return pointed(says) if says else Markup()


def link(href: str | None, parts: Markup) -> Markup:
    """Return something that leads to a page of ours, if there is one."""
    return parts if href is None else element("a", parts, href=href)


def scale(ticks: Iterable[Tick], *, y: float, until: float) -> list[Markup]:
    """Return the lines and numbers of an axis."""
    made = []
    for tick in ticks:
        made.append(upright(tick.at, y, until, class_="grid-line"))
        made.append(words(tick.says, at=tick.at, y=y - 4, class_="tick", edge=TICK_EDGE))
    return made
