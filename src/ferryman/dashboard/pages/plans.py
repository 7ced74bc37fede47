"""One plan: what of its window is there, how fast it went, its slices; and the black box of a slice's task."""

from __future__ import annotations

from uuid import UUID

from fastapi import Request, Response

from ferryman.dashboard import forms
from ferryman.dashboard.explained import explained
from ferryman.dashboard.page import pages, render
from ferryman.dashboard.pictures import coverage, rate
from ferryman.http.callers import Reading

router = pages()

HERE = "/ingest"
DRAWN = 2000
SLICES = 100
PARTS, PARTS_LEAST = 80, 8


@router.get("/ingest/plans/{id}")
async def plan(request: Request, visit: Reading, id: UUID, after: int = 0) -> Response:
    """Show a plan whole."""
    door = visit.doors.ingest
    [found] = await door.status(id)
    extent = await door.extent(id)
    drawn = await door.slices(id, limit=DRAWN)
    shown = await door.slices(id, after=after, limit=SLICES)
    place = f"{HERE}/plans/{id}"
    doing = "Nothing of it is live any more." if found.over else "It goes on as long as one of its slices is live."
    parts = min(PARTS, max(PARTS_LEAST, found.requests // 3))
    return render(
        request, visit, "plan.html", here=HERE, plan=found, extent=extent, slices=shown, subject=str(id),
        picture=coverage.draw(extent, drawn), curve=rate.draw(await door.pace(id, parts=parts)),
        hidden=extent.slices - len(drawn),
        told=await explained(visit, id, state=found.status, doing=doing), first=place if after else None,
        next=forms.address(place, {"after": shown[-1].slice_no}) if len(shown) == SLICES else None,
    )  # fmt: skip


@router.get("/ingest/tasks/{id}")
async def blackbox(request: Request, visit: Reading, id: UUID) -> Response:
    """Show all that is kept of the runs of a slice's task, or of a plan: the black box."""
    runs = await visit.doors.ingest.blackbox(id)
    told = await explained(visit, id, state=runs[-1]["task_status"])
    return render(request, visit, "blackbox.html", here=HERE, runs=runs, task=runs[-1], id=id, told=told)
