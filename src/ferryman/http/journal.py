"""What was asked and answered: one line of the log and one count for each request, and the trace that it came with (K19).

The line names the route, the caller, the tenant and the ids in the path; never a query, a body or a token. What is created
on behalf of a request carries on the trace of its `traceparent` header.
"""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ferryman.kernel import telemetry

log = logging.getLogger("ferryman.http.access")

CALLER = "ferryman.caller"  # put there by whoever finds out who asks
TENANT = "ferryman.tenant"
PREFIX = "/v1"
PATH_MAX = 300


class Journal:
    """Keep the journal of a server."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        traceparent = _traceparent(scope)
        try:
            if traceparent is None:
                await self._app(scope, receive, noting)
            else:
                with telemetry.span(f"HTTP {scope['method']}", traceparent):
                    await self._app(scope, receive, noting)
        finally:
            _note(scope, status, time.perf_counter() - began, traceparent)


def _traceparent(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"traceparent":
            text: str = value.decode("latin-1")
            return text if telemetry.is_traceparent(text) else None
    return None


def _route(scope: MutableMapping[str, Any]) -> str:
    """Return the pattern of the path that was found; the route knows it without the prefix of what it was included in."""
    found: str = getattr(scope.get("route"), "path", "")
    return PREFIX + found if found and scope["path"].startswith(f"{PREFIX}/") else found


def _note(scope: MutableMapping[str, Any], status: int, seconds: float, traceparent: str | None) -> None:
    route = _route(scope)
    telemetry.asked(route, status, seconds)
    if not log.isEnabledFor(logging.INFO):
        return
    told = {
        "method": scope["method"],
        "path": scope["path"][:PATH_MAX],
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 1),
        "caller": getattr(scope.get(CALLER), "name", None),
        "tenant": scope.get(TENANT),
        **scope.get("path_params", {}),
    }
    if traceparent is not None:
        told["trace"] = traceparent[3:35]
    # Not by log.info, which looks for the line of code that it was called from; that is this one.
    said = (scope["method"], told["path"], status)
    log.handle(log.makeRecord(log.name, logging.INFO, __file__, 0, "%s %s %s", said, None, extra={"http": told}))
