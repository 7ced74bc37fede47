"""The one way in under flow control: singletons, debounced calls, keys, and queues that may be full (T17).

Whoever lets tasks be born goes through here when one of them must look first: creates, children of a handler, firings of a
schedule. In one transaction. First a task is looked for by whatever it could be met by, so that a repeat is answered however
full the queue is; then the queues that bound their depth are locked and counted. Who has no answer by then is let in, and
is born by its own statement. What was born by another meanwhile is met in the next round.

A create may be answered with a task that is there. A task whose end is owed to somebody (it carries a callback) may not: that
other one would never tell its end there. So it is refused instead, with TASK_ALREADY_LIVE, or TASK_QUEUE_FULL where a
full queue coalesces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from ferryman.kernel import errors
from ferryman.kernel.db import READ_COMMITTED, Row, Tx
from ferryman.tasks import store
from ferryman.tasks.birth import TRIES, compare, newborn, place
from ferryman.tasks.joins import cancel_free
from ferryman.tasks.model import Created, Draft, NewTask, TaskRecord
from ferryman.tasks.store import flows, schedules

REFUSE, CANCEL, COALESCE = "refuse_newest", "cancel_oldest", "coalesce"
MADE_ROOM = "made room for a newer task"


Answer = Created | errors.FerrymanError


class Looks(Protocol):
    """Who knows whether a task must look before it is stored."""

    def __call__(self, task: NewTask, /) -> bool:
        """Tell it of one task."""


def keyed(task: NewTask) -> bool:
    """Tell it by the task alone, where nothing is known of its queue."""
    return task.keyed


class Flowed(NamedTuple):
    """What became of a set: an answer for each, and which tasks were cancelled to make room."""

    answers: list[Answer]
    displaced: list[UUID]


@dataclass
class Admitted:
    """What a look came to: answers for those that are not to be born, by place, and which tasks were cancelled for the rest."""

    answers: dict[int, Answer] = field(default_factory=dict)
    displaced: list[UUID] = field(default_factory=list)


async def admit(tx: Tx, drafts: Sequence[Draft]) -> Admitted:
    """Look for each of these whether it may be born, in the caller's transaction; who has no answer may."""
    coming = _Coming(drafts)
    await coming.admit(tx)
    return Admitted(coming.answers, coming.displaced)


async def create(tx: Tx, drafts: Sequence[Draft], *, ends_after: timedelta) -> Flowed:
    """Create tasks in the caller's transaction, and answer for each with what exists now."""
    coming = _Coming(drafts)
    for _ in range(TRIES):
        await coming.admit(tx)
        if coming.waiting:
            await coming.be_born(tx, ends_after)
        if not coming.waiting:
            break
    for n in coming.waiting:
        coming.answers[n] = errors.TaskDuplicate("A task with this key exists and cannot be shown.")
    return Flowed([coming.answers[n] for n in range(len(drafts))], coming.displaced)


