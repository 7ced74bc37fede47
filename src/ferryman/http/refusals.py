"""Which problems an operation may answer with: the codes of the OpenAPI document, under `x-problems` (K20).

What stands before every route, and what comes of reading a body or of a name in a path, follows from the operation itself. What
a door refuses beside that is written down here, by operation. The clients of the HTTP tests refuse a code that is not declared
for the operation they asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ferryman.http import problems
from ferryman.kernel import errors
from ferryman.kernel.machine import Machine
from ferryman.relays.states import WEBHOOK
from ferryman.tasks.states import SCHEDULE

# A kind of errors; or a lifecycle, whose refusal of a move has a code of its own.
Refusal = type[errors.FerrymanError] | Machine[Any]
Errors = Sequence[Refusal]

ANYBODY: Final[Errors] = (
    errors.FerrymanError,
    errors.RateExceeded,
    errors.HeadTooLarge,
    errors.RequestInvalid,
    errors.RequestTimedOut,
)
AWAY: Final[Errors] = (errors.DatabaseUnavailable, errors.DatabaseDamaged, errors.DatabaseNotMigrated)
KNOWN: Final[Errors] = (
    errors.Unauthenticated, errors.Forbidden, errors.HostRefused, errors.TaskInvalidRequest, *AWAY,
)  # fmt: skip
BODY: Final[Errors] = (errors.BodyTooLarge, errors.MediaUnknown)

# Names in a path, and what is told when nothing has them.
NAMED: Final[Mapping[str, Errors]] = {
    "task_id": [errors.TaskNotFound],
    "schedule_id": [errors.ScheduleNotFound],
    "agent_id": [errors.AgentNotFound, errors.AgentInvalidRequest],
    "turn_id": [errors.TurnNotFound],
    "batch_id": [errors.BatchNotFound],
    "box_id": [errors.BoxNotFound],
    "card_id": [errors.CardNotFound],
    "tool_call_id": [errors.CallNotFound, errors.AgentNotFound, errors.AgentInvalidRequest],
    "command_id": [errors.CommandNotFound],
    "correlation_id": [errors.CommandNotFound],
    "async_task_id": [errors.AsyncTaskNotFound],
    "plan_id": [errors.IngestNotFound],
    "webhook": [errors.WebhookNotFound, errors.WebhookInvalid],
    "delivery_id": [errors.DeliveryNotFound, errors.DeliveryNotDead],
    "token_id": [errors.TokenNotFound],
    "consumer": [errors.UnknownId],
}

_PAYLOAD: Final[Errors] = (errors.TaskInvalidPayload, errors.TaskUnknownHandler)
_CREATE: Final[Errors] = (
    *_PAYLOAD, errors.TaskInvalidSchedule, errors.TaskDuplicate, errors.TaskAlreadyLive, errors.TaskQueueFull,
    errors.ScheduleBusy, errors.UnknownQueue, errors.QueueInvalid,
)  # fmt: skip
_QUEUE: Final[Errors] = (errors.UnknownQueue, errors.QueueInvalid)
_PLAN: Final[Errors] = (
    errors.IngestInvalidRequest, errors.IngestInvalidWindow, errors.IngestInvalidExpression, errors.IngestUnknownSource,
    errors.IngestNotFound,
)  # fmt: skip
_HELD: Final[Errors] = (errors.WorkerUnknown, errors.TaskNotFound, errors.LeaseLost, errors.TaskInvalidPayload)
_COMPLETE: Final[Errors] = (errors.CommandInvalidRequest, errors.AsyncTaskEnded)

RAISED: Final[Mapping[str, Errors]] = {
    "POST /v1/tasks": _CREATE,
    "POST /v1/tasks/bulk": _CREATE,
    "POST /v1/tasks/{task_id}/events": (errors.TaskEnded, errors.TaskInvalidPayload),
    "POST /v1/tasks/{task_id}/retry": (errors.TaskQueueFull, errors.TaskAlreadyLive),
    "GET /v1/tasks/{task_id}": (errors.PayloadSealed,),
    "GET /v1/tasks/{task_id}/result": (errors.PayloadSealed,),
    "POST /v1/schedules": _CREATE,
    "POST /v1/schedules/{schedule_id}/pause": (errors.ScheduleBusy, SCHEDULE),
    "POST /v1/schedules/{schedule_id}/resume": (errors.ScheduleBusy, SCHEDULE),
    "POST /v1/schedules/{schedule_id}/trigger": (
        errors.ScheduleBusy,
        SCHEDULE,
        errors.TaskQueueFull,
        errors.TaskAlreadyLive,
    ),
    "DELETE /v1/schedules/{schedule_id}": (errors.ScheduleBusy, SCHEDULE),
    "GET /v1/queues/{name}": _QUEUE,
    "GET /v1/queues/{name}/holders": _QUEUE,
    "PATCH /v1/queues/{name}": _QUEUE,
    "POST /v1/queues/{name}/pause": _QUEUE,
    "POST /v1/queues/{name}/resume": _QUEUE,
    "PATCH /v1/operations/queues/{name}": _QUEUE,
    "POST /v1/operations/queues/{name}/pause": _QUEUE,
    "POST /v1/operations/queues/{name}/resume": _QUEUE,
    "GET /v1/explain/{id}": (errors.UnknownId, errors.TaskNotFound),
    "POST /v1/agents": (errors.AgentInvalidRequest, errors.AgentDuplicate),
    "POST /v1/agents/{agent_id}/turns": (errors.TurnRefused, errors.TurnDuplicate, errors.BoxNotFound),
    "GET /v1/agents/{agent_id}/turns": (errors.TurnNotFound,),
    "POST /v1/agents/{agent_id}/wakeup": (errors.TurnRefused,),
    "POST /v1/turns/{turn_id}/stop": (errors.TurnRefused, errors.TurnLost),
    "POST /v1/tool-results/{tool_call_id}": (errors.TurnRefused, errors.TurnLost, errors.TaskInvalidPayload),
    "POST /v1/batches": (errors.BatchRefused, errors.BatchDuplicate, errors.AgentInvalidRequest),
    "POST /v1/commands": (errors.CommandInvalidRequest, errors.CommandUnknownType, errors.CommandDuplicate),
    "POST /v1/commands/{command_id}/cancel": (errors.CommandInvalidRequest,),
    "POST /v1/async-tasks/complete": (*_COMPLETE, errors.AsyncTaskNotFound),
    "POST /v1/async-tasks/{async_task_id}/complete": _COMPLETE,
    "POST /v1/async-tasks/{async_task_id}/progress": _COMPLETE,
    "POST /v1/async-tasks/{async_task_id}/cancel": _COMPLETE,
    "POST /v1/ingest/plans": _PLAN,
    "POST /v1/ingest/backfills": _PLAN,
    "POST /v1/ingest/schedules": (*_PLAN, errors.TaskInvalidSchedule),
    "POST /v1/ingest/cursors/rewind": (*_PLAN, errors.IngestCursorMoved),
    "GET /v1/ingest/blackbox/{id}": (errors.IngestNotFound,),
    "POST /v1/webhooks": (errors.WebhookInvalid, errors.WebhookDuplicate, errors.SettingsInvalid),
    "POST /v1/webhooks/{webhook}/pause": (WEBHOOK,),
    "POST /v1/webhooks/{webhook}/resume": (WEBHOOK,),
    "POST /v1/webhooks/{webhook}/rotate": (errors.SettingsInvalid, WEBHOOK),
    "DELETE /v1/webhooks/{webhook}": (WEBHOOK,),
    "GET /v1/webhooks/{webhook}/secret": (errors.SettingsInvalid,),
    "POST /v1/tokens": (errors.TokenInvalid, errors.TokenDuplicate),
    "POST /v1/worker/claim": (errors.WorkerUnknown,),
    "POST /v1/worker/complete": (*_HELD, errors.TaskInvalidResult),
    "POST /v1/worker/fail": _HELD,
    "POST /v1/worker/release": _HELD,
    "POST /v1/worker/progress": _HELD,
    "POST /v1/worker/heartbeat": (errors.WorkerUnknown,),
    "POST /v1/worker/goodbye": (errors.WorkerUnknown,),
}


def declare(paths: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    """Write into the operations of a document which codes they may answer with, by status."""
    for path, operations in paths.items():
        for method, operation in operations.items():
            operation["x-problems"] = _told(_of(f"{method.upper()} {path}", operation))


def _of(name: str, operation: Mapping[str, Any]) -> Iterable[Refusal]:
    named = (NAMED.get(each["name"], ()) for each in operation.get("parameters", ()) if each["in"] == "path")
    return [
        *ANYBODY,
        *(KNOWN if "x-scope" in operation else AWAY),
        *(BODY if "requestBody" in operation else ()),
        *(each for some in named for each in some),
        *RAISED.get(name, ()),
    ]


def _told(raised: Iterable[Refusal]) -> dict[str, list[str]]:
    found: dict[int, set[str]] = {}
    for each in raised:
        kind = errors.InvalidTransition if isinstance(each, Machine) else each
        found.setdefault(problems.status_of(kind), set()).add(each.code)
    return {str(status): sorted(found[status]) for status in sorted(found)}
