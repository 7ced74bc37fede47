"""The site: puts the pages, their style and their script into a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ferryman.dashboard.live import Live
from ferryman.dashboard.page import lost
from ferryman.dashboard.pages import (
    agents,
    batches,
    commands,
    entrance,
    ingest,
    operations,
    overview,
    plans,
    queues,
    reference,
    schedules,
    search,
    task,
    tasks,
    tenants,
    turns,
    webhooks,
)
from ferryman.dashboard.shelf import Shelf

# One line for each module of pages.
PAGES: Sequence[APIRouter] = (
    entrance.router,
    overview.router,
    tasks.router,
    task.router,
    schedules.router,
    queues.router,
    operations.router,
    tenants.router,
    search.router,
    reference.router,
    agents.router,
    turns.router,
    batches.router,
    commands.router,
    ingest.router,
    plans.router,
    webhooks.router,
)


class Files(StaticFiles):
    """Files whose address changes with their content (see `page.asset`), so that a browser asks for each once."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        """Let the browser keep it."""
        answer = super().file_response(*given, **named)
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer


def attach(web: FastAPI) -> None:
    """Serve the dashboard from a server that has an app and a guard."""
    web.state.live = Live()
    web.add_exception_handler(HTTPException, lost)
    web.state.shelf = Shelf()
    web.mount("/static", Files(packages=[("ferryman.dashboard", "static")]), name="static")
    for router in PAGES:
        web.include_router(router, include_in_schema=False)
