"""Ingestion: sources with their cursors and gates; how a plan is asked for, and a cursor taken back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import Form, Request, Response
from markupsafe import Markup

from ferryman.app.sources import ENDPOINT
from ferryman.dashboard import forms
from ferryman.dashboard.forms import Back
from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures.share import Part, share
from ferryman.http.callers import Reading, Ruling, Writing
from ferryman.ingest.intake.survey import CursorRow, SourceRow
from ferryman.ingest.model import Progress
from ferryman.ingest.rules import windows
from ferryman.kernel import errors

router = pages()

HERE = "/ingest"
PLANS = 20
ASIDE = 50

Field = Annotated[str, Form(max_length=500)]


@router.get("/ingest")
async def sources(request: Request, visit: Reading) -> Response:
    """Show the sources, how far each is, and the newest plans."""
    door = visit.doors.ingest
    cursors: dict[str, list[CursorRow]] = defaultdict(list)
    for each in await door.cursors():
        cursors[each.source].append(each)
    plans = await request.app.state.shelf.get(("plans", visit.tenant), lambda: door.status(limit=PLANS))
    known = _known(await door.standing(), (name for name, _ in door.sources.declared))
    return render(
        request, visit, "ingest.html", here=HERE, sources=known, cursors=cursors, gates=await door.gates(), plans=plans,
        bars={each.id: bar(each) for each in plans},
    )  # fmt: skip


def _known(standing: Iterable[SourceRow], declared: Iterable[str]) -> list[SourceRow]:
    """Return the sources that were planned for, and those that this app declares and nobody planned for yet."""
    rows = list(standing)
    fresh = sorted(set(declared) - {each.source for each in rows})
    return rows + [SourceRow(name, 0, 0, None, 0, 0, None, None) for name in fresh]


def bar(plan: Progress) -> Markup:
    """Return how much of a plan's window is covered."""
    colour = "red" if plan.status == "FAILED" else "green" if plan.over else "blue"
    return share([Part("covered", colour, plan.share)], whole=1.0, says=f"{plan.share:.0%} covered")


@router.get("/ingest/sources/{source}")
async def source(request: Request, visit: Reading, source: str) -> Response:
    """Show a source: its cursors, its gates, its plans, and what could not be taken."""
    door = visit.doors.ingest
    standing = [each for each in await door.standing() if each.source == source]
    endpoints = sorted(endpoint for name, endpoint in door.sources.declared if name == source)
    if not standing and not endpoints:
        raise errors.IngestNotFound(f"There is no source {source} for this tenant.", source=source)
    name = ("plans", visit.tenant, source)
    plans = await request.app.state.shelf.get(name, lambda: door.status(source=source, limit=PLANS))
    return render(
        request, visit, "source.html", here=HERE, source=source, endpoints=endpoints,
        standing=(standing or [SourceRow(source, 0, 0, None, 0, 0, None, None)])[0], cursors=await door.cursors(source),
        gates=[each for each in await door.gates() if each.source == source], plans=plans,
        bars={each.id: bar(each) for each in plans}, aside=await door.quarantine(source, limit=ASIDE), most=ASIDE,
        operations=windows.OPERATIONS, place=_place(source),
    )  # fmt: skip


@router.post("/ingest/sources/{source}/plan")
async def plan(
    request: Request,
    visit: Writing,
    source: str,
    operation: Field = windows.HARVEST,
    endpoint: Field = "",
    since: Field = "",
    until: Field = "",
    campaign: Field = "",
    to: Back = "",
) -> Response:
    """Make a plan: a harvest from the cursor on, or a backfill of a window."""
    made = await visit.doors.ingest.plan(
        source, endpoint.strip() or None, operation=operation, since=forms.instant(since, "since"),
        until=forms.instant(until, "until"), campaign=campaign.strip() or None,
    )  # fmt: skip
    if made.id is None:
        return back(request, to or _place(source), "There is nothing to fetch: the window is empty.")
    return back(request, f"/ingest/plans/{made.id}", "Planned." if made.made else "This plan was there already.")


@router.post("/ingest/sources/{source}/rewind")
async def rewind(
    request: Request,
    visit: Ruling,
    source: str,
    cursor: Field = "",
    at: Field = "",
    reason: Field = "",
    sure: Field = "",
    to: Back = "",
) -> Response:
    """Take a cursor back, with the reason; the next harvest begins there."""
    if sure != source:
        raise errors.RequestInvalid("sure: type the name of the source to take its cursor back.", field="sure")
    found = [each for each in await visit.doors.ingest.cursors(source) if str(each.id) == cursor]
    if not found:
        raise errors.IngestNotFound(f"There is no such cursor of {source}.", source=source)
    [asked] = found
    moved = await visit.doors.ingest.rewind(
        source, asked.endpoint or ENDPOINT, to=_position(asked, at), reason=reason, operation=asked.operation
    )
    return back(request, to or _place(source), f"The cursor {moved.name} was taken back; the next plan begins there.")


def _position(cursor: CursorRow, text: str) -> datetime | int:
    if cursor.kind == "TIME":
        at = forms.instant(text, "at")
        if at is None:
            raise errors.RequestInvalid("at: say where the cursor is to stand.", field="at")
        return at
    if not text.strip().lstrip("-").isdigit():
        raise errors.RequestInvalid(f"at: expected a number, got {text[:40]!r}.", field="at")
    return int(text)


def _place(source: str) -> str:
    return f"{HERE}/sources/{quote(source, safe='')}"
