"""One function per statement on the tables of tasks."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one
from ferryman.tasks.model import Claimed, Ended, NewTask, Outcome, TaskRecord
from ferryman.tasks.states import SUCCEEDED, TaskState

PACKAGE = "ferryman.tasks"

Line = tuple[UUID, int, int, str, str]  # task, epoch, attempt, level, message
Report = tuple[UUID, int, int, str | None]  # task, epoch, percent, message

_TURN = load(PACKAGE, "tasks/turn")
_CREATE = load(PACKAGE, "tasks/create")
_EXISTING = load(PACKAGE, "tasks/existing")
_GET = load(PACKAGE, "tasks/get")
_LIST = load(PACKAGE, "tasks/list")
_FINISHED = load(PACKAGE, "tasks/finished")
_REASONS = load(PACKAGE, "tasks/reasons")
_LANES = load(PACKAGE, "tasks/lanes")
_SETTLE = load(PACKAGE, "tasks/settle")
_CANCEL = load(PACKAGE, "tasks/cancel")
_CALLBACKS = load(PACKAGE, "tasks/callbacks")
_PROMOTE = load(PACKAGE, "tasks/promote")
_RENEW = load(PACKAGE, "tasks/renew")
_RECLAIM = load(PACKAGE, "tasks/reclaim")
_LAPSED = load(PACKAGE, "tasks/lapsed")
_EXPIRED = load(PACKAGE, "tasks/expired")
_DEPTH = load(PACKAGE, "tasks/depth")
_QUEUES = load(PACKAGE, "tasks/queues")
_ORPHANS = load(PACKAGE, "tasks/orphans")
_REPORT = load(PACKAGE, "task_progress/report")
_PROGRESS = load(PACKAGE, "task_progress/read")
_APPEND_LOG = load(PACKAGE, "task_logs/append")
_READ_LOG = load(PACKAGE, "task_logs/read")
_BEAT = load(PACKAGE, "workers/beat")
_LEAVE = load(PACKAGE, "workers/leave")
_WORKERS = load(PACKAGE, "workers/list")

# The columns of a new task: the array that carries it, and the parameter that carries it once when all are alike.
_CREATE_COLUMNS = (
    ("ids", None), ("tenants", "tenant"), ("queues", "queue"), ("names", "name"), ("payloads", None),
    ("priorities", "priority"), ("timeouts", "timeout_ms"), ("retries", "max_retries"), ("schedule_types", None),
    ("scheduled", None), ("ends", None), ("task_ids", None), ("keys", None), ("scopes", None), ("callbacks", None),
    ("refs", None), ("traces", None), ("backoffs", None),
)  # fmt: skip


async def create(tx: Tx, tasks: Sequence[NewTask], *, ends_after: timedelta) -> Sequence[Row]:
    """Give birth to tasks; those that met an existing one are not in the answer."""
    columns: dict[str, Any] = {}
    for (array, scalar), values in zip(_CREATE_COLUMNS, zip(*tasks, strict=True), strict=True):
        first = values[0]
        alike = (scalar is not None or first is None) and values.count(first) == len(values)
        columns[array] = [] if alike else values
        if scalar is not None:
            columns[scalar] = first if alike else None
    return await many(tx, _CREATE, ends_after=ends_after, **columns)


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


def record(row: Row) -> TaskRecord:
    """Read a whole task from its row."""
    values = {name: row[name] for name in TaskRecord._fields}
    values["state"] = TaskState(values["state"])
    return TaskRecord(**values)


async def get(tx: Tx, *, tenant: str, id: UUID | None, task_id: str | None) -> TaskRecord | None:
    """Read one task of a tenant."""
    row = await one(tx, _GET, tenant=tenant, id=id, task_id=task_id)
    return None if row is None else record(row)


async def list_page(
    tx: Tx, *, tenant: str, state: str | None, queue: str | None, name: str | None, before: UUID | None, limit: int
) -> list[TaskRecord]:
    """Read a page of a tenant's tasks, newest first."""
    rows = await many(tx, _LIST, tenant=tenant, state=state, queue=queue, name=name, before=before, limit=limit)
    return [record(row) for row in rows]


