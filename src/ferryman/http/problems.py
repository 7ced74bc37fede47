"""Errors as the outside sees them: problem details (RFC 9457) with our codes (K20).

Which status belongs to a code is decided here and nowhere else. What is not listed is our fault and a 500; the caller is
told its code and sentence if it is ours, and nothing of anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ferryman.http.answers import Answer
from ferryman.kernel import errors

log = logging.getLogger("ferryman.http")

MEDIA_TYPE = "application/problem+json"
SHOWN_MAX = 200
PLACES = {"body", "query", "path", "header", "cookie"}

STATUS: Mapping[type[errors.FerrymanError], int] = {
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.RouteUnknown: 404,
    errors.TaskNotFound: 404,
    errors.UnknownId: 404,
    errors.ScheduleNotFound: 404,
    errors.AgentNotFound: 404,
    errors.TurnNotFound: 404,
    errors.BoxNotFound: 404,
    errors.CardNotFound: 404,
    errors.CallNotFound: 404,
    errors.BatchNotFound: 404,
    errors.CommandNotFound: 404,
    errors.AsyncTaskNotFound: 404,
    errors.IngestNotFound: 404,
    errors.WebhookNotFound: 404,
    errors.DeliveryNotFound: 404,
    errors.TokenNotFound: 404,
    errors.UnknownQueue: 404,
    errors.WorkerUnknown: 404,
    errors.MethodRefused: 405,
    errors.TenantChanged: 409,
    errors.InvalidTransition: 409,
    errors.TaskDuplicate: 409,
    errors.TaskEnded: 409,
    errors.LeaseLost: 409,
    errors.TaskAlreadyLive: 409,
    errors.ScheduleBusy: 409,
    errors.AgentDuplicate: 409,
    errors.BatchDuplicate: 409,
    errors.TurnDuplicate: 409,
    errors.TurnRefused: 409,
    errors.TurnLost: 409,
    errors.CommandDuplicate: 409,
    errors.AsyncTaskEnded: 409,
    errors.IngestCursorMoved: 409,
    errors.WebhookDuplicate: 409,
    errors.DeliveryNotDead: 409,
    errors.TokenDuplicate: 409,
    errors.PayloadSealed: 409,
    errors.BodyTooLarge: 413,
    errors.MediaUnknown: 415,
    errors.HostRefused: 421,
    errors.RequestInvalid: 422,
    errors.TaskUnknownHandler: 422,
    errors.TaskInvalidPayload: 422,
    errors.TaskInvalidResult: 422,
    errors.TaskInvalidSchedule: 422,
    errors.TaskInvalidRequest: 422,
    errors.TaskWaitTooLong: 422,
    errors.QueueInvalid: 422,
    errors.AgentInvalidRequest: 422,
    errors.BatchRefused: 422,
    errors.CommandInvalidRequest: 422,
    errors.CommandUnknownType: 422,
    errors.CapabilityUnknown: 422,
    errors.IngestInvalidRequest: 422,
    errors.IngestInvalidWindow: 422,
    errors.IngestInvalidExpression: 422,
    errors.IngestUnknownSource: 422,
    errors.WebhookInvalid: 422,
    errors.TokenInvalid: 422,
    errors.UsageInvalid: 422,
    errors.TaskQueueFull: 429,
    errors.RateExceeded: 429,
    errors.HeadTooLarge: 431,
    errors.SettingsInvalid: 501,
    errors.RequestTimedOut: 503,
    errors.DatabaseUnavailable: 503,
    errors.DatabaseNotMigrated: 503,
}


def status(error: errors.FerrymanError) -> int:
    """Return the status of an error."""
    return status_of(type(error))


def status_of(kind: type[errors.FerrymanError]) -> int:
    """Return the status of a kind of errors, or of the nearest class above it that has one."""
    return next((STATUS[each] for each in kind.__mro__ if each in STATUS), 500)


def problem(error: errors.FerrymanError, *, instance: str) -> Response:
    """Return an error as problem details."""
    number = status(error)
    told = {
        "type": f"urn:ferryman:{error.code}",
        "title": HTTPStatus(number).phrase,
        "status": number,
        "detail": str(error),
        "instance": instance,
        **error.as_dict(),
    }
    headers = {}
    if number == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if number in {429, 503}:
        headers["Retry-After"] = str(error.details.get("retry_after", 1))
    return Answer(told, status_code=number, headers=headers, media_type=MEDIA_TYPE)


def install(web: FastAPI) -> None:
    """Let every error of this server be told as a problem."""
    web.add_exception_handler(errors.FerrymanError, _ours)
    web.add_exception_handler(RequestValidationError, _unfit)
    web.add_exception_handler(HTTPException, refused)
    web.add_exception_handler(ClientDisconnect, _ours)
    web.add_exception_handler(Exception, _ours)


def told(request: Request, error: Exception) -> Response:
    """Tell an error of ours as a problem, and anything else as our fault; but that a client has gone, which nobody hears."""
    if isinstance(error, ClientDisconnect):
        log.debug("a client has gone before its request was there", extra={"path": request.url.path})
        return Response(status_code=400)
    if not isinstance(error, errors.FerrymanError):
        log.error("could not answer", extra={"path": request.url.path}, exc_info=error)
        error = errors.FerrymanError("This is our fault; the server's log says more.")
    elif status(error) == 500:
        log.error("could not answer", extra={"path": request.url.path, "code": error.code}, exc_info=error)
    return problem(error, instance=request.url.path)


async def _ours(request: Request, error: Exception) -> Response:
    return told(request, error)


async def _unfit(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(unfit(error), instance=request.url.path)


def unfit(error: RequestValidationError) -> errors.RequestInvalid:
    """Return what the framework found wrong with a request as an error of ours."""
    faults = [{"field": _place(each["loc"]), "said": str(each["msg"])[:SHOWN_MAX]} for each in error.errors()]
    first = faults[0]
    return errors.RequestInvalid(f"{first['field']}: {first['said']}.", field=first["field"], faults=faults[:20])


def _place(parts: tuple[Any, ...]) -> str:
    named = [str(part)[:SHOWN_MAX] for part in parts if part not in PLACES]
    return ".".join(named) or "body"


async def refused(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: no such route, another method, a body that is no JSON."""
    assert isinstance(error, HTTPException)
    kinds: dict[int, type[errors.FerrymanError]] = {404: errors.RouteUnknown, 405: errors.MethodRefused}
    kind = kinds.get(error.status_code, errors.RequestInvalid)
    return problem(kind(None if error.status_code in kinds else f"{error.detail}."), instance=request.url.path)
