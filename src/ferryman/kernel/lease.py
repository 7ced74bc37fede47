"""What a claim holds, and for how long (K4, K5).

A lease is an owner, a fencing number and an end by the database's clock. The end is the earlier of
two times: one lease from now, so that a dead worker's claim falls soon; and the attempt's timeout
plus a margin, so that a living worker cannot hold it for ever. One column therefore serves one
sweep. The margin lets the worker end its own attempt before the sweep does.

The statements compute the same in SQL, by the database's clock; this is the rule they are held
to.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ferryman.kernel import errors
from ferryman.kernel.ids import BootId

SHORTEST = timedelta(seconds=2)
MARGIN = timedelta(seconds=5)
RENEWALS = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a row, by which claim, until when."""

    owner: BootId
    epoch: int
    until: datetime

    def held_by(self, owner: BootId, *, epoch: int) -> bool:
        """Say whether a write by this holder may touch the row: both must match."""
        return self.owner == owner and self.epoch == epoch

    def expired(self, *, now: datetime) -> bool:
        """Say whether the sweep may take the row, by the database's clock."""
        return self.until <= now


def until(
    now: datetime,
    *,
    lease: timedelta,
    started: datetime,
    timeout: timedelta,
    margin: timedelta = MARGIN,
) -> datetime:
    """Return when a claim or a renewal made now falls."""
    return min(now + lease, started + timeout + margin)


def renewal(lease: timedelta) -> timedelta:
    """Return how often to renew: two renewals may be lost before the lease is."""
    return lease / RENEWALS


def check(lease: timedelta, *, field: str = "worker.lease") -> timedelta:
    """Return the lease if it is long enough to be renewed in time."""
    if lease < SHORTEST:
        raise errors.SettingsInvalid(
            f"{field}: expected at least {SHORTEST.total_seconds():g} s, got {lease.total_seconds():g} s.",
            field=field,
        )
    return lease
