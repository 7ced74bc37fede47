"""Every statement that writes async tasks, and what must be written with them. Only the orchestrator imports this (C4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from ferryman.commands.model import Asked, End, Fact
from ferryman.kernel import payload
from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.commands"
_LOCK_COMMANDS = load(_HERE, "command_inbox/lock")
_TRY_LOCK_COMMANDS = load(_HERE, "command_inbox/try_lock")
_PROCESS = load(_HERE, "command_inbox/process")
_FINISH = load(_HERE, "command_inbox/finish")
_FAIL = load(_HERE, "command_inbox/fail")
_LOCK = load(_HERE, "async_tasks/lock")
_TRY_LOCK = load(_HERE, "async_tasks/try_lock")
_SETTLE = load(_HERE, "async_tasks/settle")
_MIRROR = load(_HERE, "async_tasks/mirror")
_PROGRESS = load(_HERE, "async_tasks/progress")
_START = load(_HERE, "async_tasks/start")
_MATCH = load(_HERE, "async_tasks/match")
_PARENT = load(_HERE, "async_tasks/parent")


Value = TypeVar("Value")


class Step(NamedTuple):
    """What the steps of one command come to, summed up: how many there were, and what went wrong first."""

    command: UUID
    steps: int
    messages: int
    retries: int
    failed: int
    code: str | None
    reason: str | None


class Start(NamedTuple):
    """An async task to be born, and the task that runs its capability, if it is run here."""

    id: UUID
    command: UUID | None
    task: UUID | None
    asked: Asked
    input: str


class Word(NamedTuple):
    """What a running capability tells of itself."""

    task: UUID
    epoch: int
    id: UUID
    percent: float | None


def _known(values: list[Value | None]) -> list[Value | None]:
    """Return a column of a set; an empty one if all is null: arrays are what a set costs the client."""
    return values if any(value is not None for value in values) else []


async def lock(tx: Tx, commands: Sequence[UUID], alone: Sequence[UUID]) -> None:
    """Lock commands, and then those async tasks that have none."""
    if commands:
        await many(tx, _LOCK_COMMANDS, ids=commands)
    if alone:
        await many(tx, _LOCK, ids=alone)


async def try_lock(tx: Tx, commands: Sequence[UUID], alone: Sequence[UUID]) -> set[UUID]:
    """Lock them in the same order, unless somebody else holds them; answer with those."""
    rows = [*await many(tx, _TRY_LOCK_COMMANDS, ids=commands)] if commands else []
    if alone:
        rows += await many(tx, _TRY_LOCK, ids=alone)
    return {row["id"] for row in rows if not row["held"]}


async def process(
    tx: Tx, steps: Sequence[Step], starts: Sequence[Start], facts: Sequence[tuple[UUID, Fact]]
) -> Sequence[Row]:
    """Write what steps come to; answer with the async tasks that were born and the commands that have ended."""
    return await many(
        tx,
        _PROCESS,
        commands=[each.command for each in steps],
        steps=[each.steps for each in steps],
        counts=[each.messages for each in steps],
        retries=[each.retries for each in steps],
        failures=[each.failed for each in steps],
        codes=_known([each.code for each in steps]),
        reasons=_known([each.reason for each in steps]),
        ids=[each.id for each in starts],
        owners=[each.command for each in starts],
        tasks=[each.task for each in starts],
        types=[each.asked.type for each in starts],
        task_types=[each.asked.task_type for each in starts],
        inputs=[each.input for each in starts],
        delays=[each.asked.delay_seconds for each in starts],
        deadlines=_known([each.asked.deadline_seconds for each in starts]),
        max_retries=[each.asked.max_retries for each in starts],
        fact_commands=[command for command, _ in facts],
        fact_types=[fact.type for _, fact in facts],
        fact_payloads=[payload.encode(dict(fact.payload)) for _, fact in facts],
    )


async def finish(tx: Tx, commands: Sequence[UUID]) -> Sequence[UUID]:
    """End commands whose first step asked for nothing."""
    return [row["id"] for row in await many(tx, _FINISH, ids=commands)]


async def fail(
    tx: Tx, commands: Sequence[UUID], *, to: str, code: str, reason: str, late: bool = False
) -> Sequence[Row]:
    """End commands as a whole, with all that they started; answer with what has ended, and the tasks that ran for it."""
    return await many(tx, _FAIL, ids=commands, to=to, code=code, reason=reason, late=late)


async def settle(tx: Tx, ends: Sequence[End], follow_ups: Sequence[UUID], *, late: bool = False) -> Sequence[Row]:
    """End async tasks, and with the last of each command that command; answer with what has ended."""
    return await many(
        tx,
        _SETTLE,
        ids=[each.id for each in ends],
        statuses=[each.status.value for each in ends],
        messages=_known([each.message for each in ends]),
        errors=_known([each.error for each in ends]),
        codes=_known([each.reason_code for each in ends]),
        reasons=_known([each.reason for each in ends]),
        retries=[None if each.attempt is None else each.attempt - 1 for each in ends],
        nodes=_known([each.node for each in ends]),
        follow_ups=follow_ups,
        late=late,
    )


async def mirror(tx: Tx, words: Sequence[Word]) -> int:
    """Write what running capabilities tell of themselves; answer with how many were heard."""
    words = sorted(words, key=lambda each: each.id.int)
    rows = await many(
        tx,
        _MIRROR,
        tasks=[each.task for each in words],
        epochs=[each.epoch for each in words],
        ids=[each.id for each in words],
        percents=[each.percent for each in words],
    )
    return len(rows)


async def progress(tx: Tx, id: UUID, *, tenant: str, percent: float) -> bool:
    """Write how far an async task is whose work is done outside."""
    return await one(tx, _PROGRESS, id=id, tenant=tenant, percent=percent) is not None


async def start(tx: Tx, start: Start, *, tenant: str, deadline: float) -> Row:
    """Give birth to an async task that has no command."""
    row = await one(
        tx,
        _START,
        id=start.id,
        tenant=tenant,
        task_type=start.asked.task_type,
        type=start.asked.type,
        task=start.task,
        delay=start.asked.delay_seconds,
        max_retries=start.asked.max_retries,
        input=start.input,
        deadline=deadline,
    )
    assert row is not None
    return row


async def match(tx: Tx, command: UUID, *, tenant: str, type: str) -> UUID | None:
    """Find the async task that a result without an id means."""
    row = await one(tx, _MATCH, command=command, tenant=tenant, type=type)
    return None if row is None else row["id"]


async def parents(tx: Tx, ids: Sequence[UUID], *, tenant: str | None = None) -> dict[UUID, Row]:
    """Read whose these async tasks are."""
    return {row["id"]: row for row in await many(tx, _PARENT, ids=ids, tenant=tenant)}
