"""What an agent, its messages, its waiting calls and their results can be, and what ends each of them."""

from __future__ import annotations

from enum import StrEnum

from ferryman.kernel.machine import Bound, Machine, move


class HeadState(StrEnum):
    """What an agent is doing: at rest, or one turn."""

    IDLE = "idle"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUSPENDED = "suspended"


IDLE, DISPATCHED = HeadState.IDLE, HeadState.DISPATCHED
RUNNING, SUSPENDED = HeadState.RUNNING, HeadState.SUSPENDED
_BUSY = {DISPATCHED, RUNNING, SUSPENDED}

# A take-over is no move: the turn stays running, with another owner and a greater epoch.
HEAD = Machine(
    name="HEAD",
    table="agent_state_head",
    states=HeadState,
    initial={IDLE},
    moves=[
        move("lease", out_of=[IDLE], to=DISPATCHED),
        move("start", out_of=[DISPATCHED], to=RUNNING),
        move("suspend", out_of=[RUNNING], to=SUSPENDED, fenced=True),
        move("resume", out_of=[SUSPENDED], to=RUNNING),
        move("finish", out_of=[RUNNING], to=IDLE, fenced=True),
        move("stop", out_of=[DISPATCHED, RUNNING, SUSPENDED], to=IDLE),
        move("reap", out_of=[DISPATCHED, RUNNING, SUSPENDED], to=IDLE, repair=True),
    ],
    present={
        "active_agent_turn_id": _BUSY,
        "active_inbox_id": _BUSY,
        "output_box_id": _BUSY,
        "turn_deadline": _BUSY,
        "dispatch_deadline": {DISPATCHED},
        "leased_until": {RUNNING},
        "lease_owner": {RUNNING},
        "resume_deadline": {SUSPENDED},
    },
    resting={IDLE},
    ends_by={
        DISPATCHED: Bound(rule="W6", column="dispatch_deadline"),
        RUNNING: Bound(rule="W7", column="leased_until"),
        SUSPENDED: Bound(rule="W2", column="resume_deadline"),
    },
    column="status",
    id_column="agent_id",
    code="AGENT_INVALID_TRANSITION",
)


class MessageState(StrEnum):
    """How far a message in an agent's inbox is."""

    QUEUED = "queued"
    PENDING = "pending"
    PROCESSING = "processing"
    CONSUMED = "consumed"
    ERROR = "error"
    SKIPPED = "skipped"


QUEUED, PENDING, PROCESSING = MessageState.QUEUED, MessageState.PENDING, MessageState.PROCESSING
CONSUMED, ERROR, SKIPPED = MessageState.CONSUMED, MessageState.ERROR, MessageState.SKIPPED

# A message that is taken in hand by the transaction that brings it is born processing. A result is born consumed:
# nothing is left to be done with it then.
MESSAGE = Machine(
    name="MESSAGE",
    table="agent_inbox",
    states=MessageState,
    initial={QUEUED, PENDING, PROCESSING, CONSUMED},
    moves=[
        move("promote", out_of=[QUEUED], to=PENDING),
        move("take", out_of=[PENDING], to=PROCESSING),
        move("consume", out_of=[PROCESSING], to=CONSUMED),
        move("requeue", out_of=[PROCESSING], to=PENDING, repair=True),
        move("cancel", out_of=[QUEUED], to=SKIPPED),
        move("skip", out_of=[PENDING], to=SKIPPED, repair=True),
        move("refuse", out_of=[QUEUED, PENDING, PROCESSING], to=ERROR),
    ],
    present={
        "pending_at": {PENDING},
        "processed_at": {PROCESSING},
        "archived_at": {CONSUMED, ERROR, SKIPPED},
    },
    ends_by={
        QUEUED: Bound(rule="A3", column="ends_at"),
        PENDING: Bound(rule="A3", column="ends_at"),
        PROCESSING: Bound(rule="A3", column="ends_at"),
    },
    column="status",
    code="MESSAGE_INVALID_TRANSITION",
)


class WaitState(StrEnum):
    """What became of a call that a suspended turn waits for."""

    WAITING = "waiting"
    RECEIVED = "received"
    APPLIED = "applied"
    EXPIRED = "expired"
    DROPPED = "dropped"


WAITING, RECEIVED, APPLIED = WaitState.WAITING, WaitState.RECEIVED, WaitState.APPLIED
EXPIRED, DROPPED = WaitState.EXPIRED, WaitState.DROPPED

WAIT = Machine(
    name="WAIT",
    table="turn_waiting_tools",
    states=WaitState,
    initial={WAITING},
    moves=[
        move("receive", out_of=[WAITING], to=RECEIVED),
        move("apply", out_of=[RECEIVED], to=APPLIED),
        move("expire", out_of=[WAITING], to=EXPIRED),
        move("drop", out_of=[WAITING, RECEIVED], to=DROPPED),
    ],
    ends_by={
        WAITING: Bound(rule="W2", column="deadline_at"),
        RECEIVED: Bound(rule="A18", column="ends_at"),
    },
    column="wait_status",
    id_column="tool_call_id",
    code="WAIT_INVALID_TRANSITION",
)


class ResumeState(StrEnum):
    """How far a result is on its way into the turn that waited for it."""

    PENDING = "pending"
    PROCESSING = "processing"
    APPLIED = "applied"
    DROPPED = "dropped"


# The turn's holder may bring a result to its end after the watchdog has put it back: its fence still holds then.
RESUME = Machine(
    name="RESUME",
    table="turn_resume_ledger",
    states=ResumeState,
    initial={ResumeState.PENDING},
    moves=[
        move("take", out_of=[ResumeState.PENDING], to=ResumeState.PROCESSING),
        move("requeue", out_of=[ResumeState.PROCESSING], to=ResumeState.PENDING, repair=True),
        move("apply", out_of=[ResumeState.PENDING, ResumeState.PROCESSING], to=ResumeState.APPLIED, fenced=True),
        move("drop", out_of=[ResumeState.PENDING, ResumeState.PROCESSING], to=ResumeState.DROPPED),
    ],
    present={
        "lease_owner": {ResumeState.PROCESSING},
        "lease_expires_at": {ResumeState.PROCESSING},
    },
    ends_by={
        ResumeState.PENDING: Bound(rule="A18", column="ends_at"),
        ResumeState.PROCESSING: Bound(rule="W3", column="lease_expires_at"),
    },
    column="status",
    id_column="tool_call_id",
    code="RESUME_INVALID_TRANSITION",
)


class TurnStatus(StrEnum):
    """How a turn ended."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    PARTIAL = "partial"
