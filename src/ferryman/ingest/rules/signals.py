"""When a slice should have been cut smaller (I10)."""

from __future__ import annotations

from dataclasses import dataclass

THROTTLED_SHARE = 0.05
THROTTLED_LEAST = 20  # requests, before a share means anything
SECONDS = 1800.0
BYTES = 5 * 1024 * 1024
LATENCY_SECONDS = 3.0
LATENCY_LEAST = 3
DEPTH_FACTOR = 2
SKEW_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Signs:
    """What a run has seen of its slice so far."""

    requests: int = 0
    throttled: int = 0
    seconds: float = 0.0
    largest: int = 0
    latency: float = 0.0  # mean seconds of a request
    pages: int = 0
    estimate: int | None = None  # pages expected
    items: int = 0
    usual: float | None = None  # records of the plan's other slices, in the mean


def suggested(signs: Signs) -> str | None:
    """Return why the slice should be cut smaller, or None."""
    signals = {
        "throttled": signs.requests >= THROTTLED_LEAST and signs.throttled > signs.requests * THROTTLED_SHARE,
        "slow_slice": signs.seconds > SECONDS,
        "large_response": signs.largest > BYTES,
        "slow_requests": signs.requests >= LATENCY_LEAST and signs.latency > LATENCY_SECONDS,
        "page_depth": signs.estimate is not None and signs.pages > DEPTH_FACTOR * signs.estimate,
        "skew": bool(signs.usual) and signs.items > SKEW_FACTOR * (signs.usual or 0),
    }
    return next((name for name, seen in signals.items() if seen), None)
