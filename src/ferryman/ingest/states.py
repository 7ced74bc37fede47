"""What plans, slices, tasks, runs and batches can be, and what ends them (I1)."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move

CODE = "INGEST_INVALID_TRANSITION"


class PlanState(StrEnum):
    """The states of source 002, in its spelling."""

    DRAFT = "DRAFT"
    SLICING = "SLICING"
    READY = "READY"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"


# A plan is made in one transaction: nobody sees it before its slices are known, and its bound is that transaction's.
PLAN = Machine(
    name="INGEST_PLAN",
    table="ingest_plan",
    column="status",
    states=PlanState,
    initial={PlanState.DRAFT},
    moves=[
        move("slice", out_of=[PlanState.DRAFT], to=PlanState.SLICING),
        move("ready", out_of=[PlanState.SLICING], to=PlanState.READY),
        move("part", out_of=[PlanState.SLICING], to=PlanState.PARTIAL),
        move("fail", out_of=[PlanState.DRAFT, PlanState.SLICING], to=PlanState.FAILED),
    ],
    present={"finished_at": {PlanState.READY, PlanState.PARTIAL, PlanState.FAILED}},
    ends_by={
        PlanState.DRAFT: Bound(rule="I1", column="ends_at"),
        PlanState.SLICING: Bound(rule="I1", column="ends_at"),
    },
    code=CODE,
)


class SliceState(StrEnum):
    """A slice is ready when its task is derived; a re-sliced one stays so and names its successors."""

    PENDING = "PENDING"
    READY = "READY"
    FAILED = "FAILED"


SLICE = Machine(
    name="INGEST_SLICE",
    table="ingest_slice",
    column="status",
    states=SliceState,
    initial={SliceState.PENDING},
    moves=[
        move("derive", out_of=[SliceState.PENDING], to=SliceState.READY),
        move("fail", out_of=[SliceState.PENDING], to=SliceState.FAILED),
        move("expire", out_of=[SliceState.PENDING], to=SliceState.FAILED, repair=True),
    ],
    ends_by={SliceState.PENDING: Bound(rule="I3", column="ends_at")},
    code=CODE,
)


class TaskState(StrEnum):
    """Partial is no failure: something was done, and what remains is the planner's."""

    QUEUED = "QUEUED"
    DISPATCHED = "DISPATCHED"
    EXECUTING = "EXECUTING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"


_QUEUED, _DISPATCHED, _EXECUTING = TaskState.QUEUED, TaskState.DISPATCHED, TaskState.EXECUTING
_ENDED = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PARTIAL, TaskState.CANCELLED}

TASK = Machine(
    name="INGEST_TASK",
    table="ingest_task",
    column="status",
    states=TaskState,
    initial={_QUEUED},
    moves=[
        move("claim", out_of=[_QUEUED], to=_DISPATCHED),
        move("execute", out_of=[_DISPATCHED], to=_EXECUTING, fenced=True),
        move("succeed", out_of=[_EXECUTING], to=TaskState.SUCCEEDED, fenced=True),
        move("part", out_of=[_EXECUTING], to=TaskState.PARTIAL, fenced=True),
        move("fail", out_of=[_DISPATCHED, _EXECUTING], to=TaskState.FAILED, fenced=True),
        move("requeue", out_of=[_DISPATCHED, _EXECUTING], to=_QUEUED, fenced=True),
        move("return", out_of=[_DISPATCHED, _EXECUTING], to=_QUEUED, repair=True),
        move("stick", out_of=[_DISPATCHED, _EXECUTING], to=TaskState.FAILED, repair=True),
        move("cancel", out_of=[_QUEUED, _DISPATCHED, _EXECUTING], to=TaskState.CANCELLED),
    ],
    present={
        "lease_owner": {_DISPATCHED, _EXECUTING},
        "leased_until": {_DISPATCHED, _EXECUTING},
        "rank": {_QUEUED},
        "finished_at": _ENDED,
    },
    ends_by={
        _QUEUED: Bound(rule="I5", column="ends_at"),
        _DISPATCHED: Bound(rule="W15", column="leased_until"),
        _EXECUTING: Bound(rule="W15", column="leased_until"),
    },
    code=CODE,
)


class RunState(StrEnum):
    """One attempt at a task."""

    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"


_PLANNED, _RUNNING = RunState.PLANNED, RunState.RUNNING

RUN = Machine(
    name="INGEST_RUN",
    table="ingest_run",
    column="status",
    states=RunState,
    initial={_PLANNED},
    moves=[
        move("run", out_of=[_PLANNED], to=_RUNNING, fenced=True),
        move("succeed", out_of=[_RUNNING], to=RunState.SUCCEEDED, fenced=True),
        move("part", out_of=[_RUNNING], to=RunState.PARTIAL, fenced=True),
        move("fail", out_of=[_PLANNED, _RUNNING], to=RunState.FAILED, fenced=True),
        move("lose", out_of=[_PLANNED, _RUNNING], to=RunState.FAILED, repair=True),
        move("cancel", out_of=[_PLANNED, _RUNNING], to=RunState.CANCELLED),
    ],
    present={
        "leased_until": {_PLANNED, _RUNNING},
        "finished_at": {RunState.SUCCEEDED, RunState.FAILED, RunState.PARTIAL, RunState.CANCELLED},
    },
    ends_by={
        _PLANNED: Bound(rule="W15", column="leased_until"),
        _RUNNING: Bound(rule="W15", column="leased_until"),
    },
    code=CODE,
)


class BatchState(StrEnum):
    """One page. Only one that succeeded is met by a replay."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


BATCH = Machine(
    name="INGEST_BATCH",
    table="ingest_batch",
    column="status",
    states=BatchState,
    initial={BatchState.RUNNING},
    moves=[
        move("succeed", out_of=[BatchState.RUNNING], to=BatchState.SUCCEEDED, fenced=True),
        move("fail", out_of=[BatchState.RUNNING], to=BatchState.FAILED, fenced=True),
        move("lose", out_of=[BatchState.RUNNING], to=BatchState.FAILED, repair=True),
        move("skip", out_of=[BatchState.RUNNING], to=BatchState.SKIPPED, fenced=True),
    ],
    present={
        "ends_by": {BatchState.RUNNING},
        "committed_at": {BatchState.SUCCEEDED},
    },
    ends_by={BatchState.RUNNING: Bound(rule="W15", column="ends_by")},
    code=CODE,
)

MACHINES = (PLAN, SLICE, TASK, RUN, BATCH)
