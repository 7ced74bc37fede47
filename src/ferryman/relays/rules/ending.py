"""What becomes of a delivery after a try."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ferryman.kernel.lease import MARGIN
from ferryman.kernel.retry import Backoff
from ferryman.relays.model import Claimed, Outcome

DELIVERED: Final = "delivered"
DEAD: Final = "dead"
AGAIN: Final = "again"
BACK: Final = "back"

# Ten tries take eight and a half hours, most of them in the first two.
PAUSES: Final = Backoff(base=timedelta(seconds=5), factor=3.0, cap=timedelta(hours=4))
GONE: Final = 410
LONGEST: Final = 500


def lease(timeout: timedelta) -> timedelta:
    """Return how long a delivery is held for one call, which is given up after its timeout."""
    return timeout + MARGIN


def answered(claim: Claimed, status: int, *, most: int) -> Outcome:
    """Judge an answer: 2xx took it, 410 never will, anything else may later."""
    if 200 <= status < 300:
        return Outcome(claim.id, claim.epoch, DELIVERED, status)
    if status == GONE:
        return Outcome(claim.id, claim.epoch, DEAD, status, "HTTP 410: the receiver is gone for good")
    led = ": redirects are not followed" if 300 <= status < 400 else ""
    return failed(claim, f"HTTP {status}{led}", status=status, most=most)


def failed(claim: Claimed, why: str, *, most: int, status: int | None = None) -> Outcome:
    """Judge a try that brought no good answer: another one, or the end."""
    if claim.attempts >= most:
        return Outcome(claim.id, claim.epoch, DEAD, status, f"{why} (the last of {most} tries)"[:LONGEST])
    delay = PAUSES.delay(claim.attempts).total_seconds()
    return Outcome(claim.id, claim.epoch, AGAIN, status, why[:LONGEST], delay)


def lost(claim: Claimed, *, most: int) -> Outcome | None:
    """End a delivery whose last try was never answered for, because its sender died; None if a try is left."""
    if claim.attempts <= most:
        return None
    return Outcome(claim.id, claim.epoch, DEAD, None, f"the last of {most} tries was not answered for")
