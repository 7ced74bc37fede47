"""Whether the server lives, whether it can serve, and its figures."""

from __future__ import annotations

import logging
import time

from fastapi import APIRouter, Request, Response

from ferryman.http.callers import Operating
from ferryman.kernel import errors, migrate, telemetry

log = logging.getLogger("ferryman.http")

router = APIRouter(tags=["health"])

# However often somebody scrapes, the tables are counted no more often than this.
COUNT_SECONDS = 5.0
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz")
async def live() -> dict[str, str]:
    """Say that the process answers; it does not ask the database."""
    return {"status": "ok"}


@router.get("/readyz")
async def ready(request: Request) -> dict[str, str]:
    """Say that requests can be served: the database answers, and its tables are those of this version."""
    app = request.app.state.ferryman
    if request.app.state.closing.is_set():
        raise errors.DatabaseUnavailable("This server is stopping.")
    async with app.database.session() as tx:
        await migrate.check_code(tx, migrate.newest())
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(visit: Operating, request: Request) -> Response:
    """Return the figures of this process, and what the database holds, for Prometheus."""
    state = request.app.state
    now = time.monotonic()
    if now - getattr(state, "counted", -COUNT_SECONDS) >= COUNT_SECONDS:
        state.counted = now
        try:
            await visit.app.count()
        except errors.FerrymanError as error:
            log.warning("the database could not be counted", extra={"reason": error.message})
    return Response(telemetry.exposition(), media_type=PROMETHEUS)
