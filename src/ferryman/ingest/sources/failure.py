"""What an answer that is no page means (I8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from ferryman.ingest.ports import Failure, FetchFailed
from ferryman.ingest.rules import limits

REFUSED = (401, 403)


def failure(
    status: int, headers: Mapping[str, str], *, now: datetime, retry_on: Collection[int] = (), detail: str = ""
) -> FetchFailed:
    """Say what a status other than a good one means for whoever asked."""
    wait = limits.retry_after(headers, now=now)
    quota = limits.quota(headers, now=now)
    if quota is not None and quota.left == 0:
        wait = max(wait or timedelta(0), quota.lasts)
    return FetchFailed(
        f"HTTP {status}{detail}", kind=_kind(status, wait=wait, retry_on=retry_on), status=status, retry_after=wait
    )


def _kind(status: int, *, wait: timedelta | None, retry_on: Collection[int]) -> Failure:
    if status == 429:
        return Failure.SLOW_DOWN
    if status in REFUSED:
        # Some sources refuse who comes too often with the status of who may not come at all, and say when to come back.
        return Failure.AUTH if status == 401 or wait is None else Failure.SLOW_DOWN
    if status >= 500 or status in retry_on:
        return Failure.RETRY
    return Failure.BATCH
