"""The shorter way for the request that comes most often: POST /v1/tasks.

The framework solves dependencies, matches routes and stacks contexts anew for each request; that costs several times what the
create itself does. So this one request goes by it. The checks are the same functions, called in the same order: who asks and
what they may, the body, the key; what is answered is made by the function of the route, which the OpenAPI document describes.
"""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from ferryman.access.model import Scope as Scopes
from ferryman.http import answers, bodies, problems
from ferryman.http.callers import needs
from ferryman.http.head import Call
from ferryman.http.routes import tasks

PATH: Final = "/v1/tasks"

_enter = needs(Scopes.WRITE)
_route = next(each for each in tasks.router.routes if getattr(each, "endpoint", None) is tasks.create)


class Quick:
    """Answers one request itself, and passes on the others."""

    def __init__(self, app: ASGIApp, *, web: FastAPI) -> None:
        """Stand before the framework."""
        self._app = app
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["app"], scope["route"] = self._web, _route
        request = Call(scope, receive)
        try:
            made = await _create(request)
        except Exception as error:  # noqa: BLE001 - told as the framework's handlers tell it
            await problems.told(request, error)(scope, receive, send)
            return
        body = answers.written(made.told)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"location", made.where.encode()),
        ]
        await send({"type": "http.response.start", "status": made.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _create(request: Call) -> tasks.Born:
    visit = await _enter(request)
    asked = await bodies.read(request)
    key = bodies.check_key(request.headers.get(bodies.KEY_HEADER))
    return await tasks.born(visit, bodies.with_key(asked, key))
