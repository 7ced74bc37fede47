"""Workers, the watchdog and the log."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from ferryman.app.watching import CODES
from ferryman.dashboard.page import pages, render
from ferryman.http.callers import Operating, Reading

router = pages()

PAGE = 100
REPAIRS = 30
KINDS = ("task", "schedule", "command", "async_task", "agent", "batch", "ingest", "webhook")


@router.get("/workers")
async def workers(request: Request, visit: Operating) -> Response:
    """Show who works."""
    known = await visit.app.watching.workers()
    alive = [each for each in known if each.alive]
    gone = [each for each in known if not each.alive]
    return render(request, visit, "workers.html", here="/workers", alive=alive, gone=gone)


@router.get("/watchdog")
async def watchdog(request: Request, visit: Operating) -> Response:
    """Show who watches, what ends what lives, and what was ended or brought back."""
    watching = visit.app.watching
    repairs = await visit.doors.history.page(codes=CODES, limit=REPAIRS)
    return render(
        request, visit, "watchdog.html", here="/watchdog", watched=await watching.look(), rules=watching.rules(),
        repairs=repairs.events,
    )  # fmt: skip


@router.get("/log")
async def log(
    request: Request,
    visit: Reading,
    kind: Annotated[str, Query(max_length=40)] = "",
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
) -> Response:
    """Show what happened, the newest first."""
    part = await visit.doors.history.page(before=before, kind=kind or None, limit=PAGE)
    return render(
        request, visit, "log.html", here="/log", events=part.events, kind=kind, kinds=KINDS,
        first=_to(kind) if before else None, next=None if part.next is None else _to(kind, part.next),
    )  # fmt: skip


def _to(kind: str, before: int | None = None) -> str:
    query = urlencode({key: value for key, value in (("kind", kind), ("before", before)) if value})
    return f"/log?{query}" if query else "/log"