async def finished(tx: Tx, ids: Collection[UUID], *, tenant: str) -> Sequence[Row]:
    """Read the ends of those tasks of a tenant that have ended."""
    return await many(tx, _FINISHED, ids=list(ids), tenant=tenant)


async def reasons(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, str | None]:
    """Read why tasks of a tenant were cancelled."""
    return {row["id"]: row["reason"] for row in await many(tx, _REASONS, ids=list(ids), tenant=tenant)}


async def lanes(tx: Tx, queues: Sequence[str], *, limit: int) -> list[tuple[str, str]]:
    """Find the (queue, tenant) pairs that have something to claim."""
    return [(row["queue"], row["tenant"]) for row in await many(tx, _LANES, queues=list(queues), limit=limit)]


async def turn(
    tx: Tx,
    outcomes: Sequence[Outcome],
    *,
    owner: UUID,
    lanes: Sequence[tuple[str, str, int]],
    names: Sequence[str],
    kinds: Sequence[str],
    lease: timedelta,
    margin: timedelta,
) -> tuple[list[Claimed], set[UUID], set[UUID]]:
    """Settle a set and claim the next; answer with the claimed, and which outcomes were stale, and which busy."""
    won = sorted((each for each in outcomes if each.state is SUCCEEDED), key=_by_id)
    lost = sorted((each for each in outcomes if each.state is not SUCCEEDED), key=_by_id)
    rows = await many(
        tx,
        _TURN,
        won_ids=[each.id for each in won],
        won_epochs=[each.epoch for each in won],
        # Rows beyond the end of an array get null: a set without results sends none.
        won_results=[each.result for each in won] if any(each.result is not None for each in won) else [],
        lost=_words(lost) if lost else "[]",
        sent=len(outcomes),
        owner=owner,
        queues=[lane[0] for lane in lanes],
        tenants=[lane[1] for lane in lanes],
        rooms=[lane[2] for lane in lanes],
        names=names,
        kinds=kinds,
        lease=lease,
        margin=margin,
    )
    tally = rows[-1]
    return (
        [Claimed(*row) for row in rows[:-1]],  # type: ignore[misc]  # a row is a sequence in the order of the columns
        _ids(tally["task_id"]),
        _ids(tally["queue"]),
    )


def _ids(text: str | None) -> set[UUID]:
    return {UUID(each) for each in text.split(",")} if text else set()


def _by_id(outcome: Outcome) -> int:
    return outcome.id.int


def _words(outcomes: Sequence[Outcome]) -> str:
    return json.dumps(
        [
            {
                "id": str(each.id),
                "epoch": each.epoch,
                "owner": str(each.owner),
                "state": each.state.value,
                "result": each.result,
                "code": each.code,
                "reason": each.reason,
                "used": each.used,
                "delay": each.delay,
            }
            for each in outcomes
        ]
    )


async def settle(tx: Tx, outcomes: Sequence[Outcome], *, lapsed: bool = False) -> tuple[list[Row], set[UUID]]:
    """Settle a set inside a transaction; answer with those that moved, and with those that were busy; the rest was stale.

    With `lapsed` only those whose lease has passed are touched: the watchdog's word against a holder that may still renew.
    """
    rows = await many(tx, _SETTLE, outcomes=_words(sorted(outcomes, key=_by_id)), lapsed=lapsed)
    return [row for row in rows if row["state"] is not None], {row["id"] for row in rows if row["state"] is None}


async def cancel(
    tx: Tx,
    ids: Collection[UUID],
    *,
    tenant: str | None = None,
    expired: bool = False,
    code: str | None = None,
    reason: str | None = None,
) -> list[Row]:
    """Cancel live tasks; with `expired` only those that still wait at their end."""
    return list(await many(tx, _CANCEL, ids=list(ids), tenant=tenant, expired=expired, code=code, reason=reason))


async def callbacks(tx: Tx, ids: Collection[UUID], *, tenant: str | None = None) -> list[tuple[str, str]]:
    """Read whom the ends of these tasks, of one tenant or of any, are owed to: (kind, reference)."""
    rows = await many(tx, _CALLBACKS, ids=list(ids), tenant=tenant)
    return [(row["callback"], row["callback_ref"]) for row in rows]


