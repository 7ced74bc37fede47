"""A half-open span of time, in UTC; and the position at which every slice begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

START = "start"


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """From (inclusive) until (exclusive): a time equal to `until` belongs to the next window."""

    since: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        """How long it is; not above zero when it is empty or reversed."""
        return self.until - self.since

    def holds(self, at: datetime) -> bool:
        """Say whether a time lies in it."""
        return self.since <= at < self.until
