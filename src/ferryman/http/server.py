"""The server: an app's doors over HTTP, and the pages of the dashboard, in one ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from ferryman.app.ferryman import Ferryman
from ferryman.http import problems
from ferryman.http.answers import Problem
from ferryman.http.callers import Guard
from ferryman.http.defence import Defence
from ferryman.http.doorkeeper import Doorkeeper, Wrongs
from ferryman.http.routes import (
    agents,
    async_tasks,
    batches,
    calls,
    cards,
    commands,
    cursors,
    health,
    ingest,
    relays,
    session,
    tasks,
    tokens,
    turns,
    webhooks,
)

PREFIX = "/v1"
ROUTERS: Sequence[APIRouter] = (
    tasks.router,
    tokens.router,
    agents.router,
    turns.router,
    calls.router,
    cards.router,
    batches.router,
    commands.router,
    async_tasks.router,
    ingest.router,
    cursors.router,
    webhooks.router,
    relays.router,
)
ANYWHERE: Sequence[APIRouter] = (health.router, session.router)


class Web(FastAPI):
    """The framework's application, behind its defence."""

    def build_middleware_stack(self) -> ASGIApp:
        """Put the defence before everything, the framework's own answers included."""
        state = self.state
        return Defence(super().build_middleware_stack(), guard=state.guard, settings=state.ferryman.settings.http)


def make(app: Ferryman, *, guard: Guard | None = None) -> FastAPI:
    """Return the server of an opened app. Without a guard: for the loopback address alone, where no token means open."""
    web = Web(
        title="Ferryman", version=version("ferryman"), openapi_url="/openapi.json", docs_url=None, redoc_url=None,
        responses={"default": {"model": Problem, "description": "What went wrong, with a stable code."}},
    )  # fmt: skip
    web.state.ferryman = app
    web.state.closing = asyncio.Event()
    web.state.guard = guard or Doorkeeper(app, here=True)
    web.state.wrongs = web.state.guard.wrongs if isinstance(web.state.guard, Doorkeeper) else Wrongs()
    problems.install(web)
    for router in ROUTERS:
        web.include_router(router, prefix=PREFIX)
    for router in ANYWHERE:
        web.include_router(router)
    web.openapi = lambda: document(web)  # type: ignore[method-assign] # the framework's own way to change it
    return web


def document(web: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the scope that each operation needs."""
    if web.openapi_schema is None:
        made = get_openapi(title=web.title, version=web.version, openapi_version="3.1.0", routes=web.routes)
        made.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        # Of the routers and not of `web.routes`, which may hold routers in place of their routes.
        for prefix, routers in ((PREFIX, ROUTERS), ("", ANYWHERE)):
            for route in (each for router in routers for each in router.routes):
                if isinstance(route, APIRoute) and route.include_in_schema:
                    _say_scope(made["paths"][prefix + route.path_format], route)
        web.openapi_schema = made
    return web.openapi_schema


def _say_scope(path: dict[str, Any], route: APIRoute) -> None:
    found = [each for each in _calls(route.dependant) if hasattr(each, "scope")]
    for method in (route.methods or set()) & {name.upper() for name in path}:
        operation = path[method.lower()]
        if found:
            operation["x-scope"] = found[0].scope.value
            operation["x-operator"] = found[0].operator
            operation["security"] = [{"token": []}]


def _calls(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for each in dependant.dependencies for call in _calls(each))]
