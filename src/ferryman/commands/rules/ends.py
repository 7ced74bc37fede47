"""How the end of a task is the end of the async task that it ran for (C6, C7)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from ferryman.commands.model import End
from ferryman.commands.states import AsyncTaskStatus
from ferryman.kernel import errors, payload
from ferryman.tasks.model import Ended
from ferryman.tasks.rules.ending import readable
from ferryman.tasks.states import CANCELLED, SUCCEEDED

__all__ = ["completed", "failed", "of", "readable"]


def of(ended: Ended, id: UUID) -> End:
    """Return how an async task ends whose capability's task has ended so.

    A task that somebody cancelled was cancelled; one that a rule cancelled (expired, known to nobody) has failed, with that
    code.
    """
    node = None if ended.owner is None else str(ended.owner)
    if ended.state is SUCCEEDED:
        return End(id, AsyncTaskStatus.COMPLETED, ended.result, attempt=ended.attempt, node=node)
    code = ended.code or errors.TaskCancelled.code
    if ended.state is CANCELLED and code == errors.TaskCancelled.code:
        reason = ended.reason or "its task was cancelled"
        return End(id, AsyncTaskStatus.CANCELLED, reason_code=code, reason=reason, attempt=ended.attempt)
    return failed(id, code, ended.reason or code, attempt=ended.attempt, node=node)


def completed(id: UUID, result: Any, *, type: str | None, limit: int = payload.LIMIT) -> End:
    """Return the end of an async task by a result that came from outside, in the form that capabilities give it."""
    told = {"type": type, "data": {"result": result}}
    return End(id, AsyncTaskStatus.COMPLETED, payload.encode(told, limit=limit, error=errors.CommandInvalidRequest))


def failed(
    id: UUID, code: str, reason: str, *, attempt: int | None = None, node: str | None = None, more: Any = None
) -> End:
    """Return the end of an async task that has failed: its error_data has a code and a message."""
    error: dict[str, Any] = {"code": code, "message": reason, **({} if attempt is None else {"attempt": attempt})}
    if more is not None:
        error["error"] = more
    return End(
        id, AsyncTaskStatus.FAILED, error=json.dumps(error), reason_code=code, reason=reason, attempt=attempt, node=node
    )
