"""Tasks come in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one, sqlstate
from ferryman.kernel.doorbell import Inside
from ferryman.tasks.model import NewTask, SentTwice, TaskRecord
from ferryman.tasks.store.reads import record

_CREATE = load("ferryman.tasks", "tasks/create")
_CREATE_ALIKE = load("ferryman.tasks", "tasks/create_alike")
_CREATE_ONE = load("ferryman.tasks", "tasks/create_one")
_EXISTING = load("ferryman.tasks", "tasks/existing")

# The columns of a new task: the array that carries it, and the parameter that carries it once when all are alike.
_CREATE_COLUMNS = (
    ("ids", None), ("tenants", "tenant"), ("queues", "queue"), ("names", "name"), ("payloads", None),
    ("priorities", "priority"), ("timeouts", "timeout_ms"), ("retries", "max_retries"), ("schedule_types", None),
    ("scheduled", None), ("ends", None), ("task_ids", None), ("keys", None), ("scopes", None), ("callbacks", None),
    ("refs", None), ("traces", None), ("backoffs", None), ("limit_keys", None), ("singletons", None), ("debounces", None),
    ("quiets", None),
)  # fmt: skip

# What `create_alike` carries, once for its whole set.
SHARED = (
    "tenant", "queue", "name", "priority", "timeout_ms", "max_retries", "schedule_type", "scheduled_at", "ends_at",
    "traceparent", "backoff",
)  # fmt: skip
_shared = itemgetter(*map(NewTask._fields.index, SHARED))
_unshared = itemgetter(*(place for place, each in enumerate(NewTask._fields) if each not in {*SHARED, "id", "payload"}))
_UNSAID = _unshared((None,) * len(NewTask._fields))
_PAYLOAD = NewTask._fields.index("payload")

# What `create_one` carries, in the order of its parameters.
ONE = (
    "id", "tenant", "queue", "name", "payload", "priority", "timeout_ms", "max_retries", "traceparent", "backoff",
)  # fmt: skip
_one = itemgetter(*map(NewTask._fields.index, ONE))
_more = itemgetter(*(place for place, each in enumerate(NewTask._fields) if each not in ONE))
_NO_MORE = _more((None,) * len(NewTask._fields))

_UNIQUE_VIOLATION = "23505"


def alike(tasks: Sequence[NewTask]) -> bool:
    """Tell whether these differ in nothing but id and payload, and have nothing that `create_alike` does not carry."""
    first = tasks[0]
    if _unshared(first) != _UNSAID:
        return False
    if len(tasks) == 1:
        return True
    before, after = first[1:_PAYLOAD], first[_PAYLOAD + 1 :]
    return all(task[_PAYLOAD + 1 :] == after and task[1:_PAYLOAD] == before for task in tasks)


def lonely(task: NewTask) -> bool:
    """Tell whether a task has nothing that `create_one` does not carry: no time, and no key or name of its own."""
    return bool(_more(task) == _NO_MORE)


def _bell(ring: Inside | None) -> dict[str, str | None]:
    return {"channel": None, "word": None} if ring is None else {"channel": ring.channel, "word": ring.word}


async def create(
    tx: Tx, tasks: Sequence[NewTask], *, ends_after: timedelta, ring: Inside | None = None
) -> Sequence[Row]:
    """Give birth to tasks; those that met an existing one are not in the answer."""
    columns: dict[str, Any] = {}
    for (array, scalar), values in zip(_CREATE_COLUMNS, zip(*tasks, strict=True), strict=True):
        first = values[0]
        alike = (scalar is not None or first is None) and values.count(first) == len(values)
        columns[array] = [] if alike else values
        if scalar is not None:
            columns[scalar] = first if alike else None
    rows = await many(tx, _CREATE, ends_after=ends_after, **_bell(ring), **columns)
    if ring is not None and rows:
        ring.answer(rows[0]["rung"])
    return rows


async def create_alike(
    tx: Tx,
    like: NewTask,
    ids: Sequence[UUID],
    payloads: Sequence[str],
    *,
    ends_after: timedelta,
    ring: Inside | None = None,
) -> Row:
    """Give birth to tasks that differ only in id and payload; answer with what they share.

    Raises `SentTwice` where they are there already; a transaction around it is broken then.
    """
    shared = dict(zip(SHARED, _shared(like), strict=True)) | _bell(ring)
    try:
        row = await one(tx, _CREATE_ALIKE, ids=ids, payloads=payloads, ends_after=ends_after, **shared)
    except Exception as error:
        if sqlstate(error) == _UNIQUE_VIOLATION:  # they have no key or name that could be another's: it is an id
            raise SentTwice from error
        raise
    assert row is not None
    if ring is not None:
        ring.answer(row["rung"])
    return row


async def create_one(tx: Tx, task: NewTask, *, ends_after: timedelta, ring: Inside | None = None) -> Row:
    """Give birth to one task that is due now and answer with its times; by position, because a lonely create is all waiting."""
    channel, word = (None, None) if ring is None else (ring.channel, ring.word)
    [row] = await tx.fetch(_CREATE_ONE.sql(tx.schema), *_one(task), ends_after, channel, word)
    if ring is not None:
        ring.answer(row["rung"])
    return row


async def existing(tx: Tx, tasks: Sequence[NewTask]) -> list[tuple[int, str, TaskRecord]]:
    """Read what each of these tasks met: its place in the sequence, by what it was met, and the task that is there."""
    rows = await many(
        tx,
        _EXISTING,
        tenants=[task.tenant for task in tasks],
        ids=[task.id for task in tasks],
        task_ids=[task.task_id for task in tasks],
        keys=[task.idempotency_key for task in tasks],
        scopes=[task.idempotency_scope for task in tasks],
    )
    return [(row["nth"] - 1, row["hit"], record(row)) for row in rows]
