"""Find anything by its id or its name."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request, Response
from starlette.responses import RedirectResponse

from ferryman.dashboard.navigation import page_of
from ferryman.dashboard.page import pages, render
from ferryman.http.callers import Reading, Visit
from ferryman.kernel import errors

router = pages()

FOUND_MAX = 20


@router.get("/search")
async def search(request: Request, visit: Reading, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Go to what is named; of several that fit, or none, show a list."""
    wanted = q.strip()
    if wanted:
        place = await _by_id(visit, wanted)
        if place is not None:
            return RedirectResponse(place, status_code=303)
    tasks, queues = await _by_name(visit, wanted) if wanted else ((), ())
    return render(request, visit, "search.html", wanted=wanted, tasks=tasks, queues=queues)


async def _by_id(visit: Visit, wanted: str) -> str | None:
    """Return the page of the object with this id, or with this name that its creator gave it."""
    try:
        told = await visit.doors.tasks.explain(wanted)
    except errors.FerrymanError:
        return None
    return page_of(told.domain, str(told.id))


async def _by_name(visit: Visit, wanted: str) -> tuple[object, object]:
    """Return the newest tasks of a handler, and the queues whose name holds the word."""
    try:
        tasks = await visit.doors.tasks.list(name=wanted, limit=FOUND_MAX)
    except errors.FerrymanError:
        tasks = ()
    names = {each.name for each in await visit.doors.queues.list()}
    return tasks, [
        (name, f"/queues/{quote(name, safe='')}") for name in sorted(names) if wanted.lower() in name.lower()
    ]
