"""Curves as SVG files that stand alone: panels one below the other over one axis, readable on a light and on a dark page.

A panel begins at zero, so that a curve's rise is not magnified. A series is named at its right end, in its own colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from ferryman.dashboard.pictures import axis
from ferryman.dashboard.pictures.svg import element, points, title

WIDTH, LEFT, RIGHT = 660.0, 64.0, 100.0
HEAD, PANEL, GAP, FOOT = 36.0, 120.0, 44.0, 40.0
APART = 13.0  # two names at the right end are at least so far from each other

STYLE = Markup("""
text { font: 12px system-ui, sans-serif; fill: #45525f; }
.title { font-weight: 600; fill: #16202c; }
.ground { fill: #fff; stroke: #dfe3e9; }
.grid { stroke: #dfe3e9; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.blue { stroke: #17589f; } .green { stroke: #14713c; } .amber { stroke: #8a5300; } .grey { stroke: #6b7885; }
.fill-blue { fill: #17589f; } .fill-green { fill: #14713c; } .fill-amber { fill: #8a5300; } .fill-grey { fill: #55616d; }
@media (prefers-color-scheme: dark) {
  text { fill: #b4bfcb; } .title { fill: #e6ebf1; } .ground { fill: #151b23; stroke: #27313d; } .grid { stroke: #27313d; }
  .blue { stroke: #84bbf5; } .green { stroke: #6fcf97; } .amber { stroke: #edb95e; } .grey { stroke: #94a1b0; }
  .fill-blue { fill: #84bbf5; } .fill-green { fill: #6fcf97; } .fill-amber { fill: #edb95e; } .fill-grey { fill: #a9b5c2; }
}
""")


class Series(NamedTuple):
    """A curve: its name, its colour, a value for each place of the axis."""

    name: str
    colour: str
    values: Sequence[float]


class Panel(NamedTuple):
    """Curves of one unit."""

    title: str
    series: Sequence[Series]


def draw(panels: Sequence[Panel], *, places: Sequence[str], below: str, says: str) -> str:
    """Return a picture; an empty place has no number below it."""
    height = HEAD + len(panels) * PANEL + (len(panels) - 1) * GAP + FOOT
    parts = [
        element("style", STYLE),
        element("rect", class_="ground", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=6),
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, top=HEAD + number * (PANEL + GAP))
    for number, place in enumerate(places):
        if place:
            parts.append(
                element("text", place, x=_across(number, len(places)), y=height - FOOT + 16, text_anchor="middle")
            )
    parts.append(element("text", below, x=(LEFT + WIDTH - RIGHT) / 2, y=height - 8, text_anchor="middle"))
    drawn = element(
        "svg", title(says), *parts,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {height:g}", width=WIDTH, height=height, role="img",
    )  # fmt: skip
    return f"{drawn}\n"


def _across(number: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * number / max(1, count - 1)


def _panel(panel: Panel, *, top: float) -> list[Markup]:
    highest = max(max(series.values) for series in panel.series)
    # Round, and not much higher than what is shown.
    step = axis.nice(max(highest, 1e-9) / 4)
    ceiling = step * -(-highest // step) or step

    def down(value: float) -> float:
        return top + PANEL * (1 - value / ceiling)

    made = [element("text", panel.title, class_="title", x=12, y=top - 16)]
    for tick in axis.numbers(0, ceiling, most=4):
        y = top + PANEL * (1 - tick.at)
        made.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        made.append(element("text", tick.says, x=LEFT - 8, y=y + 4, text_anchor="end"))
    below = float("-inf")
    for series in sorted(panel.series, key=lambda each: -each.values[-1]):
        pairs = [(_across(n, len(series.values)), down(value)) for n, value in enumerate(series.values)]
        made.append(element("polyline", class_=f"curve {series.colour}", points=points(pairs)))
        if len(pairs) <= 12:
            made += [element("circle", class_=f"fill-{series.colour}", cx=x, cy=y, r=3) for x, y in pairs]
        below = max(pairs[-1][1] + 4, below + APART)
        made.append(element("text", series.name, class_=f"fill-{series.colour}", x=WIDTH - RIGHT + 8, y=below))
    return made
