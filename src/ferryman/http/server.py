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
from starlette.types import ASGIApp, Receive, Scope, Send

from ferryman.app.ferryman import Ferryman
from ferryman.dashboard import site
from ferryman.http import problems, refusals
from ferryman.http.answers import Problem
from ferryman.http.callers import Guard
from ferryman.http.defence import Defence
from ferryman.http.doorkeeper import Doorkeeper, Wrongs
from ferryman.http.journal import PREFIX, Journal
from ferryman.http.quick import Quick
from ferryman.http.routes import (
    agents,
    async_tasks,
    batches,
    calls,
    cards,
    commands,
    cursors,
    events,
    health,
    ingest,
    operations,
    queues,
    relays,
    schedules,
    session,
    tasks,
    tokens,
    turns,
    webhooks,
    worker,
    workers,
)

ROUTERS: Sequence[APIRouter] = (
    tasks.router,
    schedules.router,
    queues.router,
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
    events.router,
    workers.router,
    worker.router,
    operations.router,
    tokens.router,
)
ANYWHERE: Sequence[APIRouter] = (health.router, session.router)


class Web(FastAPI):
    """The framework's application, behind its defence, and with its journal."""

    entrance: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the defence stands before everything, the framework's own answers included."""
        await self.entrance(scope, receive, send)

    def close_in(self) -> None:
        """Stand behind the defence from now on."""
        way = Quick(super().__call__, web=self)
        settings = self.state.ferryman.settings.http
        self.entrance = Journal(Defence(way, guard=self.state.guard, settings=settings))


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
    web.close_in()
    for router in ROUTERS:
        web.include_router(router, prefix=PREFIX)
    for router in ANYWHERE:
        web.include_router(router)
    site.attach(web)
    web.openapi = lambda: document(web)  # type: ignore[method-assign] # the framework's own way to change it
    return web


def document(web: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the scope that each operation needs and the codes that it may refuse with."""
    if web.openapi_schema is None:
        made = get_openapi(title=web.title, version=web.version, openapi_version="3.1.0", routes=web.routes)
        made.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        _hoist(made)
        # Of the routers and not of `web.routes`, which may hold routers in place of their routes.
        for prefix, routers in ((PREFIX, ROUTERS), ("", ANYWHERE)):
            for route in (each for router in routers for each in router.routes):
                if isinstance(route, APIRoute) and route.include_in_schema:
                    _say_scope(made["paths"][prefix + route.path_format], route)
        _say_problems(made)
        refusals.declare(made["paths"])
        web.openapi_schema = made
    return web.openapi_schema


def _say_problems(made: dict[str, Any]) -> None:
    """Give problems their own media type, and take out the framework's own form of what does not fit: that is one too."""
    for operation in (each for path in made["paths"].values() for each in path.values()):
        answers = operation.get("responses", {})
        answers.pop("422", None)
        told = answers.get("default", {}).get("content", {})
        if "application/json" in told:
            told[problems.MEDIA_TYPE] = told.pop("application/json")
    for name in ("HTTPValidationError", "ValidationError"):
        made["components"].get("schemas", {}).pop(name, None)


def _hoist(made: dict[str, Any]) -> None:
    """Put the shapes that described bodies refer to where the references point."""
    shapes = made["components"].setdefault("schemas", {})
    for operation in (each for path in made["paths"].values() for each in path.values()):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for name, shape in content.get("schema", {}).pop("$defs", {}).items():
                shapes.setdefault(name, shape)


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
