"""Every statement that moves a task, as a function of one row: what it is called with, and whether it says it moved."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel.db import Tx
from ferryman.kernel.pool import Session
from ferryman.tasks import store
from ferryman.tasks.model import Outcome, Park
from ferryman.tasks.states import FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK, TaskState
from ferryman.tasks.store import steps

OWNER = UUID(int=1)
OTHER = UUID(int=2)
EPOCH = 7
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
LEASE, MARGIN = timedelta(seconds=30), timedelta(seconds=5)
LANE = ("default", "default", 10)

# What a row of each state has so that every statement would like to take it, but for its state.
TEMPTING: dict[str, Any] = {
    "epoch": EPOCH, "lease_count": EPOCH, "lease_owner": OWNER, "leased_until": -SECOND, "rank": -SECOND, "wake_at": -SECOND,
    "started_at": -HOUR, "finished_at": None, "attempt": 2, "max_retries": 3, "task_id": "mail_1",
}  # fmt: skip
# The same, as far as a sound row of the state may have it.
SOUND: dict[TaskState, dict[str, Any]] = {
    PENDING: {"wake_at": -SECOND, "due_at": -SECOND},
    READY: {"epoch": EPOCH, "lease_count": EPOCH, "rank": -SECOND, "attempt": 2},
    RUNNING: {"epoch": EPOCH, "lease_count": EPOCH, "lease_owner": OWNER, "leased_until": -SECOND, "attempt": 2},
}


def outcome(id: UUID, state: TaskState, **told: Any) -> Outcome:
    """What the holder of EPOCH says of its task."""
    says: dict[TaskState, dict[str, Any]] = {
        SUCCEEDED: {"result": '{"sent": 1}'},
        FAILED: {"code": "TASK_RETRY_EXHAUSTED", "reason": "TASK_TIMEOUT: too late"},
        READY: {"code": "TASK_EXECUTION_FAILED", "reason": "ValueError: no", "used": 1},
    }
    return Outcome(id, EPOCH, OWNER, state)._replace(**says[state] | told)


async def turn(
    tx: Tx, *outcomes: Outcome, lanes: Any = (), names: Any = ("mail",), behind: Any = ()
) -> tuple[list[Any], list[UUID]]:
    claimed, stale, _busy = await store.turn(
        tx, outcomes, owner=OWNER, lanes=lanes, names=list(names), kinds=[], lease=LEASE, margin=MARGIN, behind=behind
    )
    return claimed, sorted(stale)


Run = Callable[[Session, UUID], Awaitable[bool]]


def _by_turn(state: TaskState) -> Run:
    async def act(tx: Session, task: UUID) -> bool:
        _claimed, stale = await turn(tx, outcome(task, state))
        return stale == []

    return act


def _by_settle(state: TaskState, *, lapsed: bool = False) -> Run:
    async def act(tx: Session, task: UUID) -> bool:
        rows, _busy = await store.settle(tx, [outcome(task, state)], lapsed=lapsed)
        return [row["id"] for row in rows] == [task]

    return act


async def _claim(tx: Session, task: UUID) -> bool:
    claimed, _stale = await turn(tx, lanes=[LANE])
    return [each.id for each in claimed] == [task]


async def _cancel(tx: Session, task: UUID) -> bool:
    return [row["id"] for row in await store.cancel(tx, [task])] == [task]


async def _expire(tx: Session, task: UUID) -> bool:
    rows = await store.cancel(tx, [task], expired=True, code="TASK_EXPIRED", reason="too late")
    return [row["id"] for row in rows] == [task]


async def _promote(tx: Session, _task: UUID) -> bool:
    _count, lanes, _next = await store.promote(tx, limit=10)
    return lanes != []


async def _reclaim(tx: Session, _task: UUID) -> bool:
    return await store.reclaim(tx, owner=OWNER, held=[]) == (1, 0)


async def _park(tx: Session, task: UUID) -> bool:
    parked = await steps.park(tx, [Outcome(task, EPOCH, OWNER, READY, park=Park(names=("go",)))])
    return parked.ids == {task}


async def renew(tx: Session, id: UUID) -> dict[UUID, bool]:
    return await store.renew(tx, [id], [EPOCH], owner=OWNER, lease=LEASE, margin=MARGIN)


async def columns(tx: Session, id: UUID, *names: str) -> dict[str, Any]:
    [row] = await tx.fetch(f"select {', '.join(names)} from ferryman.tasks where id = $1", id)
    return {name: row[name] for name in names}


class Act(NamedTuple):
    """One statement, the declared move it makes, and what the event of that move tells."""

    name: str
    move: str
    act: Run
    code: str | None = None
    reason: str | None = None
    fenced: bool = False
    out_of: frozenset[TaskState] = frozenset()
    more: Mapping[str, Any] = MappingProxyType({})

    @property
    def to(self) -> TaskState:
        return next(move.to for move in TASK.moves if move.name == self.move)

    def applies(self, state: TaskState) -> bool:
        """Whether it moves a row of this state: as declared, unless it is made for some of those states only."""
        return TASK.allows(self.move, state) and (not self.out_of or state in self.out_of)


def _completes(name: str, act: Run) -> Act:
    return Act(name, "complete", act, fenced=True)


def _fails(name: str, act: Run) -> Act:
    return Act(name, "fail", act, "TASK_RETRY_EXHAUSTED", "TASK_TIMEOUT: too late", fenced=True)


def _retries(name: str, act: Run) -> Act:
    return Act(name, "retry", act, "TASK_EXECUTION_FAILED", "ValueError: no", fenced=True)


ACTS: list[Act] = [
    _completes("turn_won", _by_turn(SUCCEEDED)),
    _fails("turn_lost", _by_turn(FAILED)),
    _retries("turn_retried", _by_turn(READY)),
    Act("turn_claimed", "claim", _claim),
    _completes("settle_won", _by_settle(SUCCEEDED)),
    _fails("settle_lost", _by_settle(FAILED)),
    _retries("settle_retried", _by_settle(READY)),
    _retries("reap_retried", _by_settle(READY, lapsed=True)),
    _fails("reap_ended", _by_settle(FAILED, lapsed=True)),
    Act("cancel", "cancel", _cancel),
    Act(
        "expire", "cancel", _expire, "TASK_EXPIRED", "too late",
        out_of=frozenset({PENDING, READY}), more=MappingProxyType({"ends_at": -SECOND}),
    ),
    Act("promote", "promote", _promote),
    Act("park", "park", _park, reason="parked", fenced=True),
    Act("reclaim", "retry", _reclaim, reason="handed back", fenced=True),
]  # fmt: skip
