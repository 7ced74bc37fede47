"""What a batch and each of its tasks can be, and what ends them."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move


class BatchStatus(StrEnum):
    """How far a batch is, or how it ended."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    PARTIAL = "partial"


RUNNING = BatchStatus.RUNNING
_CLOSED = {BatchStatus.SUCCESS, BatchStatus.FAILED, BatchStatus.TIMEOUT, BatchStatus.PARTIAL}

BATCH = Machine(
    name="BATCH",
    table="pmo_batches",
    states=BatchStatus,
    initial={RUNNING},
    moves=[
        move("succeed", out_of=[RUNNING], to=BatchStatus.SUCCESS),
        move("fail", out_of=[RUNNING], to=BatchStatus.FAILED),
        move("expire", out_of=[RUNNING], to=BatchStatus.TIMEOUT),
        move("part", out_of=[RUNNING], to=BatchStatus.PARTIAL),
    ],
    present={"finished_at": _CLOSED},
    ends_by={RUNNING: Bound(rule="W10", column="deadline_at")},
    column="status",
    code="BATCH_INVALID_TRANSITION",
)


class TaskStatus(StrEnum):
    """How far a task of a batch is, or how its child's turn ended."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    PARTIAL = "partial"


PENDING, DISPATCHED = TaskStatus.PENDING, TaskStatus.DISPATCHED
SUCCESS, FAILED, CANCELED = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED
TIMEOUT, PARTIAL = TaskStatus.TIMEOUT, TaskStatus.PARTIAL

TERMINAL = frozenset({SUCCESS, FAILED, CANCELED, TIMEOUT, PARTIAL})
# What ends a batch at once when it is to fail fast. A partial result is one that somebody can use.
FAILURES = frozenset({FAILED, CANCELED, TIMEOUT})

BATCH_TASK = Machine(
    name="BATCH_TASK",
    table="pmo_batch_tasks",
    states=TaskStatus,
    initial={PENDING},
    moves=[
        move("dispatch", out_of=[PENDING], to=DISPATCHED),
        move("postpone", out_of=[DISPATCHED], to=PENDING),
        move("succeed", out_of=[DISPATCHED], to=SUCCESS, fenced=True),
        move("part", out_of=[DISPATCHED], to=PARTIAL, fenced=True),
        move("fail", out_of=[PENDING, DISPATCHED], to=FAILED),
        move("cancel", out_of=[PENDING, DISPATCHED], to=CANCELED),
        move("expire", out_of=[PENDING, DISPATCHED], to=TIMEOUT),
    ],
    present={"finished_at": TERMINAL},
    ends_by={
        PENDING: Bound(rule="W10", column="ends_at"),
        DISPATCHED: Bound(rule="W10", column="ends_at"),
    },
    column="status",
    code="BATCH_TASK_INVALID_TRANSITION",
)
