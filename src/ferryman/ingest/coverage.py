"""Cursors follow finished coverage (I11).

A slice that has been fetched covers its part. A cursor goes as far as coverage reaches from it without a gap, in whatever
order slices finish, so it never passes one that is unfinished or has failed. The move is said first, as an event, and then made
by compare-and-set, in the transaction that finished the coverage: the events of a cursor always give its value. The cursor is
held before coverage is read: of two that finish at one moment, the second sees what the first has covered.
"""

from __future__ import annotations

from uuid import UUID

from ferryman.ingest.rules import keys
from ferryman.ingest.store import cursors
from ferryman.ingest.store.cursors import Lineage, Name
from ferryman.kernel import errors, ids
from ferryman.kernel.db import Tx


def identity(name: Name) -> UUID:
    """Return the id of a cursor: made of its name, so that two who begin it at once say the same."""
    return UUID(hex=keys.digest("cursor", *name)[:32])


async def begin(tx: Tx, name: Name, position: int, *, plan_id: UUID) -> bool:
    """Let a cursor begin; False if somebody else has let it."""
    id, event = identity(name), ids.new_id()
    said = await cursors.append(
        tx, id, id=event, tenant=name.tenant, kind="begin", prev=None, next=position, key="begin",
        lineage=Lineage(plan_id=plan_id),
    )  # fmt: skip
    return said and await cursors.begin(tx, name, id=id, event=event, position=position)


async def advance(tx: Tx, cursor_id: UUID, *, tenant: str, lineage: Lineage, tell: bool = True) -> bool:
    """Move a cursor as far as coverage reaches; where that is no step forward, say so (if `tell`)."""
    if await cursors.hold(tx, cursor_id) is None:
        return False
    position, reached = await cursors.reach(tx, cursor_id)
    forward = reached > position
    if not forward and not tell:
        return False
    kind = "forward" if forward else "no-forward"
    key = keys.digest(kind, position, reached, *(str(each) for each in lineage))
    event = ids.new_id()
    said = await cursors.append(
        tx, cursor_id, id=event, tenant=tenant, kind=kind, prev=position, next=reached, key=key, lineage=lineage
    )
    return forward and said and await _move(tx, cursor_id, expected=position, position=reached, event=event)


async def rewind(tx: Tx, cursor_id: UUID, *, tenant: str, position: int, reason: str) -> bool:
    """Take a cursor back, with the reason; what was covered before counts no more. False if it is not ahead of there."""
    held = await cursors.hold(tx, cursor_id)
    if held is None or held["position"] <= position:
        return False
    was, event = held["position"], ids.new_id()
    key = keys.digest("rewind", was, position, held["rewinds"])
    await cursors.append(
        tx, cursor_id, id=event, tenant=tenant, kind="rewind", prev=was, next=position, key=key, reason=reason
    )
    return await _move(tx, cursor_id, expected=was, position=position, event=event, rewinds=1)


async def _move(tx: Tx, id: UUID, *, expected: int, position: int, event: UUID, rewinds: int = 0) -> bool:
    if not await cursors.move(tx, id, expected=expected, position=position, event=event, rewinds=rewinds):
        # It is held: this cannot be. An event without its move must not commit.
        raise errors.IngestCursorMoved(cursor=str(id))
    return True
