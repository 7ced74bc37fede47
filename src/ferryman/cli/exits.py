"""Exit codes; they are part of the promise and do not change."""

from __future__ import annotations

from typing import Final

from ferryman.kernel import errors

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
DATABASE: Final = 3
NOT_FOUND: Final = 4
CONFLICT: Final = 5
TIMED_OUT: Final = 6
INTERRUPTED: Final = 130

MEANINGS: Final = {
    OK: "done",
    FAILED: "the doctor found something, the task did not succeed, not all was fetched, the story did not hold, "
    "or the worker broke",
    USAGE: "wrong usage, nothing was done",
    DATABASE: "the database cannot be reached or used",
    NOT_FOUND: "not found",
    CONFLICT: "in conflict with what exists",
    TIMED_OUT: "waited long enough",
    INTERRUPTED: "interrupted",
}

TOLD: Final = "Exit codes: " + "; ".join(f"{code} {says}" for code, says in MEANINGS.items()) + "."

_CODES: Final[tuple[tuple[type[errors.FerrymanError], int], ...]] = (
    (errors.DatabaseUnavailable, DATABASE),
    (errors.DatabaseRefused, DATABASE),
    (errors.StatementRefused, DATABASE),
    (errors.EmbeddedUnavailable, DATABASE),
    (errors.DatabaseNotMigrated, DATABASE),
    (errors.IngestUnknownSource, NOT_FOUND),
    (errors.IngestNotFound, NOT_FOUND),
    (errors.IngestInvalidRequest, USAGE),
    (errors.IngestInvalidWindow, USAGE),
    (errors.IngestInvalidExpression, USAGE),
    (errors.DatabaseTooOld, DATABASE),
    (errors.DatabaseTooNew, DATABASE),
    (errors.MigrationEdited, DATABASE),
    (errors.MigrationFailed, DATABASE),
    (errors.TaskNotFound, NOT_FOUND),
    (errors.UnknownId, NOT_FOUND),
    (errors.AgentNotFound, NOT_FOUND),
    (errors.TurnNotFound, NOT_FOUND),
    (errors.BoxNotFound, NOT_FOUND),
    (errors.CardNotFound, NOT_FOUND),
    (errors.CallNotFound, NOT_FOUND),
    (errors.WorkerUnknown, NOT_FOUND),
    (errors.ScheduleNotFound, NOT_FOUND),
    (errors.UnknownQueue, NOT_FOUND),
    (errors.BatchNotFound, NOT_FOUND),
    (errors.WebhookNotFound, NOT_FOUND),
    (errors.DeliveryNotFound, NOT_FOUND),
    (errors.CommandNotFound, NOT_FOUND),
    (errors.TokenNotFound, NOT_FOUND),
    (errors.TokenDuplicate, CONFLICT),
    (errors.TokenInvalid, USAGE),
    (errors.AsyncTaskNotFound, NOT_FOUND),
    (errors.CommandDuplicate, CONFLICT),
    (errors.CommandInvalidRequest, USAGE),
    (errors.TaskDuplicate, CONFLICT),
    (errors.WebhookDuplicate, CONFLICT),
    (errors.DeliveryNotDead, CONFLICT),
    (errors.TaskEnded, CONFLICT),
    (errors.TaskQueueFull, CONFLICT),
    (errors.ScheduleBusy, CONFLICT),
    (errors.InvalidTransition, CONFLICT),
    (errors.TaskAlreadyLive, CONFLICT),
    (errors.TurnDuplicate, CONFLICT),
    (errors.TurnRefused, CONFLICT),
    (errors.AgentDuplicate, CONFLICT),
    (errors.BatchDuplicate, CONFLICT),
    (errors.LeaseLost, CONFLICT),
    (errors.TurnLost, CONFLICT),
    (errors.AsyncTaskEnded, CONFLICT),
    (errors.IngestCursorMoved, CONFLICT),
    (errors.PayloadSealed, CONFLICT),
    (errors.QueueInvalid, USAGE),
    (errors.AgentInvalidRequest, USAGE),
    (errors.CommandUnknownType, USAGE),
    (errors.CapabilityUnknown, USAGE),
    (errors.TaskInvalidResult, USAGE),
    (errors.TaskWaitTooLong, USAGE),
    (errors.BatchRefused, USAGE),
    (errors.TaskInvalidPayload, USAGE),
    (errors.TaskInvalidRequest, USAGE),
    (errors.TaskInvalidSchedule, USAGE),
    (errors.TaskUnknownHandler, USAGE),
    (errors.SettingsInvalid, USAGE),
    (errors.WebhookInvalid, USAGE),
    (errors.HandlerInvalid, USAGE),
    (errors.UsageInvalid, USAGE),
    (errors.AppNotLoaded, USAGE),
)


def of(error: errors.FerrymanError) -> int:
    """Return the exit code that tells of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