class _Coming:
    """A set of drafts on its way in."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts = drafts
        self.answers: dict[int, Answer] = {}
        self.displaced: list[UUID] = []
        # By key: of two sets that share keys, one waits for the other's first and then for no more.
        self.waiting = sorted(range(len(drafts)), key=lambda n: (*_names(drafts[n]), *place(drafts[n].task)))

    def _answer(self, n: int, answer: Answer) -> None:
        self.answers[n] = answer
        self.waiting.remove(n)

    async def admit(self, tx: Tx) -> None:
        """Answer those that are not to be born."""
        await self._refuse_late(tx)
        if self.waiting:
            await self._meet(tx)
        if self.waiting:
            await self._find_room(tx)

    async def _refuse_late(self, tx: Tx) -> None:
        """Refuse what would wait for quiet until it has to end: it could never run."""
        bounded = [n for n in self.waiting if self._drafts[n].task.quiet and self._drafts[n].task.ends_at]
        now = await schedules.clock(tx) if bounded else None
        for n in bounded:
            quiet, ends_at = self._drafts[n].task.quiet, self._drafts[n].task.ends_at
            assert now is not None
            assert quiet is not None
            assert ends_at is not None
            if now + quiet >= ends_at:
                said = (
                    f"debounce: expected a wait that is over before ends_at ({ends_at}), got {quiet} from now ({now})."
                )
                self._answer(n, errors.TaskInvalidRequest(said, field="debounce"))

    async def _meet(self, tx: Tx) -> None:
        """Answer those that meet an existing task: by their identity, then as singletons, then as calls to be debounced."""
        drafts = self._drafts
        hits: dict[int, dict[str, TaskRecord]] = {}
        tried = list(self.waiting)
        for at, hit, task in await store.existing(tx, [drafts[n].task for n in tried]):
            hits.setdefault(tried[at], {})[hit] = task
        for n, found in hits.items():
            self._answer(n, compare(drafts[n], found))
        await self._meet_others(tx)

    async def _meet_others(self, tx: Tx) -> None:
        tried = [n for n in self.waiting if any(_names(self._drafts[n]))]
        if not tried:
            return
        found = await flows.standing(tx, [self._drafts[n].task for n in tried])
        calls: dict[UUID, tuple[int, TaskRecord]] = {}
        for at, hit, task in found:
            n = tried[at]
            if n not in self.waiting:
                continue
            if self._owes(n):
                self._answer(n, _live(task, hit))
            elif hit == "singleton":
                self._answer(n, Created(task, idempotent_hit=True))
            else:
                calls[task.id] = (n, task)  # of several calls in one set the last one counts
        if calls:
            await self._postpone(tx, calls, {at: task for at, hit, task in found if hit == "debounce"}, tried)

    def _owes(self, n: int) -> bool:
        return self._drafts[n].task.callback is not None

    async def _postpone(
        self, tx: Tx, calls: dict[UUID, tuple[int, TaskRecord]], found: dict[int, TaskRecord], tried: list[int]
    ) -> None:
        said = []
        for id, (n, _task) in sorted(calls.items()):
            task = self._drafts[n].task
            assert task.quiet is not None
            said.append((id, task.payload, task.quiet))
        moved = await flows.postpone(tx, said)
        for at, met in found.items():
            n = tried[at]
            if n in self.waiting and met.id in moved:
                payload = self._drafts[calls[met.id][0]].task.payload
                later = met._replace(due_at=moved[met.id]["due_at"], payload=payload)
                self._answer(n, Created(later, idempotent_hit=True))

    async def _find_room(self, tx: Tx) -> None:
        """Refuse, answer or make room for those whose queue is full."""
        lanes = Counter((self._drafts[n].task.queue, self._drafts[n].task.tenant) for n in self.waiting)
        agreed = {(row["name"], row["tenant"]): row for row in await flows.deep(tx, sorted({q for q, _ in lanes}))}
        bounded = {lane: row for lane in lanes if (row := _bound(agreed, lane)) is not None}
        if not bounded:
            return
        _check_isolation(bounded)
        most = [(*lane, row["max_depth"] + lanes[lane]) for lane, row in bounded.items()]
        depth = await flows.line(tx, most)
        for lane, row in bounded.items():
            over = depth[lane] + lanes[lane] - row["max_depth"]
            if over > 0:
                await self._full(tx, lane, row, over=over)

    async def _full(self, tx: Tx, lane: tuple[str, str], row: Row, *, over: int) -> None:
        queue, tenant = lane
        late = [n for n in sorted(self.waiting) if self._lane(n) == lane][-over:]
        if row["at_limit"] == CANCEL:
            wanted = await flows.oldest(tx, queue, tenant=tenant, limit=over)
            code = errors.TaskQueueFull.code
            gone, children = await cancel_free(tx, wanted, tenant=tenant, code=code, reason=MADE_ROOM)
            self.displaced += [*gone, *children]
            late = late[len(gone) :]
        met = None
        if late and row["at_limit"] == COALESCE:
            found = await flows.newest(tx, queue, tenant=tenant)
            met = None if found is None else await store.get(tx, tenant=tenant, id=found, task_id=None)
        for n in late:
            full = errors.TaskQueueFull(
                f"Queue {queue} holds {row['max_depth']} tasks of tenant {tenant} and takes no more.",
                queue=queue,
                max_depth=row["max_depth"],
            )
            self._answer(n, full if met is None or self._owes(n) else Created(met, idempotent_hit=True))

    def _lane(self, n: int) -> tuple[str, str]:
        task = self._drafts[n].task
        return task.queue, task.tenant

    async def be_born(self, tx: Tx, ends_after: timedelta) -> None:
        """Give birth to those that are left; who met somebody else's at the last moment waits for the next round."""
        born = await store.create(tx, [self._drafts[n].task for n in self.waiting], ends_after=ends_after)
        by_id = {row["id"]: row for row in born}
        for n in list(self.waiting):
            task = self._drafts[n].task
            if task.id in by_id:
                self._answer(n, Created(newborn(task, by_id[task.id]), idempotent_hit=False))


def _names(draft: Draft) -> tuple[str, str]:
    return draft.task.singleton or "", draft.task.debounce or ""


def _live(task: TaskRecord, key: str) -> errors.TaskAlreadyLive:
    return errors.TaskAlreadyLive(
        f"The task {task.task_id} has the same {key} and has not ended.", task_id=str(task.id), key=key
    )


def _check_isolation(bounded: Mapping[tuple[str, str], Row]) -> None:
    """Refuse to count in a transaction that does not see what others have committed since it began."""
    for (queue, _tenant), row in bounded.items():
        if row["isolation"] != READ_COMMITTED:
            raise errors.ConnectionUnfit(
                f"Queue {queue} has max_depth, and this transaction is {row['isolation']}: it does not see the tasks that were "
                f"created since it began, so it cannot count them. Use a {READ_COMMITTED} transaction, or create the task "
                "after your commit. Nothing was stored."
            )


def _bound(agreed: dict[tuple[str, str], Row], lane: tuple[str, str]) -> Row | None:
    """Return the agreement that bounds a lane: the tenant's own, else that of all."""
    for row in (agreed.get(lane), agreed.get((lane[0], "*"))):
        if row is not None and row["max_depth"] is not None:
            return row
    return None
