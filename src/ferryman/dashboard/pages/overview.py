"""The overview: how the work goes, what is wrong, and what to do when there is nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from markupsafe import Markup

from ferryman.app import figures
from ferryman.app.figures import Figures
from ferryman.dashboard.page import pages, render
from ferryman.dashboard.pictures.columns import Kind, columns, legend, top
from ferryman.dashboard.pictures.spark import buckets, spark
from ferryman.http.callers import Reading

router = pages()

COLUMNS = 120
SPARKS = 60
LATEST = 8


@router.get("/")
async def overview(request: Request, visit: Reading) -> Response:
    """Show how the work goes."""
    told = await visit.app.counting.of(visit.tenant)
    alarms = await visit.app.counting.alarms() if visit.caller.operator else ()
    running = await visit.doors.tasks.list(state="running", limit=LATEST) if told.count("running") else ()
    latest = await visit.doors.tasks.list(limit=LATEST)
    return render(
        request, visit, "overview.html", here="/", figures=told, alarms=alarms, running=running, latest=latest,
        chart=chart(told), sparks=sparks(told),
    )  # fmt: skip


def chart(told: Figures) -> dict[str, Any]:
    """Return the columns of what ended, with their legend and the height of the highest."""
    kinds = [
        Kind("succeeded", "green", buckets(told.series[figures.SUCCEEDED], COLUMNS)),
        Kind("failed", "red", buckets(told.series[figures.FAILED], COLUMNS)),
        Kind("cancelled", "grey", buckets(told.series[figures.CANCELLED], COLUMNS)),
    ]
    ended = sum(sum(kind.counts) for kind in kinds)
    says = f"Tasks that ended in the last ten minutes: {ended}"
    seconds = len(told.series[figures.SUCCEEDED]) // COLUMNS
    return {"picture": columns(kinds, says=says), "legend": legend(kinds), "top": top(kinds), "seconds": seconds}


def sparks(told: Figures) -> dict[str, Markup]:
    """Return a line for each kind that is counted."""

    def line(kind: str, says: str) -> Markup:
        counts: Sequence[int] = told.series[kind]
        return spark(buckets(counts, SPARKS), says=says)

    return {
        "born": line(figures.BORN, "Tasks created in the last ten minutes"),
        "started": line(figures.STARTED, "Tries started in the last ten minutes"),
    }
