"""Commands come in, are read and end as a whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from ferryman.commands.model import CommandRecord, NewCommand
from ferryman.commands.states import COMMAND, CommandStatus
from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.commands"
_RECEIVE = load(_HERE, "command_inbox/receive")
_MET = load(_HERE, "command_inbox/met")
_GET = load(_HERE, "command_inbox/get")
_ENDED = load(_HERE, "command_inbox/ended")
_LIST = load(_HERE, "command_inbox/list")
_LIST_LIVE = load(_HERE, "command_inbox/list_live")
_LIST_FAILED = load(_HERE, "command_inbox/list_failed")
_LIST_SESSION = load(_HERE, "command_inbox/list_session")
_LATE = load(_HERE, "command_inbox/late")
_UNKNOWN = load(_HERE, "command_inbox/unknown")
_OLD = load(_HERE, "command_inbox/old")
_OLD_ALONE = load(_HERE, "async_tasks/old")
_FORGET_ALONE = load(_HERE, "async_tasks/forget")
_FORGET_COMMANDS = load(_HERE, "command_inbox/forget")
_DECLARE = load(_HERE, "command_routes/declare")
_FORGET = load(_HERE, "command_routes/forget")

LIVE = frozenset(state.value for state in COMMAND.live)
_COLUMNS = ("ids", "tenants", "scopes", "types", "sessions", "keys", "payloads", "deadlines", "tasks", "traces")


async def receive(tx: Tx, commands: Sequence[NewCommand]) -> Sequence[Row]:
    """Receive commands; those that met an existing one are not in the answer."""
    return await many(tx, _RECEIVE, **dict(zip(_COLUMNS, zip(*commands, strict=True), strict=True)))


async def met(tx: Tx, commands: Sequence[NewCommand]) -> dict[int, CommandRecord]:
    """Read what each of these commands met, by its place in the sequence."""
    rows = await many(
        tx,
        _MET,
        tenants=[each.tenant for each in commands],
        ids=[each.id for each in commands],
        keys=[each.idempotency_key for each in commands],
    )
    return {row["nth"] - 1: _record(row, 1) for row in rows}


async def get(tx: Tx, id: UUID, *, tenant: str) -> CommandRecord | None:
    """Read one command."""
    row = await one(tx, _GET, id=id, tenant=tenant)
    return None if row is None else _record(row)


async def ended(tx: Tx, ids: Collection[UUID], *, tenant: str) -> dict[UUID, CommandRecord | None]:
    """Read those of these commands that have ended; None is one that is not there."""
    rows = await many(tx, _ENDED, ids=list(ids), tenant=tenant)
    return {row["asked"]: None if row["id"] is None else _record(row, 1) for row in rows}


async def list_page(
    tx: Tx,
    *,
    tenant: str,
    status: str | None,
    type: str | None,
    session: str | None,
    before: UUID | None,
    limit: int,
) -> list[CommandRecord]:
    """Read a page of commands, newest first: each question by the index that was made for it (0027_listed.sql)."""
    asked = {"tenant": tenant, "type": type, "before": before, "limit": limit}
    if session is not None:
        rows = await many(tx, _LIST_SESSION, session=session, status=status, **asked)
    elif status == CommandStatus.FAILED:
        rows = await many(tx, _LIST_FAILED, **asked)
    elif status in LIVE:
        rows = await many(tx, _LIST_LIVE, status=status, **asked)
    else:
        rows = await many(tx, _LIST, status=status, **asked)
    return [_record(row) for row in rows]


async def late(tx: Tx, limit: int) -> Sequence[Row]:
    """Find commands past their deadlines."""
    return await many(tx, _LATE, limit=limit)


async def unknown(tx: Tx, limit: int, *, patience: timedelta) -> Sequence[Row]:
    """Find steps and capabilities that wait and that nobody who lives knows."""
    return await many(tx, _UNKNOWN, limit=limit, patience=patience)


async def old(tx: Tx, limit: int, *, kept: timedelta) -> Sequence[Row]:
    """Find commands that ended longer ago than they are kept."""
    return await many(tx, _OLD, limit=limit, kept=kept)


async def forget(tx: Tx, ids: Sequence[UUID]) -> int:
    """Delete commands that have ended, with their async tasks."""
    return len(await many(tx, _FORGET_COMMANDS, ids=ids))


async def old_alone(tx: Tx, limit: int, *, kept: timedelta) -> Sequence[Row]:
    """Find async tasks without a command that ended longer ago than they are kept."""
    return await many(tx, _OLD_ALONE, limit=limit, kept=kept)


async def forget_alone(tx: Tx, ids: Sequence[UUID]) -> int:
    """Delete async tasks that have ended and have no command."""
    return len(await many(tx, _FORGET_ALONE, ids=ids))


async def declare_routes(tx: Tx, types: Sequence[str]) -> None:
    """Say that results of these types have follow-ups."""
    await many(tx, _DECLARE, types=types)


async def forget_routes(tx: Tx, types: Sequence[str]) -> None:
    """Say that results of these types have none any more."""
    await many(tx, _FORGET, types=types)


def _record(row: Row, first: int = 0) -> CommandRecord:
    values = list(row)[first:]  # type: ignore[call-overload]  # a row is a sequence in the order of the columns
    record = CommandRecord(*values)
    return record._replace(status=CommandStatus(record.status))
