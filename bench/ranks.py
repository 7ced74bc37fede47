"""Peers beside each other: a bar for each, on a scale of powers of ten, for they are further apart than others can show.

The picture stands alone, and reads on a light and on a dark page. Each bar carries its number; ours comes first, then the
floor, then the others from the best to the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from bench.bars import FLOOR, OURS, Results, number
from bench.plot import STYLE, WIDTH
from ferryman.dashboard.pictures.svg import element, title

NAMES, NUMBERS = 118.0, 84.0  # room for names on the left and numbers on the right
HEAD, ROW, BAR, FOOT = 40.0, 20.0, 13.0, 12.0
COLOURS = {OURS: "fill-green", FLOOR: "fill-grey"}

PANELS = (
    ("enqueue-one", "enqueue one by one while a worker listens, per second", "enqueue.single_heard", False),
    ("enqueue-flight", "enqueue, 50 in flight while a worker listens, per second", "enqueue.flight_heard", False),
    ("enqueue-bulk", "enqueue in bulk, per second", "enqueue.bulk", False),
    ("drain-one", "drain, one worker, tasks per second", "drain1.rate", False),
    ("drain-two", "drain, two workers, tasks per second", "drain2.rate", False),
    (
        "start",
        "from the return of its create to its start, p50, milliseconds: less is better",
        "latency.start_p50",
        True,
    ),
    (
        "end",
        "from the return of its create to its durable end, p50, milliseconds: less is better",
        "latency.end_p50",
        True,
    ),
    ("join", "fan out 100 and join, milliseconds: less is better", "join.p50", True),
    ("steps", "workflows of ten durable steps, per second", "steps.rate", False),
    ("due", "all due at once: last start, milliseconds per 1,000: less is better", "schedule.last_per_1000", True),
    ("cpu", "CPU of worker and store per task drained, microseconds: less is better", "drain1.cpu", True),
)
# Seconds per 10,000, told as microseconds for one.
SCALES = {"drain1.cpu": 100.0}


class Bar(NamedTuple):
    """One peer's figure."""

    peer: str
    value: float
    says: str


def pictures(results: Results) -> dict[str, tuple[str, str]]:
    """Return a picture for each figure that two or more were measured in, and what it shows."""
    drawn = {}
    for name, says, figure, least in PANELS:
        bars = ordered(results, figure, least=least)
        if len(bars) > 1:
            drawn[f"peers-{name}.svg"] = draw(bars, says=says), says
    return drawn


def ordered(results: Results, figure: str, *, least: bool) -> list[Bar]:
    """Ours, the floor, then the others from the best to the last; what is not above nothing cannot be drawn."""
    scale = SCALES.get(figure, 1.0)
    found = {peer: scale * (results.median(figure, peer) or 0.0) for peer in results.values[figure]}
    others = sorted(set(found) - {OURS, FLOOR}, key=lambda peer: found[peer], reverse=not least)
    return [
        Bar(f"{peer}*" if peer in results.fragile else peer, found[peer], number(found[peer]))
        for peer in (OURS, FLOOR, *others)
        if found.get(peer, 0.0) > 0
    ]


def draw(bars: Sequence[Bar], *, says: str) -> str:
    """Return a picture of bars that begin at a power of ten below all of them."""
    height = HEAD + ROW * len(bars) + FOOT
    reach = WIDTH - NAMES - NUMBERS
    lengths = spread([bar.value for bar in bars])
    parts: list[Markup] = [
        element("style", STYLE),
        element("rect", class_="ground", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=6),
        element("text", says, class_="title", x=12, y=24),
    ]
    for row, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        top, colour = HEAD + ROW * row, COLOURS.get(bar.peer, "fill-blue")
        parts += [
            element("text", bar.peer, x=NAMES - 8, y=top + BAR - 2, text_anchor="end"),
            element("rect", class_=colour, x=NAMES, y=top, width=max(1.0, reach * length), height=BAR, rx=2),
            element("text", bar.says, x=NAMES + max(1.0, reach * length) + 6, y=top + BAR - 2),
        ]
    drawn = element(
        "svg", title(says), *parts,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {height:g}", width=WIDTH, height=height, role="img",
    )  # fmt: skip
    return f"{drawn}\n"


def spread(values: Sequence[float]) -> list[float]:
    """Return how long each bar is, from 0 to 1: a power of ten has the same length everywhere."""
    low = math.floor(math.log10(min(values)) - 0.2)
    high = math.log10(max(values))
    return [(math.log10(value) - low) / (high - low) for value in values]


def told(shown: Mapping[str, tuple[str, str]], folder: str) -> list[str]:
    """Return the lines that show the pictures."""
    if not shown:
        return []
    return [
        "Medians; a step to the right of the same length is always the same factor.",
        *(f"![{says[0].upper()}{says[1:]}]({folder}/{name})" for name, (_, says) in shown.items()),
    ]
