"""What the planner makes of a task that ended with something left (I7, I10)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import slicing
from ferryman.kernel import errors

BISECT, REMAINDER, NONE = "bisect", "remainder", "none"
# Halved so often, a slice is as small as it gets: 1/256 of what the strategy made.
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """One of three words, and the slices that stand in the old one's place."""

    word: str
    cuts: tuple[Cut, ...] = ()


def decide(
    cut: Cut, *, code: str | None, covered: int | None, after: str | None, has_next: bool | None, depth: int
) -> Decision:
    """Decide about what remains: halved where the slice was unwieldy, in one piece where only the budget was short.

    What an ordered source has covered is not fetched again. A remainder goes on where the last good page led.
    """
    if has_next is False:
        return Decision(NONE)
    left = _left(cut, covered)
    if code == errors.IngestReslice.code and depth < DEEPEST and slicing.divisible(left):
        return Decision(BISECT, tuple(slicing.bisect(left)))
    if code == errors.IngestBatchFailed.code:
        # A page that cannot be had fails in whatever slice it lies: halving finds it, until the depth is used up.
        if depth < DEEPEST and slicing.divisible(left):
            return Decision(BISECT, tuple(slicing.bisect(left)))
        return Decision(NONE)
    if after is None:
        return Decision(NONE)
    return Decision(REMAINDER, (replace(cut, start=after),))


def can_divide(cut: Cut, *, covered: int | None, depth: int) -> bool:
    """Say whether stopping a run early would help."""
    return depth < DEEPEST and slicing.divisible(_left(cut, covered))


def _left(cut: Cut, covered: int | None) -> Cut:
    if covered is None or cut.upper is None or cut.lower is None or not cut.lower < covered < cut.upper:
        return cut
    make = slicing.of_time if cut.dimension == "time" else slicing.of_ids
    return make(covered, cut.upper, estimate=cut.estimate)
