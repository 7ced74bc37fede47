"""What should happen: what may be asked for, how a batch ends, what its parent is told, when a dispatch is tried again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from ferryman.agents.model import Accepted, Answer, Busy, Failed, Rejected
from ferryman.batches.model import Allowed, BatchRecord, Beside, NewBatch, TaskRecord
from ferryman.batches.rules.asked import RETIRED, check_channel, read, read_id, refusal
from ferryman.batches.rules.told import AUTHOR, content, result, view_of
from ferryman.batches.states import FAILURES, PARTIAL, SUCCESS, TERMINAL, TIMEOUT, BatchStatus, TaskStatus
from ferryman.kernel import retry

__all__ = [
    "AUTHOR",
    "BATCH",
    "DISPATCH",
    "EXHAUSTED",
    "NO_DELIVERABLE",
    "NO_RESULT",
    "RETIRED",
    "UNAVAILABLE",
    "UNREADABLE",
    "check_channel",
    "content",
    "differences",
    "dispatch_error",
    "packed",
    "payload_hash",
    "read",
    "read_id",
    "reference",
    "referred",
    "refusal",
    "result",
    "verdict",
    "view_of",
]

# Who is told of a child's end.
BATCH = "batch"

DISPATCH = retry.Backoff.listed([timedelta(seconds=each) for each in (2, 4, 8, 16, 30)])
EXHAUSTED = "dispatch_retry_exhausted"
UNAVAILABLE = "downstream_unavailable"
NO_DELIVERABLE, UNREADABLE = "missing_deliverable_card_id", "deliverable_read_failed"
NO_RESULT = "tool_result_not_found"


def reference(batch: UUID, task: UUID) -> str:
    """Return what a child's callback carries."""
    return f"{batch}/{task}"


def referred(ref: str | None) -> tuple[UUID, UUID] | None:
    """Read what a child's callback carries; None for what is none of ours."""
    try:
        batch, task = (ref or "").split("/")
        return UUID(batch), UUID(task)
    except ValueError:
        return None


def verdict(tasks: Collection[TaskStatus], *, fail_fast: bool) -> BatchStatus | None:
    """Return how the batch ends, or None while it must go on."""
    met = set(tasks)
    if fail_fast and met & FAILURES:
        return BatchStatus.FAILED
    if not met <= TERMINAL:
        return None
    if met == {SUCCESS}:
        return BatchStatus.SUCCESS
    if SUCCESS in met:
        return BatchStatus.PARTIAL
    for told, means in (
        (TaskStatus.FAILED, BatchStatus.FAILED), (TIMEOUT, BatchStatus.TIMEOUT), (PARTIAL, BatchStatus.PARTIAL)
    ):  # fmt: skip
        if told in met:
            return means
    return BatchStatus.FAILED


def dispatch_error(answer: Answer) -> str | None:
    """Return why a task can never be dispatched, or None when it was, or may be later."""
    match answer:
        case Rejected(code=code):
            return f"dispatch_rejected:{code}" if code else "dispatch_rejected"
        case Failed(code=code) if code != "internal_error":
            return f"dispatch_error:{code}" if code else "dispatch_error"
        case Accepted() | Busy() | Failed():
            return None


def differences(asked: NewBatch, there: BatchRecord, beside: Beside, tasks: Sequence[TaskRecord]) -> list[str]:
    """Name the fields in which a request differs from the batch that it met."""
    same = {
        "tasks": len(asked.tasks) == len(tasks),
        "fail_fast": asked.fail_fast == there.fail_fast,
        "deadline_seconds": asked.deadline == there.deadline_at - there.created_at,
        "channel": asked.caller.channel == beside.channel,
        "budget": _bounds(asked.allows) == _bounds(beside.allows),
    }
    for new, old in zip(asked.tasks, tasks, strict=False):
        same[f"tasks[{new.index}]"] = dict(new.args) == json.loads(old.metadata)["task_args"]
    return [name for name, alike in same.items() if not alike]


def _bounds(allows: Allowed | None) -> dict[str, float]:
    return {name: bound for name, bound in (allows or {}).items() if bound is not None}


def payload_hash(parts: Mapping[str, Any]) -> str:
    """Return what tells the payload of a task from others."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def packed(inherited: Iterable[Sequence[UUID]], *own: UUID) -> list[UUID]:
    """Return the cards of a context box: what is inherited, in order and without repeats, then the task's own."""
    return list(dict.fromkeys([card for box in inherited for card in box] + list(own)))
