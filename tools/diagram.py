"""A state diagram as SVG, made of the text that the declarations give (mermaid's `stateDiagram-v2`).

The pages show it where no script runs. States stand in columns, each behind those that lead to it; a move forward
is a curve from side to side, a move back or within a column an arc below. An initial state has a dot before it, a terminal
one a second border. Colours are those of the text around it, so that it is seen by day and by night.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

EDGE = re.compile(r"^\s*(?P<source>\[\*\]|\w+) --> (?P<target>\[\*\]|\w+)(?:: (?P<label>.+))?$")
OUTSIDE = "[*]"

HEIGHT, MARGIN, ROW, BELOW = 36, 36, 92, 44
LETTER, PADDING = 8.4, 28
LABEL = 6.6
GAP = 90
# The colour of the page, by day and by night.
GROUND = "var(--md-default-bg-color, Canvas)"


@dataclass(frozen=True)
class Edge:
    """One arrow."""

    source: str
    target: str
    label: str


@dataclass(frozen=True)
class Box:
    """Where a state stands."""

    x: float
    y: float
    width: float
    layer: int

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + HEIGHT / 2


def draw(text: str, *, title: str) -> str:
    """Return the diagram as one SVG element, without a blank line in it."""
    edges = [
        Edge(found["source"], found["target"], found["label"] or "")
        for line in text.splitlines()
        if (found := EDGE.match(line))
    ]
    moves = [each for each in edges if OUTSIDE not in (each.source, each.target)]
    first = [each.target for each in edges if each.source == OUTSIDE]
    last = {each.source for each in edges if each.target == OUTSIDE}
    boxes = _place(_layers(moves, first, last), moves)
    backward = [each for each in moves if boxes[each.source].layer >= boxes[each.target].layer]
    floor = max(box.y for box in boxes.values()) + HEIGHT
    width = max(box.x + box.width for box in boxes.values()) + MARGIN
    height = floor + MARGIN + BELOW * min(len(backward), 3)
    parts = [
        f'<svg class="machine" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img"'
        f' aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg"'
        ' font-family="inherit" font-size="14" fill="none" stroke="currentColor">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor" stroke="none"/></marker></defs>',
        *(_forward(each, boxes, number) for number, each in enumerate(moves) if each not in backward),
        *(_back(each, boxes, number) for number, each in enumerate(backward)),
        *(_state(name, box, first=name in first, last=name in last) for name, box in boxes.items()),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _layers(moves: Sequence[Edge], first: Sequence[str], last: set[str]) -> Mapping[str, int]:
    """Say in which column each state stands: behind those that lead to it and were named before; ends behind all others."""
    named = list(dict.fromkeys([*first, *(name for each in moves for name in (each.source, each.target))]))
    live = [name for name in named if name not in last]
    layers: dict[str, int] = {}
    for name in live:
        before = [layers[each.source] + 1 for each in moves if each.target == name and each.source in layers]
        layers[name] = max(before, default=0)
    behind = max(layers.values(), default=-1) + 1
    return layers | dict.fromkeys((name for name in named if name in last), behind)


def _central(names: Sequence[str], layers: Mapping[str, int], moves: Sequence[Edge]) -> list[str]:
    """Put into the middle what only neighbours lead to: a way that passes a column goes above or below it."""

    def passing(name: str) -> int:
        return sum(layers[name] - layers[each.source] > 1 for each in moves if each.target == name)

    ordered: list[str] = []
    for number, name in enumerate(sorted(names, key=passing)):
        ordered.insert(len(ordered) if number % 2 else 0, name)
    return ordered


def _place(layers: Mapping[str, int], moves: Sequence[Edge]) -> dict[str, Box]:
    columns: dict[int, list[str]] = {}
    for name, layer in layers.items():
        columns.setdefault(layer, []).append(name)
    tallest = max(len(names) for names in columns.values())
    boxes, x = {}, float(MARGIN)
    for layer in sorted(columns):
        names = _central(columns[layer], layers, moves)
        width = max(len(name) for name in names) * LETTER + PADDING
        above = MARGIN + (tallest - len(names)) * ROW / 2
        for row, name in enumerate(names):
            boxes[name] = Box(x, above + row * ROW, width, layer)
        labels = [len(each.label) for each in moves if layers[each.source] == layer]
        x += width + max(GAP, max(labels, default=0) * LABEL + 40)
    return boxes


def _state(name: str, box: Box, *, first: bool, last: bool) -> str:
    shape = f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="8" fill="{GROUND}"/>'
    inner = (
        f'<rect x="{box.x + 3:.0f}" y="{box.y + 3:.0f}" width="{box.width - 6:.0f}" height="{HEIGHT - 6}" rx="5"/>'
        if last
        else ""
    )
    dot = _beginning(box) if first else ""
    text = _text(name, box.x + box.width / 2, box.middle + 5)
    return shape + inner + dot + text


def _beginning(box: Box) -> str:
    """Draw a dot and an arrow: from the side, or from above where another state stands beside it."""
    if box.layer == 0:
        dot, way = (box.x - 26, box.middle), f"M{box.x - 21:.0f} {box.middle:.0f}H{box.x:.0f}"
    else:
        dot, way = (box.x + 12, box.y - 24), f"M{box.x + 12:.0f} {box.y - 19:.0f}V{box.y:.0f}"
    return f'<circle cx="{dot[0]:.0f}" cy="{dot[1]:.0f}" r="5" fill="currentColor"/>' + _path(way)


def _forward(edge: Edge, boxes: Mapping[str, Box], number: int) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x1, y1, x2, y2 = source.x + source.width, source.middle, target.x, target.middle
    bend = (x2 - x1) / 2
    if target.layer - source.layer > 1 and y1 != y2:
        # Past a column: first up or down, then along.
        x1, y1 = source.x + source.width / 2, source.y + (HEIGHT if y2 > y1 else 0)
        path = _path(f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y2:.0f} {x1 + bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}")
        return path + _text(edge.label, x1 + (x2 - x1) * 0.45, y2 - 5 if y2 < y1 else y2 + 15, small=True)
    path = _path(f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}")
    # Not all in the middle: curves to neighbours cross there.
    share = 0.5 if y1 == y2 else (0.62, 0.7, 0.55)[number % 3]
    rise = 3 * share**2 - 2 * share**3
    return path + _text(edge.label, x1 + (x2 - x1) * share, y1 + (y2 - y1) * rise - 5, small=True)


def _path(way: str) -> str:
    return f'<path d="{way}" marker-end="url(#tip)"/>'


def _back(edge: Edge, boxes: Mapping[str, Box], number: int) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x1, x2 = source.x + source.width / 2, target.x + target.width / 2
    if source.layer == target.layer:
        x1, x2 = x1 + 8, x2 - 8
    y1, y2 = source.y + HEIGHT, target.y + HEIGHT
    depth = max(y1, y2) + BELOW * (1 + number % 3)
    path = _path(f"M{x1:.0f} {y1:.0f}C{x1:.0f} {depth:.0f} {x2:.0f} {depth:.0f} {x2:.0f} {y2:.0f}")
    return path + _text(edge.label, (x1 + x2) / 2, (y1 + y2) / 8 + depth * 0.75 - 4, small=True)


def _text(text: str, x: float, y: float, *, small: bool = False) -> str:
    if not text:
        return ""
    # A label keeps the lines behind it away.
    look = f' font-size="12" stroke="{GROUND}" stroke-width="4" paint-order="stroke"' if small else ' stroke="none"'
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" fill="currentColor"{look}>{escape(text)}</text>'
