"""Scenes of one parent and two children, each at one point of their lives, with all that can happen to them due.

The parent's lease or time is over, so that the watchdog, a worker and whoever sends or cancels can all mean the same rows.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import ids
from ferryman.kernel.pool import Session
from ferryman.tasks import joins
from ferryman.tasks.states import READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.testing.plants import plant

EPOCH = 1
EVENT = "go"
HOLDER = ids.boot_id()
SECOND = timedelta(seconds=1)


class Family(NamedTuple):
    """A parent and the children it waits for."""

    parent: UUID
    children: tuple[UUID, UUID]


class Ground(NamedTuple):
    """How the family stands before both begin."""

    state: TaskState
    parent: dict[str, Any]
    children: dict[str, Any] = {}  # noqa: RUF012 - read only
    open: int | None = None  # how many ends a parked parent waits for
    ended: int = 0  # how many of the children have ended
    sent: bool = False  # whether an event is there that nobody was told of


HELD = {"epoch": EPOCH, "lease_count": EPOCH}
LEASED = {"lease_owner": HOLDER, "leased_until": timedelta(seconds=30)}
LAPSED = {"lease_owner": HOLDER, "leased_until": -SECOND}
PARKED = {"rank": None, "wake_at": -SECOND, "due_at": -SECOND}
LAST = {"max_retries": 0}

GROUNDS = {
    "running": Ground(RUNNING, LAPSED),
    "last attempt": Ground(RUNNING, LAPSED | LAST, LAPSED | LAST),
    "parked": Ground(READY, PARKED, open=2),
    "parked too long": Ground(READY, PARKED | {"ends_at": -SECOND}, open=2),
    "last child": Ground(READY, PARKED | {"wake_at": timedelta(days=1)}, LAPSED | LAST, open=1, ended=1),
    "stuck": Ground(READY, PARKED | {"wake_at": timedelta(days=1)}, open=2, sent=True),
    "strays": Ground(SUCCEEDED, {}),
}


async def lay(tx: Session, ground: Ground) -> Family:
    """Plant a family with the log of its life so far."""
    parent = await plant(tx, TASK, ground.state, **HELD | ground.parent)
    await _tell(tx, parent, ("ready", "running", ground.state.value))
    children = []
    for nth in (1, 2):
        ended = nth > 2 - ground.ended
        state = SUCCEEDED if ended else RUNNING
        owed = {"callback": joins.CHILD, "callback_ref": str(parent)}
        columns = {} if ended else LEASED | ground.children
        children.append(await plant(tx, TASK, state, **HELD | owed | columns))
        await _tell(tx, children[-1], ("ready", "running", state.value))
        await tx.fetch(
            "insert into ferryman.task_steps (task, kind, name, nth, child, state, at)"
            " values ($1, 'child', 'mail', $2, $3, $4, ferryman.clock())",
            parent, nth, children[-1], "done" if ended else "open",
        )  # fmt: skip
    if ground.open is not None:
        await tx.fetch(
            "insert into ferryman.task_waits (task, epoch, open, children, names) values ($1, $2, $3, $4, $5)",
            parent, EPOCH, ground.open, children, [EVENT],
        )  # fmt: skip
    if ground.sent:
        await tx.fetch(
            "insert into ferryman.task_signals (task, at, name) values ($1, ferryman.clock(), $2)", parent, EVENT
        )
    return Family(parent, (children[0], children[1]))


async def _tell(tx: Session, task: UUID, went: Sequence[str]) -> None:
    for before, after in pairwise(went):
        if before != after:
            await tx.fetch(
                "insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)"
                " values (ferryman.clock(), $1, 1, 'default', 'task', $2, $3)",
                task, before, after,
            )  # fmt: skip


FOUND = """
select to_jsonb(found)::text as row
from (
    select task.id, task.state, task.attempt, task.epoch, task.roused, task.last_error_code as why,
           task.rank is not null as claimable, task.wake_at is not null as sleeps,
           (select wait.open from ferryman.task_waits as wait
            where wait.task = task.id and wait.epoch = task.epoch
              and task.state = 'ready' and task.wake_at is not null) as open,
           (select step.state from ferryman.task_steps as step where step.child = task.id) as known,
           (select count(*) from ferryman.task_signals as signal where signal.task = task.id) as sent,
           array(select event.to_state from ferryman.events as event where event.subject = task.id order by event.id) as went
    from ferryman.tasks as task
) as found
order by found.id
"""


async def found(tx: Session) -> list[str]:
    """Say what has become of each of the family."""
    return [row["row"] for row in await tx.fetch(FOUND)]
