"""Five ways to cut a window into slices (I3).

Each is a pure function of the window and its parameters: the same gives the same cuts, in the same order, without gap or
overlap. Time and ids are counted as whole numbers (microseconds, ids), so that no rounding can open a gap. What has no order
(opaque landmarks) has no numbers, and no cursor follows it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from ferryman.ingest.model import Cut
from ferryman.ingest.rules import keys
from ferryman.ingest.rules.refusal import Refused
from ferryman.ingest.window import START, Window

TIME, ID_RANGE, CURSOR_LANDMARK, VOLUME_BUDGET, HYBRID = (
    "TIME",
    "ID_RANGE",
    "CURSOR_LANDMARK",
    "VOLUME_BUDGET",
    "HYBRID",
)
STRATEGIES = (TIME, ID_RANGE, CURSOR_LANDMARK, VOLUME_BUDGET, HYBRID)
MOST = 10_000
LEAST_STEP = timedelta(minutes=1)

_MICROSECOND = timedelta(microseconds=1)


def window(cut: Cut) -> Window | None:
    """Return the span of time of a cut, if it is one of time."""
    if cut.dimension != "time" or cut.lower is None or cut.upper is None:
        return None
    return Window(keys.moment(cut.lower), keys.moment(cut.upper))


def of_time(lower: int, upper: int, *, estimate: int | None = None, start: str = START) -> Cut:
    """Return a cut of time."""
    bounds = keys.instant(keys.moment(lower)), keys.instant(keys.moment(upper))
    return Cut("time", *bounds, lower, upper, estimate, start)


def of_ids(lower: int, upper: int, *, estimate: int | None = None, start: str = START) -> Cut:
    """Return a cut of ids."""
    return Cut("id", lower, upper, lower, upper, estimate, start)


def cut(strategy: str, *, lower: int | None, upper: int | None, params: Mapping[str, Any]) -> list[Cut]:
    """Cut what lies between two numbers, or between landmarks, in the way named."""
    if strategy == CURSOR_LANDMARK:
        return by_landmark(lower, upper, params.get("landmarks"))
    if lower is None or upper is None or lower >= upper:
        raise Refused("window", "a window that ends after it begins", f"{lower} to {upper}")
    match strategy:
        case "TIME":
            return by_time(lower, upper, step=_step(params))
        case "ID_RANGE":
            return by_id(lower, upper, size=_whole(params, "size", 500))
        case "VOLUME_BUDGET":
            return by_volume(lower, upper, most=_whole(params, "max_items"), expected=_expected(params, lower, upper))
        case "HYBRID":
            expected = _expected(params, lower, upper)
            return by_both(lower, upper, step=_step(params), most=_whole(params, "max_items"), expected=expected)
    raise Refused("strategy", f"one of {', '.join(STRATEGIES)}", repr(strategy))


def by_time(lower: int, upper: int, *, step: int) -> list[Cut]:
    """Cut into steps of one length; the last may be shorter."""
    _few(math.ceil((upper - lower) / step))
    return [of_time(at, min(at + step, upper)) for at in range(lower, upper, step)]


def by_id(lower: int, upper: int, *, size: int) -> list[Cut]:
    """Cut into ranges of as many ids."""
    _few(math.ceil((upper - lower) / size))
    return [of_ids(at, min(at + size, upper), estimate=min(size, upper - at)) for at in range(lower, upper, size)]


def by_landmark(lower: int | None, upper: int | None, landmarks: Any) -> list[Cut]:
    """Cut at landmarks: instants inside the window, or opaque marks of which each begins a slice and ends the one before."""
    if (
        not isinstance(landmarks, Sequence)
        or isinstance(landmarks, str)
        or not all(isinstance(m, str) for m in landmarks)
    ):
        raise Refused("params.landmarks", "a list of instants or marks", repr(landmarks))
    _few(len(landmarks) + 1)
    if lower is not None and upper is not None:
        inside = sorted({number for each in landmarks if lower < (number := _number(each)) < upper})
        marks = [lower, *inside, upper]
        return [of_time(first, last) for first, last in pairwise(marks)]
    if len(landmarks) < 2 or len(set(landmarks)) < len(landmarks):
        raise Refused("params.landmarks", "two marks or more, each once", repr(landmarks))
    return [Cut("landmark", a, b, start=f"token:{a}") for a, b in pairwise(landmarks)]


def by_volume(lower: int, upper: int, *, most: int, expected: Sequence[tuple[int, int]]) -> list[Cut]:
    """Cut so that about `most` records are expected in each slice.

    `expected` says how many come from each instant on, until the next one said; inside such a part they lie evenly.
    """
    cuts: list[Cut] = []
    begun, held = lower, 0.0
    for at, until, count in _parts(lower, upper, expected):
        pieces = min(max(1, math.ceil(count / most)), until - at)
        if at > begun and held + count / pieces > most:
            cuts.append(of_time(begun, at, estimate=math.ceil(held)))
            begun, held = at, 0.0
        for piece in range(1, pieces + 1):
            end = until if piece == pieces else at + (until - at) * piece // pieces
            held += count / pieces
            if piece < pieces and end > begun:
                cuts.append(of_time(begun, end, estimate=math.ceil(held)))
                begun, held = end, 0.0
        _few(len(cuts))
    return [*cuts, of_time(begun, upper, estimate=math.ceil(held))]


def by_both(lower: int, upper: int, *, step: int, most: int, expected: Sequence[tuple[int, int]]) -> list[Cut]:
    """Cut by time first, and each step by volume: no slice is longer than a step, nor expected to hold more."""
    parts = list(_parts(lower, upper, expected))
    cuts: list[Cut] = []
    for part in by_time(lower, upper, step=step):
        assert part.lower is not None
        assert part.upper is not None
        shares = [
            (max(at, part.lower), round(count * _share(at, until, part.lower, part.upper)))
            for at, until, count in parts
            if at < part.upper and until > part.lower
        ]
        cuts += by_volume(part.lower, part.upper, most=most, expected=shares)
        _few(len(cuts))
    return cuts


def bisect(cut: Cut) -> list[Cut]:
    """Return the two halves, or the cut itself where it cannot be halved."""
    if cut.lower is None or cut.upper is None or not divisible(cut):
        return [cut]
    middle = (cut.lower + cut.upper) // 2
    make = of_time if cut.dimension == "time" else of_ids
    half = None if cut.estimate is None else math.ceil(cut.estimate / 2)
    return [make(cut.lower, middle, estimate=half), make(middle, cut.upper, estimate=half)]


def divisible(cut: Cut) -> bool:
    """Say whether both halves would be worth a slice: a minute of time, an id."""
    if cut.lower is None or cut.upper is None:
        return False
    least = LEAST_STEP // _MICROSECOND if cut.dimension == "time" else 1
    return cut.upper - cut.lower >= 2 * least


def read(spec: Mapping[str, Any], *, lower: int | None, upper: int | None, estimate: int | None = None) -> Cut:
    """Return the cut of a stored slice."""
    return Cut(spec["dimension"], spec["from"], spec["to"], lower, upper, estimate, spec.get("start", START))


def _parts(lower: int, upper: int, expected: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    marks = [*(at for at, _ in expected), upper]
    found = [
        (max(at, lower), min(until, upper), count)
        for (at, count), until in zip(expected, marks[1:], strict=True)
        if until > lower and at < upper
    ]
    return found or [(lower, upper, 0)]


def _share(at: int, until: int, lower: int, upper: int) -> float:
    return (min(until, upper) - max(at, lower)) / (until - at)


def _expected(params: Mapping[str, Any], lower: int, upper: int) -> list[tuple[int, int]]:
    said = params.get("estimate")
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return [(lower, said)]
    expected = "how many records, or a list of [instant, count]"
    if not isinstance(said, Sequence) or isinstance(said, str) or not said:
        raise Refused("params.estimate", expected, repr(said))
    try:
        told = [(_number(at), int(count)) for at, count in said]
    except (TypeError, ValueError) as wrong:
        raise wrong if isinstance(wrong, Refused) else Refused("params.estimate", expected, repr(said)[:80]) from None
    if any(count < 0 for _, count in told):
        raise Refused("params.estimate", "counts of 0 or more", repr(said)[:80])
    sums: Counter[int] = Counter()
    for at, count in told:
        sums[at] += count
    parts = sorted(sums.items())
    if parts[0][0] > lower:
        parts.insert(0, (lower, 0))
    if parts[-1][0] >= upper:
        parts = [part for part in parts if part[0] < upper]
    return parts


def _step(params: Mapping[str, Any]) -> int:
    said = params.get("step_seconds", 3600)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said > 0:
        raise Refused("params.step_seconds", "seconds above 0", repr(said))
    return max(1, round(said * 1_000_000))


def _whole(params: Mapping[str, Any], name: str, default: int | None = None) -> int:
    said = params.get(name, default)
    if isinstance(said, bool) or not isinstance(said, int) or said < 1:
        raise Refused(f"params.{name}", "a whole number above 0", repr(said))
    return said


def _number(text: Any) -> int:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise Refused("params", "an instant with its offset, such as 2026-01-01T00:00:00Z", repr(text)) from None
    if at.tzinfo is None:
        raise Refused("params", "an instant with its offset, such as 2026-01-01T00:00:00Z", repr(text))
    return keys.number(at)


def _few(count: int) -> None:
    if count > MOST:
        raise Refused("window", f"at most {MOST} slices; take a longer step or a shorter window", f"{count}")
