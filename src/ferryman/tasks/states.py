"""What a task can be, and what ends it."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move


class TaskState(StrEnum):
    """The states of source 004, in its spelling."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


PENDING, READY, RUNNING = TaskState.PENDING, TaskState.READY, TaskState.RUNNING
SUCCEEDED, FAILED, CANCELLED = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED

TASK = Machine(
    name="TASK",
    table="tasks",
    states=TaskState,
    initial={PENDING, READY},
    moves=[
        move("promote", out_of=[PENDING], to=READY),
        move("claim", out_of=[READY], to=RUNNING),
        move("complete", out_of=[RUNNING], to=SUCCEEDED, fenced=True),
        move("fail", out_of=[RUNNING], to=FAILED, fenced=True),
        move("retry", out_of=[RUNNING], to=READY, fenced=True),
        move("park", out_of=[RUNNING], to=READY, fenced=True),
        move("cancel", out_of=[PENDING, READY, RUNNING], to=CANCELLED),
    ],
    present={
        "leased_until": {RUNNING},
        "lease_owner": {RUNNING},
        "finished_at": {SUCCEEDED, FAILED, CANCELLED},
    },
    ends_by={
        PENDING: Bound(rule="T21", column="ends_at"),
        READY: Bound(rule="T21", column="ends_at"),
        RUNNING: Bound(rule="W13", column="leased_until"),
    },
    code="TASK_INVALID_TRANSITION",
)


class ScheduleState(StrEnum):
    """A schedule fires, or waits to be told to, or has ended."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


ACTIVE, PAUSED, ENDED = ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.ENDED

# A firing is no move: it leaves the schedule active, with a later next_run_at. Paused is at rest: nothing is owed there.
SCHEDULE = Machine(
    name="SCHEDULE",
    table="schedules",
    states=ScheduleState,
    initial={ACTIVE},
    moves=[
        move("pause", out_of=[ACTIVE], to=PAUSED),
        move("resume", out_of=[PAUSED], to=ACTIVE),
        move("end", out_of=[ACTIVE, PAUSED], to=ENDED),
        move("run_out", out_of=[ACTIVE], to=ENDED),
    ],
    present={
        "next_run_at": {ACTIVE},
        "ended_at": {ENDED},
    },
    resting={PAUSED},
    ends_by={ACTIVE: Bound(rule="T10", column="next_run_at")},
    code="SCHEDULE_INVALID_TRANSITION",
)
