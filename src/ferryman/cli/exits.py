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

TOLD: Final = (
    "Exit codes: 0 done; 1 the doctor found something, the task did not succeed, or the worker broke; "
    "2 wrong usage, nothing was done; 3 the database cannot be reached or used; 4 not found; "
    "5 in conflict with what exists; 6 waited long enough; 130 interrupted."
)

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
    (errors.AgentNotFound, NOT_FOUND),
    (errors.TurnNotFound, NOT_FOUND),
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
    (errors.QueueInvalid, USAGE),
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
