"""Cursors and their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel.db import Row, Tx, load, many, one

_HERE = "ferryman.ingest"
_FIND = load(_HERE, "ingest_cursor/find")
_BEGIN = load(_HERE, "ingest_cursor/begin")
_HOLD = load(_HERE, "ingest_cursor/hold")
_REACH = load(_HERE, "ingest_cursor/reach")
_FRONTIER = load(_HERE, "ingest_cursor/frontier")
_MOVE = load(_HERE, "ingest_cursor/move")
_LIST = load(_HERE, "ingest_cursor/list")
_APPEND = load(_HERE, "ingest_cursor_event/append")
_EVENTS = load(_HERE, "ingest_cursor_event/of")


class Name(NamedTuple):
    """What tells one cursor from another: three namespaces (GLOBAL, EXPR, CUSTOM) in each operation."""

    tenant: str
    source: str
    endpoint: str
    operation: str
    scope: str
    scope_key: str
    kind: str


class Lineage(NamedTuple):
    """What a move came of."""

    plan_id: UUID | None = None
    slice_id: UUID | None = None
    task_id: UUID | None = None
    run_id: UUID | None = None
    batch_id: UUID | None = None


async def find(tx: Tx, name: Name) -> Row | None:
    """Read a cursor by its name."""
    return await one(tx, _FIND, **name._asdict())


async def begin(tx: Tx, name: Name, *, id: UUID, event: UUID, position: int) -> bool:
    """Give birth to a cursor whose first event is there; False if it met another."""
    return await one(tx, _BEGIN, **name._asdict(), id=id, event=event, position=position) is not None


async def hold(tx: Tx, id: UUID) -> Row | None:
    """Hold a cursor until the transaction ends."""
    return await one(tx, _HOLD, id=id)


async def reach(tx: Tx, id: UUID) -> tuple[int, int]:
    """Return where a cursor stands, and how far finished coverage goes from there."""
    row = await one(tx, _REACH, id=id)
    assert row is not None
    return row["position"], row["reached"]


async def frontier(tx: Tx, id: UUID) -> int:
    """Return where new work begins."""
    row = await one(tx, _FRONTIER, id=id)
    assert row is not None
    reached: int = row["reached"]
    return reached


async def move(tx: Tx, id: UUID, *, expected: int, position: int, event: UUID, rewinds: int = 0) -> bool:
    """Set a cursor, if it stands where it is expected."""
    row = await one(tx, _MOVE, id=id, expected=expected, position=position, event=event, rewinds=rewinds)
    return row is not None


async def append(
    tx: Tx, cursor_id: UUID, *, id: UUID, tenant: str, kind: str, prev: int | None, next: int, key: str,
    lineage: Lineage | None = None, reason: str | None = None,
) -> bool:  # fmt: skip
    """Say a move; False if the same was said."""
    row = await one(
        tx, _APPEND,
        id=id, cursor_id=cursor_id, tenant=tenant, kind=kind, prev=prev, next=next, key=key, reason=reason,
        **(lineage or Lineage())._asdict(),
    )  # fmt: skip
    return row is not None


async def list_all(tx: Tx, *, tenant: str, source: str | None, limit: int) -> Sequence[Row]:
    """Read the cursors of a tenant."""
    return await many(tx, _LIST, tenant=tenant, source=source, limit=limit)


async def events(tx: Tx, cursor_id: UUID) -> Sequence[Row]:
    """Read the chain of a cursor."""
    return await many(tx, _EVENTS, cursor_id=cursor_id)
