"""How fast a source may be asked, as arithmetic (I9).

A rate grows by a step for every second in which all that it allowed went well, and is halved when the source says that it is
too fast or cannot answer: additive increase, multiplicative decrease. Below one request a second each good one adds a step, so
that the way back from the floor does not take minutes. So the rate finds the edge of what the source bears, whatever was
agreed, and comes back by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from ferryman.kernel import errors
from ferryman.tasks.rules import queue

FLOOR = 0.1
# Of a source that declares no rate: as fast as it answers, within reason, and slower when it asks for it.
UNSAID = 100.0
STEP_SHARE = 0.05
FASTEST = 100_000.0
BURST_MAX = 100_000
PATIENCE = timedelta(hours=6)
TOO_MANY = 429
SERVER_ERRORS = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """What is agreed for a gate: requests per second at best and at worst, how many at one moment, the step of recovery.

    `patience` is the longest wait that whoever asks is told to sit out; beyond it the gate rejects.
    """

    top: float = 1.0
    burst: int = 1
    floor: float = FLOOR
    step: float = STEP_SHARE
    patience: timedelta = PATIENCE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.top) and 0 < self.top <= FASTEST):
            raise refusal("rate", f"above 0 and at most {FASTEST:g} a second", f"{self.top:g} a second")
        if type(self.burst) is not int or not 1 <= self.burst <= BURST_MAX:
            raise refusal("burst", f"a whole number from 1 to {BURST_MAX}", ascii(self.burst)[:60])
        if not 0 < self.floor <= self.top:
            raise refusal("floor", "above 0 and at most the rate", f"{self.floor:g} a second")
        if not (math.isfinite(self.step) and self.step > 0):
            raise refusal("step", "above 0", f"{self.step:g}")
        if self.patience < timedelta(0):
            raise refusal("patience", "0 or longer", str(self.patience))


def agree(rate: object = None, *, burst: int | None = None, patience: timedelta = PATIENCE) -> Pace:
    """Read a pace as people write it: `"10/s"`, `"100/minute"`; a hundred a second if nobody says."""
    try:
        read = queue.read_rate(f"{UNSAID:.0f}/s" if rate is None else rate)
    except errors.QueueInvalid as wrong:
        raise errors.IngestInvalidSource(wrong.message, **wrong.details) from None
    top = read.starts / read.interval.total_seconds()
    return Pace(
        top=top,
        burst=read.burst if burst is None else burst,
        floor=min(FLOOR, top),
        step=top * STEP_SHARE,
        patience=patience,
    )


def is_slow(status: int | None) -> bool:
    """Say whether an answer, or none, means that the source is asked too fast."""
    return status is None or status == TOO_MANY or status >= SERVER_ERRORS


def is_good(status: int | None) -> bool:
    """Say whether an answer shows that this rate is borne; a refusal that has to do with one request shows nothing."""
    return status is not None and 200 <= status < 400


def gain(pace: Pace, rate: float) -> float:
    """Return what one good answer adds to a rate."""
    return pace.step / max(rate, 1.0)


def refusal(field: str, expected: str, got: str) -> errors.IngestInvalidSource:
    """Return the error that says what was expected and what was got."""
    return errors.IngestInvalidSource(f"{field}: expected {expected}, got {got}.", field=field)
