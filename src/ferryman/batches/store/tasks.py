"""The tasks of batches: sent, put off, ended, looked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.batches.model import Claimed, Live, TaskEnd, TaskRecord
from ferryman.batches.store.batches import words
from ferryman.kernel.db import Row, Tx, load, many

_HERE = "ferryman.batches"
_CLAIM = load(_HERE, "pmo_batch_tasks/claim")
_ACCEPT = load(_HERE, "pmo_batch_tasks/accept")
_POSTPONE = load(_HERE, "pmo_batch_tasks/postpone")
_END = load(_HERE, "pmo_batch_tasks/end")
_ABORT = load(_HERE, "pmo_batch_tasks/abort")
_OF = load(_HERE, "pmo_batch_tasks/of")
_COUNTS = load(_HERE, "pmo_batch_tasks/counts")
_UNHEARD = load(_HERE, "pmo_batch_tasks/unheard")
_WARN = load(_HERE, "pmo_batch_tasks/warn")
_ENDED = load(_HERE, "pmo_batch_tasks/ended")


class Busy(NamedTuple):
    """What somebody else holds: heads, and batches."""

    heads: frozenset[tuple[str, str]] = frozenset()
    batches: frozenset[UUID] = frozenset()

    def __or__(self, other: Busy) -> Busy:
        """Return both."""
        return Busy(self.heads | other.heads, self.batches | other.batches)


class Claim(NamedTuple):
    """What one look took; how many it found, held or not; and what somebody else holds."""

    taken: list[Claimed]
    found: int
    busy: Busy


async def claim(tx: Tx, *, room: int, scan: int, heads: bool = True, past: Busy | None = None) -> Claim:
    """Take tasks that are to be sent, fairly, and lock their batches and `heads`; look past what is known to be busy."""
    past = past or Busy()
    known = {
        "busy_tenants": [tenant for tenant, _ in past.heads],
        "busy_agents": [agent for _, agent in past.heads],
        "busy_batches": list(past.batches),
    }
    rows = await many(tx, _CLAIM, room=room, scan=scan, heads=heads, **known)
    taken = [Claimed(*(row[name] for name in Claimed._fields)) for row in rows if row["id"] is not None]
    busy = zip(rows[0]["busy_tenants"], rows[0]["busy_agents"], strict=True)
    return Claim(taken, rows[0]["found"], Busy(frozenset(busy), frozenset(rows[0]["busy_batches"])))


async def accept(tx: Tx, epochs: Mapping[UUID, int]) -> set[UUID]:
    """Store the epochs at which children were dispatched."""
    rows = await many(tx, _ACCEPT, ids=list(epochs), epochs=list(epochs.values()))
    return {row["id"] for row in rows}


async def postpone(tx: Tx, tasks: Sequence[tuple[UUID, timedelta, str]]) -> set[UUID]:
    """Put off tasks (id, by how long, why)."""
    given, delays, codes = zip(*tasks, strict=True)
    rows = await many(tx, _POSTPONE, ids=list(given), delays=list(delays), codes=list(codes))
    return {row["id"] for row in rows}


async def end(tx: Tx, ends: Sequence[TaskEnd]) -> set[UUID]:
    """End tasks; answer with the batches of those that were open."""
    said = [
        {
            "id": each.id,
            "turn": each.turn,
            "expects": ",".join(each.expects),
            "status": each.status.value,
            "output_box": each.output_box,
            "error": each.error,
            "view": each.view,
        }
        for each in ends
    ]
    return {row["batch_id"] for row in await many(tx, _END, ends=words(said))}


async def abort(tx: Tx, batches: Collection[UUID], *, reason: str, warn_after: timedelta) -> list[Live]:
    """End what is left of batches; answer with it."""
    rows = await many(tx, _ABORT, batches=list(batches), reason=reason, warn_after=warn_after)
    return [Live(*row) for row in rows]  # type: ignore[misc]


async def of(tx: Tx, batches: Collection[UUID]) -> dict[UUID, list[TaskRecord]]:
    """Read the tasks of batches, in order."""
    found: dict[UUID, list[TaskRecord]] = {id: [] for id in batches}
    for row in await many(tx, _OF, batches=list(batches)):
        found[row["batch_id"]].append(TaskRecord(*row))  # type: ignore[misc]
    return found


async def counts(tx: Tx, batches: Collection[UUID], *, tenant: str) -> dict[UUID, dict[str, int]]:
    """Count the tasks of batches by their status."""
    found: dict[UUID, dict[str, int]] = {id: {} for id in batches}
    for row in await many(tx, _COUNTS, batches=list(batches), tenant=tenant):
        found[row["batch_id"]][row["status"]] = row["count"]
    return found


async def unheard(tx: Tx, limit: int, *, look_after: timedelta, warn_after: timedelta) -> Sequence[Row]:
    """Find children that were sent and of which no epoch is known."""
    return await many(tx, _UNHEARD, limit=limit, look_after=look_after, warn_after=warn_after)


async def warn(tx: Tx, notes: Sequence[tuple[UUID, str, str | None]]) -> set[UUID]:
    """Note of tasks (id, what their message is, what a wakeup was answered) that nothing is heard of them."""
    given, statuses, answers = zip(*notes, strict=True)
    rows = await many(tx, _WARN, ids=list(given), statuses=list(statuses), answers=list(answers))
    return {row["id"] for row in rows}


async def ended(tx: Tx, limit: int) -> Sequence[Row]:
    """Find children that have ended and whose tasks are still open."""
    return await many(tx, _ENDED, limit=limit)
