"""What a command and an async task can be, and what ends them (C7, C8), in the spelling of source 001."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move


class CommandStatus(StrEnum):
    """A command has come in, is worked on, or has ended."""

    RECEIVED = "RECEIVED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


# A command ends with its last task; a cancelled one has failed, and says why.
COMMAND = Machine(
    name="COMMAND",
    table="command_inbox",
    column="status",
    states=CommandStatus,
    initial={CommandStatus.RECEIVED},
    moves=[
        move("process", out_of=[CommandStatus.RECEIVED], to=CommandStatus.PROCESSING),
        move("complete", out_of=[CommandStatus.PROCESSING], to=CommandStatus.COMPLETED),
        move("fail", out_of=[CommandStatus.RECEIVED, CommandStatus.PROCESSING], to=CommandStatus.FAILED),
    ],
    present={
        "finished_at": {CommandStatus.COMPLETED, CommandStatus.FAILED},
        "error_message": {CommandStatus.FAILED},
    },
    ends_by={
        CommandStatus.RECEIVED: Bound(rule="W14", column="deadline_at"),
        CommandStatus.PROCESSING: Bound(rule="W14", column="deadline_at"),
    },
    code="COMMAND_INVALID_TRANSITION",
)


class AsyncTaskStatus(StrEnum):
    """An async task waits for its time, is under way, or has ended."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_LIVE = (AsyncTaskStatus.PENDING, AsyncTaskStatus.RUNNING)

# Born RUNNING, as in the source: the retries of its capability stay inside that state. PENDING is what is to start later.
ASYNC_TASK = Machine(
    name="ASYNC_TASK",
    table="async_tasks",
    column="status",
    states=AsyncTaskStatus,
    initial={AsyncTaskStatus.PENDING, AsyncTaskStatus.RUNNING},
    moves=[
        move("start", out_of=[AsyncTaskStatus.PENDING], to=AsyncTaskStatus.RUNNING),
        move("complete", out_of=_LIVE, to=AsyncTaskStatus.COMPLETED),
        move("fail", out_of=_LIVE, to=AsyncTaskStatus.FAILED),
        move("cancel", out_of=_LIVE, to=AsyncTaskStatus.CANCELLED),
    ],
    present={
        "completed_at": {AsyncTaskStatus.COMPLETED, AsyncTaskStatus.FAILED, AsyncTaskStatus.CANCELLED},
    },
    ends_by={
        AsyncTaskStatus.PENDING: Bound(rule="W14", column="deadline_at"),
        AsyncTaskStatus.RUNNING: Bound(rule="W14", column="deadline_at"),
    },
    code="ASYNC_TASK_INVALID_TRANSITION",
)
