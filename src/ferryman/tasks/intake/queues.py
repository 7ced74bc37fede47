"""Queues: what is agreed for them, what waits in them, who holds their slots (T17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids
from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.rules import queue as rules
from ferryman.tasks.store import agreements as agreed

EVERYBODY = "*"
MARK_MAX = 10_000
HOLDERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: what is agreed for all its tenants together, or for one; how much of it waits and runs.

    `held` are the slots in use; `oldest_seconds` is how long the oldest ready task has been due; `open_seconds` is in how
    long the rate allows the next start. What waits and runs is counted for all tenants together.
    """

    name: str
    tenant: str = EVERYBODY
    weight: int = 1
    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None
    max_depth: int | None = None
    at_limit: str = rules.AT_LIMIT[0]
    paused_at: datetime | None = None
    held: int = 0
    open_seconds: float | None = None
    pending: int | None = None
    ready: int | None = None
    running: int | None = None
    oldest_seconds: float | None = None
    declared: bool = True


class Holder(NamedTuple):
    """A task that holds a slot, and until when at the latest if its worker is gone."""

    id: UUID
    task_id: str
    tenant: str
    name: str
    limit_key: str | None
    lease_owner: UUID
    started_at: datetime
    leased_until: datetime


async def change(tx: Tx, name: object, *, tenant: object, new: bool, given: Mapping[str, Any]) -> None:
    """Change what is agreed for a queue, in the caller's transaction; what is not named stays."""
    changes = rules.columns(given)
    queue, whom = await _row(tx, name, tenant, new=new)
    if changes:
        await agreed.change(tx, queue, tenant=whom, changes=changes)
    await agreed.mark(tx, MARK_MAX)


async def pause(tx: Tx, name: object, *, tenant: object, paused: bool) -> None:
    """Let nothing of a queue start from now on, or let it start again; in the caller's transaction."""
    queue, whom = await _row(tx, name, tenant, new=False)
    await agreed.pause(tx, queue, tenant=whom, paused=paused)
    await agreed.mark(tx, MARK_MAX)


async def pause_name(tx: Tx, name: object, *, paused: bool) -> None:
    """Let no worker take tasks of a handler, or let them take it again."""
    await agreed.pause_name(tx, ids.check_name(name, "name"), paused=paused)


async def _row(tx: Tx, name: object, tenant: object, *, new: bool) -> tuple[str, str]:
    queue = ids.check_name(name, "queue")
    whom = EVERYBODY if tenant in (None, EVERYBODY) else ids.check_name(tenant, "tenant")
    if not new and not await agreed.known(tx, queue):
        raise unknown(queue)
    await agreed.add(tx, queue, tenant=whom)
    return queue, whom


def unknown(name: str) -> errors.UnknownQueue:
    """Say that nobody knows a queue."""
    return errors.UnknownQueue(f"Nobody knows a queue named {name}.", queue=name)


async def read(tx: Tx, name: object = None) -> list[Queue]:
    """Read what is agreed and what is live, for one queue that somebody knows, or for all."""
    queue = None if name is None else ids.check_name(name, "queue")
    rows = await agreed.agreements(tx, queue)
    counts: dict[str, dict[str, Any]] = {}
    for row in await store.queues(tx):
        live = counts.setdefault(row["queue"], {"pending": 0, "ready": 0, "running": 0})
        live[row["state"]] = row["count"]
        if row["state"] == "ready":
            live["oldest_seconds"] = max(0.0, row["oldest_seconds"])
    known = [_queue(row, counts.get(row["name"])) for row in rows]
    named = {each.name for each in known}
    others = sorted(each for each in counts if each not in named and queue in (None, each))
    known += [Queue(each, declared=False, **counts[each]) for each in others]
    if queue is not None and not known:
        if not await agreed.known(tx, queue):
            raise unknown(queue)
        known = [Queue(queue, pending=0, ready=0, running=0, declared=False)]
    return sorted(known, key=lambda each: (each.name, each.tenant))


def _queue(row: Row, live: Mapping[str, Any] | None) -> Queue:
    rate = None if row["rate_count"] is None else str(rules.Rate(row["rate_count"], row["rate_interval"]))
    counted = (live or {"pending": 0, "ready": 0, "running": 0}) if row["tenant"] == EVERYBODY else {}
    return Queue(
        row["name"], row["tenant"], row["weight"], row["concurrency"], row["key_concurrency"], rate, row["burst"],
        row["max_depth"], row["at_limit"], row["paused_at"], row["held"], row["open_seconds"], **counted,
    )  # fmt: skip


async def holders(tx: Tx, queue: object, *, tenant: str) -> list[Holder]:
    """Read who of a tenant holds slots of a queue, those whose lease ends first."""
    rows = await agreed.holders(tx, ids.check_name(queue, "queue"), tenant=tenant, limit=HOLDERS_MAX)
    return [Holder(*(row[name] for name in Holder._fields)) for row in rows]


async def paused_names(tx: Tx) -> dict[str, datetime]:
    """Read which handlers are paused, and since when."""
    return {row["name"]: row["paused_at"] for row in await agreed.paused_names(tx)}


async def declare(tx: Tx, queues: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """Store what an app declares; name those that changed."""
    changed = await agreed.declare(tx, [{"name": name, **columns} for name, columns in sorted(queues.items())])
    if changed:
        await agreed.mark(tx, MARK_MAX)
    return changed


async def bounded(tx: Tx) -> frozenset[str]:
    """Name the queues that bound how much of them is live."""
    return await agreed.bounded(tx)
