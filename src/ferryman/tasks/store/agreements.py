"""What is agreed for queues, and who holds their slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ferryman.kernel.db import Row, Tx, load, many, one

_DECLARE = load("ferryman.tasks", "queues/declare")
_ADD = load("ferryman.tasks", "queues/add")
_SET = load("ferryman.tasks", "queues/set")
_PAUSE = load("ferryman.tasks", "queues/pause")
_MARK = load("ferryman.tasks", "queues/mark")
_LIST = load("ferryman.tasks", "queues/list")
_HOLDERS = load("ferryman.tasks", "queues/holders")
_KNOWN = load("ferryman.tasks", "queues/known")
_PAUSE_NAME = load("ferryman.tasks", "queues/pause_name")
_RESUME_NAME = load("ferryman.tasks", "queues/resume_name")
_NAMES = load("ferryman.tasks", "queues/names")
_BOUNDED = load("ferryman.tasks", "queues/bounded")
_IDLE = load("ferryman.tasks", "queues/idle")


async def declare(tx: Tx, queues: Sequence[Mapping[str, Any]]) -> list[str]:
    """Store what an app declares; name the queues for which that is new."""
    return [row["name"] for row in await many(tx, _DECLARE, queues=json.dumps(list(queues)))]


async def add(tx: Tx, name: str, *, tenant: str) -> None:
    """Make sure that there is a row of agreement."""
    await many(tx, _ADD, name=name, tenant=tenant)


async def change(tx: Tx, name: str, *, tenant: str, changes: Mapping[str, Any]) -> None:
    """Change what is agreed."""
    await many(tx, _SET, name=name, tenant=tenant, changes=json.dumps(changes))


async def pause(tx: Tx, name: str, *, tenant: str, paused: bool) -> None:
    """Let nothing of a queue start, or let it start again."""
    await many(tx, _PAUSE, name=name, tenant=tenant, paused=paused)


async def mark(tx: Tx, limit: int) -> Sequence[Row]:
    """Let what lanes have claimed in queues that have limits now hold its slot."""
    return await many(tx, _MARK, limit=limit)


async def agreements(tx: Tx, name: str | None = None) -> Sequence[Row]:
    """Read what is agreed, for one queue or all."""
    return await many(tx, _LIST, name=name)


async def holders(tx: Tx, queue: str, *, tenant: str, limit: int) -> Sequence[Row]:
    """Read who of a tenant holds slots of a queue."""
    return await many(tx, _HOLDERS, queue=queue, tenant=tenant, limit=limit)


async def known(tx: Tx, name: str) -> bool:
    """Tell whether anybody knows a queue."""
    row = await one(tx, _KNOWN, name=name)
    return row is not None and bool(row["known"])


async def pause_name(tx: Tx, name: str, *, paused: bool) -> None:
    """Let no worker take tasks of a handler, or let them take it again."""
    await many(tx, _PAUSE_NAME if paused else _RESUME_NAME, name=name)


async def paused_names(tx: Tx) -> Sequence[Row]:
    """Read which handlers are paused."""
    return await many(tx, _NAMES)


async def bounded(tx: Tx) -> frozenset[str]:
    """Name the queues that bound how much of them is live."""
    return frozenset(row["name"] for row in await many(tx, _BOUNDED))


async def idle(tx: Tx, limit: int, *, patience: timedelta) -> Sequence[Row]:
    """Find gates that have a free slot although something has stood before them for so long."""
    return await many(tx, _IDLE, limit=limit, patience=patience)
