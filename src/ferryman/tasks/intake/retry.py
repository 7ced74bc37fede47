"""Trying ended tasks anew, by hand (T17)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import ids
from ferryman.kernel.db import Tx
from ferryman.tasks.store import flows


class Retried(NamedTuple):
    """An ended task, and the new one that tries it anew."""

    old: UUID
    new: UUID
    queue: str
    limit_key: str | None


async def retry(tx: Tx, old: Sequence[UUID], *, tenant: str, untried: bool, ends_after: timedelta) -> list[Retried]:
    """Try failed or cancelled tasks of a tenant anew; those that live, succeeded or are being retried are left alone."""
    new = [ids.new_id() for _ in old]
    rows = await flows.retry(tx, old, new, tenant=tenant, untried=untried, ends_after=ends_after)
    return [Retried(row["retry_of"], row["id"], row["queue"], row["limit_key"]) for row in rows]
