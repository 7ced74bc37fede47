"""Parents and children: the owner of the callback that a child carries, and the rule that no child outlives its parent.

A child is a task whose end is owed to its parent: the callback's reference is the parent's id. The end is written into the
parent's memory in the transaction of that end, the count of its join goes down in the same statement, and at zero the parent
is woken. Its id follows from the parent's and from the call that made it, so no crash can make a second one; it is greater than
the parent's, so the order of ids in which everybody locks is also that of parents before children.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ferryman.kernel.db import Row, Tx
from ferryman.tasks import store
from ferryman.tasks.model import Call, Ended
from ferryman.tasks.ports import Owners
from ferryman.tasks.store import steps

CHILD = "child"
PARENT_ENDED = "its parent has ended"

_TIME_BITS = 80  # below the milliseconds of a UUID of version 7
_LAST_MOMENT = (1 << 48) - 1
_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_FREE = ((1 << 76) - 1) ^ (0b11 << 62)


class Joins:
    """Settles the ends of children."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock the parents."""
        await steps.hold(tx, [UUID(ref) for ref in refs])

    async def try_lock(self, tx: Tx, refs: Sequence[str]) -> Collection[str]:
        """Lock the parents that nobody else holds."""
        parents = {ref: UUID(ref) for ref in refs}
        busy = await steps.try_hold(tx, parents.values())
        return [ref for ref, id in parents.items() if id not in busy]

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> Sequence[str]:
        """Write the ends into the memory of the parents, and wake those whose join is over."""
        return await steps.answer(tx, ended)


@dataclass
class Aftermath:
    """What there is to ring for after the commit: lanes with something to claim, and children that were cancelled."""

    lanes: list[str] = field(default_factory=list)
    cancelled: list[UUID] = field(default_factory=list)


def child_id(call: Call) -> UUID:
    """Return the id of the child that a call makes: the same at every replay, and greater than the parent's."""
    said = f"{call.task}\x1f{call.name}\x1f{call.nth}"
    chance = int.from_bytes(hashlib.blake2b(said.encode(), digest_size=10).digest(), "big")
    moment = min((call.task.int >> _TIME_BITS) + 1, _LAST_MOMENT)
    return UUID(int=moment << _TIME_BITS | _VERSION | _VARIANT | chance & _FREE)


async def end(
    tx: Tx,
    owners: Owners,
    ids: Collection[UUID],
    *,
    tenant: str | None = None,
    expired: bool = False,
    code: str | None = None,
    reason: str | None = None,
    owed: Collection[tuple[str, str | None]] | None = None,
    after: Aftermath | None = None,
) -> Sequence[Row]:
    """Cancel in the caller's transaction, settle what the ends owe, parents first, and end the children.

    Whom the ends are owed to is asked, unless the caller has read it with the tasks: it never changes.
    """
    after = after or Aftermath()
    if owed is None:
        owed = await store.callbacks(tx, ids, tenant=tenant)
    if any(kind == CHILD for kind, _ref in owed):
        # Parents and what is cancelled are rows of one table: locked together, in one order.
        owed = [*owed, *((CHILD, str(id)) for id in ids)]
    if owed:
        await owners.lock(tx, owed)
    rows = await store.cancel(tx, ids, tenant=tenant, expired=expired, code=code, reason=reason)
    if owed:
        after.lanes += await owners.settle(tx, [store.ended(row) for row in rows if row["callback"] is not None])
    bore = [row["id"] for row in rows if row["bore"]]
    if bore:
        await end_children(tx, owners, bore, after=after)
    return rows


async def end_children(tx: Tx, owners: Owners, ids: Collection[UUID], *, after: Aftermath) -> None:
    """Cancel the children of tasks that have ended, and theirs: no child outlives its parent."""
    children = await steps.children(tx, ids)
    if children:
        rows = await end(tx, owners, children, reason=PARENT_ENDED, after=after)
        after.cancelled += [row["id"] for row in rows]


async def cancel_free(
    tx: Tx, ids: Collection[UUID], *, tenant: str | None = None, code: str | None = None, reason: str
) -> tuple[list[UUID], list[UUID]]:
    """Cancel tasks whose ends are owed to nobody; answer with those that were, and with the children that went with them."""
    after = Aftermath()
    rows = await end(tx, _FAMILY, ids, tenant=tenant, code=code, reason=reason, owed=(), after=after)
    return [row["id"] for row in rows], after.cancelled


# Children owe their ends to their parents and to nobody else.
_FAMILY = Owners({CHILD: Joins()})