def ended(row: Row) -> Ended:
    """Read an end from a row of settle or cancel."""
    return Ended(
        id=row["id"],
        tenant=row["tenant"],
        task_id=row["task_id"],
        name=row["name"],
        state=TaskState(row["state"]),
        attempt=row["attempt"],
        code=row["code"],
        reason=row["reason"],
        result=row["result"],
        callback=row["callback"],
        callback_ref=row["callback_ref"],
    )


async def promote(tx: Tx, *, limit: int) -> tuple[int, list[str], float | None]:
    """Let in what has come due: how many, in which lanes, and in how many seconds the next will be due."""
    row = await one(tx, _PROMOTE, limit=limit)
    assert row is not None
    return row["count"], row["lanes"], row["next_seconds"]


async def renew(
    tx: Tx, ids: Sequence[UUID], epochs: Sequence[int], *, owner: UUID, lease: timedelta, margin: timedelta
) -> dict[UUID, bool]:
    """Renew leases; what is not in the answer was refused, and what is false is being written by somebody else."""
    rows = await many(tx, _RENEW, ids=list(ids), epochs=list(epochs), owner=owner, lease=lease, margin=margin)
    return {row["id"]: row["renewed"] for row in rows}


async def reclaim(tx: Tx, *, owner: UUID, held: Collection[UUID]) -> int:
    """Hand back what is leased to an owner that does not know of it."""
    return len(await many(tx, _RECLAIM, owner=owner, held=list(held)))


async def lapsed(tx: Tx, limit: int, *, kinds: Sequence[str] = ()) -> Sequence[Row]:
    """Find running tasks whose lease has passed; of those that owe, the ones whose owners are of these kinds."""
    return await many(tx, _LAPSED, limit=limit, kinds=kinds)


async def expired(tx: Tx, limit: int, *, kinds: Sequence[str] = ()) -> Sequence[Row]:
    """Find waiting tasks whose time is over; of those that owe, the ones whose owners are of these kinds."""
    return await many(tx, _EXPIRED, limit=limit, kinds=kinds)


async def depth(tx: Tx) -> Sequence[Row]:
    """Count live tasks by queue and state, up to a bound."""
    return await many(tx, _DEPTH)


async def queues(tx: Tx) -> Sequence[Row]:
    """Count all live tasks of all tenants by queue and state."""
    return await many(tx, _QUEUES)


async def orphans(tx: Tx) -> Sequence[Row]:
    """Find waiting tasks, of all tenants, that no living worker would take."""
    return await many(tx, _ORPHANS)


async def report(tx: Tx, words: Sequence[Report]) -> set[UUID]:
    """Write the latest progress of tasks, one word per claim; what is not in the answer was stale."""
    ids, epochs, percents, messages = (list(column) for column in zip(*words, strict=True))
    rows = await many(tx, _REPORT, ids=ids, epochs=epochs, percents=percents, messages=messages)
    return {row["id"] for row in rows}


async def progress(tx: Tx, ids: Collection[UUID], *, tenant: str) -> Sequence[Row]:
    """Read how far tasks of a tenant are."""
    return await many(tx, _PROGRESS, ids=list(ids), tenant=tenant)


async def append_log(tx: Tx, lines: Sequence[Line]) -> int:
    """Keep what handlers said; answer with how many lines were not stale."""
    ids, epochs, attempts, levels, messages = (list(column) for column in zip(*lines, strict=True))
    rows = await many(tx, _APPEND_LOG, ids=ids, epochs=epochs, attempts=attempts, levels=levels, messages=messages)
    return len(rows)


async def read_log(tx: Tx, task: UUID, *, tenant: str, after: int, limit: int) -> Sequence[Row]:
    """Read the log of one task."""
    return await many(tx, _READ_LOG, task=task, tenant=tenant, after=after, limit=limit)


async def beat(tx: Tx, **worker: Any) -> None:
    """Say that a worker lives."""
    await many(tx, _BEAT, **worker)


async def leave(tx: Tx, boot_id: UUID) -> None:
    """Say that a worker goes."""
    await many(tx, _LEAVE, boot_id=boot_id)


async def workers(tx: Tx) -> Sequence[Row]:
    """Read who works, and who went without a word in the last day."""
    return await many(tx, _WORKERS)
