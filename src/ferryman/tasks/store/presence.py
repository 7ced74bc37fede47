"""Who works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one

_BEAT = load("ferryman.tasks", "workers/beat")
_LEAVE = load("ferryman.tasks", "workers/leave")
_WORKERS = load("ferryman.tasks", "workers/list")
_WORKER = load("ferryman.tasks", "workers/get")


async def beat(tx: Tx, *, tenant: str | None = None, **worker: Any) -> None:
    """Say that a worker lives, and works for all tenants or for one."""
    await many(tx, _BEAT, tenant=tenant, **worker)


async def worker(tx: Tx, boot_id: UUID) -> Row | None:
    """Read what one worker last said of itself."""
    return await one(tx, _WORKER, boot_id=boot_id)


async def leave(tx: Tx, boot_id: UUID) -> None:
    """Say that a worker goes."""
    await many(tx, _LEAVE, boot_id=boot_id)


async def workers(tx: Tx) -> Sequence[Row]:
    """Read who works, and who went without a word in the last day."""
    return await many(tx, _WORKERS)
