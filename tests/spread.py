"""Which cases of a large matrix `make test` runs. With EVERY_CASE=1, as every night, all of them run."""

import os
from collections.abc import Iterable, Sequence

EVERY_CASE = bool(os.environ.get("EVERY_CASE"))

# How often a process is killed at one point.
KILLS = 3 if EVERY_CASE else 2


def paired(points: Iterable[str], ends: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each point with one of the ends, taken in turn; with EVERY_CASE, with each of them."""
    if EVERY_CASE:
        return [(point, end) for point in points for end in ends]
    return [(point, ends[number % len(ends)]) for number, point in enumerate(points)]
