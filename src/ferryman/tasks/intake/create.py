"""Creating tasks: idempotent, in sets, in one round trip when nothing was there before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Inside
from ferryman.tasks import store
from ferryman.tasks.birth import TRIES, born_as, compare, newborn, place, siblings
from ferryman.tasks.model import Created, Draft, SentTwice, TaskRecord
from ferryman.tasks.states import READY

Answer = Created | errors.TaskDuplicate


async def create(tx: Tx, drafts: Sequence[Draft], *, ends_after: timedelta, ring: Inside | None = None) -> list[Answer]:
    """Create tasks, and answer for each with what exists now: born, met, or in conflict (T12).

    The transaction takes the ring along if it can; the ring then says so.
    """
    answers: dict[int, Answer] = {}
    # By key: of two sets that share keys, one waits for the other's first and then for no more.
    waiting = sorted(range(len(drafts)), key=lambda n: place(drafts[n].task))
    for _ in range(TRIES):
        born = await store.create(tx, [drafts[n].task for n in waiting], ends_after=ends_after, ring=ring)
        by_id = {row["id"]: row for row in born}
        met = []
        for n in waiting:
            row = by_id.pop(drafts[n].task.id, None)
            if row is None:
                met.append(n)
            else:
                answers[n] = Created(newborn(drafts[n].task, row), idempotent_hit=False)
        waiting = met
        if waiting:
            waiting = await _meet(tx, drafts, waiting, answers)
        if not waiting:
            break
    for n in waiting:
        answers[n] = errors.TaskDuplicate(
            "A task with this task_id exists and cannot be shown.", conflict_fields=["task_id"]
        )
    return [answers[n] for n in range(len(drafts))]


def lonely(draft: Draft) -> bool:
    """Tell whether a draft can go by the shortest way: a task_id that is a UUID is the id itself, and can meet another's."""
    return store.lonely(draft.task) and "task_id" not in draft.given


async def create_one(tx: Tx, draft: Draft, *, ends_after: timedelta, ring: Inside | None = None) -> Created:
    """Create one task that is due now by a statement that commits itself; one that is there already is an error here."""
    row = await store.create_one(tx, draft.task, ends_after=ends_after, ring=ring)
    born = row["created_at"]
    return Created(born_as(draft.task, READY, born, row["ends_at"], born), False)


class Alike(NamedTuple):
    """A set of tasks to be born that differ only in id and payload."""

    ids: list[UUID]
    payloads: list[str]


def alike_among(drafts: Sequence[Draft]) -> Alike | None:
    """Return drafts as a set that can travel as ids and payloads, or None where they differ in more than that."""
    # A task_id that is a UUID is the id itself, and can meet another's.
    if not store.alike([each.task for each in drafts]) or any("task_id" in each.given for each in drafts):
        return None
    return Alike([each.task.id for each in drafts], [each.task.payload for each in drafts])


def born_alike(first: TaskRecord, alike: Alike) -> list[Created]:
    """Answer for each of a set that was born, given the first of them."""
    records = [first] if len(alike.ids) == 1 else siblings(first, *alike)
    return [Created(each, False) for each in records]  # by name it takes twice as long


async def create_alike(
    tx: Tx, like: Draft, alike: Alike, *, ends_after: timedelta, ring: Inside | None = None
) -> TaskRecord:
    """Create a set of like tasks by a statement that commits itself, and answer with the first of them.

    The others differ from it in id and payload alone.
    """
    try:
        return await add_alike(tx, like, alike, ends_after=ends_after, ring=ring)
    except SentTwice:
        return await made_alike(tx, like, alike)


async def add_alike(
    tx: Tx, like: Draft, alike: Alike, *, ends_after: timedelta, ring: Inside | None = None
) -> TaskRecord:
    """Create a set of like tasks in a transaction; `SentTwice` breaks it."""
    row = await store.create_alike(tx, like.task, alike.ids, alike.payloads, ends_after=ends_after, ring=ring)
    return newborn(like.task._replace(id=alike.ids[0], payload=alike.payloads[0]), row)


async def made_alike(tx: Tx, like: Draft, alike: Alike) -> TaskRecord:
    """Return the first of a set that was sent twice, because the first answer was lost: what is there was made then."""
    made = await store.get(tx, tenant=like.task.tenant, id=alike.ids[0], task_id=None)
    if made is None:
        raise errors.TaskDuplicate("A task with this id exists and cannot be shown.", conflict_fields=["task_id"])
    return made


async def _meet(tx: Tx, drafts: Sequence[Draft], waiting: list[int], answers: dict[int, Answer]) -> list[int]:
    """Answer those that met an existing task; return those for which nothing was found any more."""
    found: dict[int, dict[str, TaskRecord]] = {}
    for at, hit, task in await store.existing(tx, [drafts[n].task for n in waiting]):
        found.setdefault(waiting[at], {})[hit] = task
    for n, hits in found.items():
        answers[n] = compare(drafts[n], hits)
    return [n for n in waiting if n not in found]
