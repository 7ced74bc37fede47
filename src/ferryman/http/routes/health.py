"""Whether the server lives, whether it can serve, and its figures."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ferryman.http.callers import Operating
from ferryman.kernel import migrate, telemetry

router = APIRouter(tags=["health"])

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz")
async def live() -> dict[str, str]:
    """Say that the process answers; it does not ask the database."""
    return {"status": "ok"}


@router.get("/readyz")
async def ready(request: Request) -> dict[str, str]:
    """Say that requests can be served: the database answers, and its tables are those of this version."""
    app = request.app.state.ferryman
    async with app.database.session() as tx:
        await migrate.check_code(tx, migrate.newest())
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(visit: Operating) -> Response:
    """Return the figures of this process, for Prometheus."""
    del visit  # let in: the figures name queues of all tenants
    return Response(telemetry.exposition(), media_type=PROMETHEUS)
