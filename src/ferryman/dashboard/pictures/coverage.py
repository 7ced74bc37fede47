"""The coverage of a plan: its window from left to right, what of it is there, what is under way, where nothing is.

Each slice is a block as wide as its part of the window, filled as far as it is covered. What no slice holds is a gap. The
cursor is the line before which nothing is missing. A slice that was cut anew is left out: those in its place are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ferryman.dashboard import names, spelling
from ferryman.dashboard.pictures import axis, marks
from ferryman.dashboard.pictures.axis import Tick
from ferryman.dashboard.pictures.colours import colour
from ferryman.ingest.intake.survey import TIME, Extent, SliceRow
from ferryman.ingest.rules import keys

HEAD, THICK, FOOT = 20, 34, 26
# More blocks than a bar has room for are drawn as one where they are alike.
BLOCKS_MAX = 400


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the window: from, to, as far as it is covered, what it is."""

    lower: int
    upper: int
    covered: int
    state: str
    says: str
    quarantined: int = 0
    href: str | None = None


def draw(extent: Extent, slices: Sequence[SliceRow]) -> Markup:
    """Return the bar of a plan; one whose slices have no order is a row of equal blocks."""
    lower, upper = extent.lower, extent.upper
    ordered = lower is not None and upper is not None
    found = blocks(slices) if ordered else _equal(slices)
    first, last = (lower, upper) if lower is not None and upper is not None else (0, max(1, len(found)))
    whole = last - first

    def share(at: int) -> float:
        return (at - first) / whole

    height = HEAD + THICK + FOOT
    parts = [marks.bar(0, 1, y=HEAD, height=THICK, class_="gap", says="nothing is planned or fetched here")]
    for each in merged(found):
        parts.append(_block(each, share(each.lower), share(each.upper), share(each.covered)))
    parts += _ticks(extent, first, last) if ordered else []
    if ordered and extent.position is not None:
        parts += _cursor(extent, share(extent.position))
    return marks.canvas(parts, height=height, class_="coverage", says=_says(extent, found, whole), role="group")


def blocks(slices: Sequence[SliceRow]) -> list[Block]:
    """Return what stands in the window, from left to right."""
    made = [
        Block(
            each.lower,
            each.upper,
            each.upper if each.task_status == "SUCCEEDED" else each.covered or each.lower,
            each.state,
            _told(each),
            each.quarantined,
            f"/ingest/tasks/{each.id}" if each.task_status else None,
        )
        for each in slices
        if each.lower is not None and each.upper is not None and not each.resliced
    ]
    return sorted(made, key=lambda each: (each.lower, each.upper))


def _equal(slices: Sequence[SliceRow]) -> list[Block]:
    return [
        Block(n, n + 1, n + 1 if each.task_status == "SUCCEEDED" else n, each.state, _told(each), each.quarantined)
        for n, each in enumerate(each for each in slices if not each.resliced)
    ]


def merged(found: Sequence[Block]) -> list[Block]:
    """Return the blocks, neighbours that are alike as one if they are too many."""
    if len(found) <= BLOCKS_MAX:
        return list(found)
    made: list[Block] = []
    for each in found:
        last = made[-1] if made else None
        if last is not None and last.upper == each.lower and last.state == each.state and _full(last) == _full(each):
            covered = each.upper if _full(each) else last.covered
            aside = last.quarantined + each.quarantined
            made[-1] = Block(last.lower, each.upper, covered, last.state, f"slices, {last.state.lower()}", aside)
        else:
            made.append(each)
    return made


def gaps(found: Sequence[Block], *, lower: int, upper: int) -> list[tuple[int, int]]:
    """Return the parts of a window that no block holds."""
    made, at = [], lower
    for each in sorted(found, key=lambda each: each.lower):
        if each.lower > at:
            made.append((at, each.lower))
        at = max(at, each.upper)
    return [*made, (at, upper)] if at < upper else made


def _full(block: Block) -> bool:
    return block.covered >= block.upper


def _block(block: Block, since: float, until: float, covered: float) -> Markup:
    shade = colour(block.state)
    inner = marks.bar(since, until, y=HEAD, height=THICK, class_=f"block pale-{shade}", says=block.says, least=0.001)
    if block.covered > block.lower:
        inner += marks.bar(since, covered, y=HEAD, height=THICK, class_=f"fill-{shade}", says=block.says, least=0.001)
    if block.quarantined:
        says = f"{spelling.number(block.quarantined)} put aside"
        inner += marks.dot((since + until) / 2, HEAD + THICK + 8, class_="fill-red", says=says, radius=3)
    return marks.link(block.href, inner)


def _cursor(extent: Extent, at: float) -> list[Markup]:
    at = min(1.0, max(0.0, at))
    says = f"cursor at {place(extent, extent.position or 0)}"
    return [
        marks.upright(at, HEAD - 4, HEAD + THICK + 4, class_="cursor", says=says),
        marks.words(says, at=at, y=HEAD - 8, class_="cursor", edge=0.3),
    ]


def _ticks(extent: Extent, first: int, last: int) -> list[Markup]:
    ticks: list[Tick]
    if extent.kind == TIME:
        ticks = axis.instants(keys.moment(first), keys.moment(last), most=4)
    else:
        ticks = axis.numbers(first, last, most=4)
    made = []
    for number, tick in enumerate(ticks):
        class_ = "tick spare" if number % 2 else "tick"
        made.append(marks.upright(tick.at, HEAD + THICK, HEAD + THICK + 5, class_="grid-line"))
        made.append(marks.words(tick.says, at=tick.at, y=HEAD + THICK + FOOT - 6, class_=class_, edge=0.12))
    return made


def place(extent: Extent, at: int) -> str:
    """Return a position as people read it."""
    return spelling.exact(keys.moment(at)) if extent.kind == TIME else spelling.number(at)


def _told(each: SliceRow) -> str:
    """Say in words what a slice is and came to."""
    span = names.window(each.spec.get("from"), each.spec.get("to"))
    came = f"{spelling.number(each.items)} records in {spelling.number(each.requests)} requests"
    wrong = f", {each.error_code}" if each.error_code else ""
    return f"slice {each.slice_no}, {each.state.lower()}{wrong}: {span}; {came}"


def _says(extent: Extent, found: Sequence[Block], whole: int) -> str:
    covered = sum(each.covered - each.lower for each in found) / whole
    return f"{covered:.0%} of the window is covered, in {len(found)} slices"
