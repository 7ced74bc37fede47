"""Questions: how far batches are, and what became of their tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ferryman.batches.model import BatchRecord, TaskRecord
from ferryman.batches.store import batches as records
from ferryman.batches.store import tasks as rows
from ferryman.kernel.db import Tx


@dataclass
class Tree:
    """A batch with its tasks, and the batches that their turns forked, by the task."""

    batch: BatchRecord
    tasks: Sequence[TaskRecord]
    under: dict[UUID, list[Tree]] = field(default_factory=dict)


async def batches(tx: Tx, ids: Collection[UUID], *, tenant: str) -> list[BatchRecord]:
    """Read batches."""
    return await records.get(tx, ids, tenant=tenant)


async def listed(tx: Tx, *, tenant: str, status: str | None, before: UUID | None, limit: int) -> list[BatchRecord]:
    """Read a page of batches, newest first."""
    return await records.listed(tx, tenant=tenant, status=status, before=before, limit=limit)


async def tasks(tx: Tx, batch: UUID) -> list[TaskRecord]:
    """Read the tasks of a batch, in order."""
    return (await rows.of(tx, [batch]))[batch]


async def tasks_of(tx: Tx, batches: Collection[UUID]) -> dict[UUID, list[TaskRecord]]:
    """Read the tasks of several batches, each in order."""
    return await rows.of(tx, batches)


async def counts(tx: Tx, batches: Collection[UUID], *, tenant: str) -> dict[UUID, dict[str, int]]:
    """Count the tasks of batches by their status."""
    return await rows.counts(tx, batches, tenant=tenant)


async def forked(tx: Tx, turn: UUID, agent_id: str, *, tenant: str) -> list[BatchRecord]:
    """Read the batches that a turn of an agent forked, in order."""
    return await records.under(tx, {turn: agent_id}, tenant=tenant)


async def tree(tx: Tx, batch: BatchRecord) -> Tree:
    """Read a batch and all that it led to, level by level."""
    root = Tree(batch, ())
    level = [root]
    while level:
        found = await rows.of(tx, [each.batch.id for each in level])
        owners: dict[UUID, tuple[Tree, TaskRecord]] = {}
        for each in level:
            each.tasks = found[each.batch.id]
            owners |= {task.current_agent_turn_id: (each, task) for task in each.tasks if task.current_agent_turn_id}
        agents = {turn: task.agent_id for turn, (_, task) in owners.items()}
        level = []
        for record in await records.under(tx, agents, tenant=batch.tenant) if agents else ():
            if record.parent_agent_turn_id in owners:
                holder, task = owners[record.parent_agent_turn_id]
                holder.under.setdefault(task.id, []).append(made := Tree(record, ()))
                level.append(made)
    return root
