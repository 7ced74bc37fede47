"""How long things may take with agents, and how often they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How long things may take here, and how often they are tried (settings `pmo` and `worker`)."""

    dispatched_retry: timedelta = timedelta(seconds=10)
    dispatched_timeout: timedelta = timedelta(seconds=30)
    active_reap: timedelta = timedelta(seconds=300)
    pending_wakeup: timedelta = timedelta(seconds=5)
    pending_wakeup_skip: timedelta = timedelta(seconds=300)
    inbox_processing_timeout: timedelta = timedelta(seconds=300)
    suspend_timeout: timedelta = timedelta(seconds=30)
    wall_time: timedelta = timedelta(hours=1)
    queued_for: timedelta = timedelta(days=1)
    interval: timedelta = timedelta(seconds=5)  # of PMO's rules
    worker_interval: timedelta = timedelta(seconds=5)  # of the worker's rules, W1 to W4
    lease: timedelta = timedelta(seconds=30)
    ends_after: timedelta = timedelta(days=30)
    max_depth: int = 20
    card_limit: int = 1024 * 1024
    requeue_cap: int = 5

    @property
    def ledger_lease(self) -> timedelta:
        """How long a result may be in hand without a living holder (W3)."""
        return max(timedelta(seconds=5), 2 * self.worker_interval)
