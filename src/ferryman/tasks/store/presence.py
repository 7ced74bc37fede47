"""Who works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many

_BEAT = load("ferryman.tasks", "workers/beat")
_LEAVE = load("ferryman.tasks", "workers/leave")
_WORKERS = load("ferryman.tasks", "workers/list")


async def beat(tx: Tx, **worker: Any) -> None:
    """Say that a worker lives."""
    await many(tx, _BEAT, **worker)


async def leave(tx: Tx, boot_id: UUID) -> None:
    """Say that a worker goes."""
    await many(tx, _LEAVE, boot_id=boot_id)


async def workers(tx: Tx) -> Sequence[Row]:
    """Read who works, and who went without a word in the last day."""
    return await many(tx, _WORKERS)
