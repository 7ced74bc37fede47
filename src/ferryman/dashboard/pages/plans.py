"""One plan: what of its window is there, how fast it went, its slices; and the black box of a slice's task."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from fastapi import Request, Response
from markupsafe import Markup

from ferryman.dashboard import forms
from ferryman.dashboard.explained import explained
from ferryman.dashboard.page import pages, render
from ferryman.dashboard.pictures import coverage, rate
from ferryman.http.callers import Reading, Visit
from ferryman.ingest.model import Progress

router = pages()

HERE = "/ingest"
DRAWN = 2000
SLICES = 100
PARTS, PARTS_LEAST = 80, 8


@router.get("/ingest/plans/{id}")
async def plan(request: Request, visit: Reading, id: UUID, after: int = 0) -> Response:
    """Show a plan whole."""
    shown = await visit.doors.ingest.slices(id, after=after, limit=SLICES)
    found, hidden, curve, picture = await request.app.state.shelf.get(
        ("plan", visit.tenant, id), lambda: _drawn(visit, id)
    )
    place = f"{HERE}/plans/{id}"
    doing = "Nothing of it is live any more." if found.over else "It goes on as long as one of its slices is live."
    return render(
        request, visit, "plan.html", here=HERE, plan=found, slices=shown, subject=str(id), picture=picture, curve=curve,
        hidden=hidden, told=await explained(visit, id, state=found.status, doing=doing), first=place if after else None,
        next=forms.address(place, {"after": shown[-1].slice_no}) if len(shown) == SLICES else None,
    )  # fmt: skip


class Drawn(NamedTuple):
    """A plan, how many of its slices are not drawn, and its pictures: all its batches are read for them."""

    plan: Progress
    hidden: int
    curve: Markup
    picture: Markup


async def _drawn(visit: Visit, id: UUID) -> Drawn:
    door = visit.doors.ingest
    [found] = await door.status(id)
    extent = await door.extent(id)
    slices = await door.slices(id, limit=DRAWN)
    pace = await door.pace(id, parts=min(PARTS, max(PARTS_LEAST, found.requests // 3)))
    return Drawn(found, extent.slices - len(slices), rate.draw(pace), coverage.draw(extent, slices))


@router.get("/ingest/tasks/{id}")
async def blackbox(request: Request, visit: Reading, id: UUID) -> Response:
    """Show all that is kept of the runs of a slice's task, or of a plan: the black box."""
    runs = await visit.doors.ingest.blackbox(id)
    told = await explained(visit, id, state=runs[-1]["task_status"])
    return render(request, visit, "blackbox.html", here=HERE, runs=runs, task=runs[-1], id=id, told=told)
