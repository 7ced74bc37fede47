"""Results from outside: by the id of their async task or, without one, by correlation and type (C5)."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from ferryman.commands.model import Completion, End
from ferryman.commands.orchestrator import Orchestrator
from ferryman.commands.rules import ends, request, types
from ferryman.kernel import errors, payload, telemetry
from ferryman.kernel.db import Tx
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.ports import Owners

REPORTED = "CAPABILITY_FAILED"


async def complete(
    tx: Tx,
    orchestrator: Orchestrator,
    owners: Owners,
    *,
    tenant: str,
    async_task_id: object,
    correlation_id: object,
    type: object,
    result: Any,
    error: Any,
    limit: int,
    after: Aftermath,
) -> Completion:
    """End the async task that this result is of. One that matches nothing changes nothing and is counted."""
    make = _reading(type, result, error, limit)
    if async_task_id is not None:
        end = make(request.check_id(async_task_id, "async_task_id"))
        answer = await orchestrator.complete(tx, owners, end, tenant=tenant, after=after)
    else:
        if correlation_id is None or type is None:
            raise request.refusal("expected it, or correlation_id and type, got neither", "async_task_id")
        command = request.check_id(correlation_id, "correlation_id")
        prefix = types.normalised(str(type))
        answer = await orchestrator.match(tx, owners, command, prefix, make, tenant=tenant, after=after)
    if not answer.changed:
        telemetry.unmatched("async_task", answer.code or "")
    return answer


def _reading(type: object, result: Any, error: Any, limit: int) -> partial[End]:
    """Check what came, and return how the end of a task is made of it."""
    if type is not None:
        request.check_type(type, "type")
    if error is not None and result is not None:
        raise request.refusal("expected one of result and error, got both", "error")
    if error is not None:
        text = (
            error if isinstance(error, str) else payload.encode(error, limit=limit, error=errors.CommandInvalidRequest)
        )
        return partial(_failed, error=error, text=text)
    return partial(ends.completed, result=result, type=None if type is None else str(type), limit=limit)


def _failed(id: UUID, *, error: Any, text: str) -> End:
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    said = message if isinstance(message, str) else text
    return ends.failed(id, code if isinstance(code, str) else REPORTED, ends.readable(said), more=error)
