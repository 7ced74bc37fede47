"""What goes out: webhooks with their deliveries and dead letters, and the readers of the log."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from fastapi import Request, Response

from ferryman.dashboard import forms
from ferryman.dashboard.explained import explained
from ferryman.dashboard.forms import PAGE, Back, Text
from ferryman.dashboard.page import back, pages, render
from ferryman.http.callers import Reading, Writing
from ferryman.relays.states import DELIVERY, WEBHOOK

router = pages()

HERE = "/webhooks"
REASON = "on the dashboard"
# Readings of the doctor that tell why readers of the log don't move.
OF_THE_LOG = ("open transactions", "sequences")


@router.get("/webhooks")
async def webhooks(request: Request, visit: Reading, state: Text = "", before: UUID | None = None) -> Response:
    """Show the webhooks, the newest first, and how far the readers of the log are."""
    found = await visit.doors.webhooks.list(state=state or None, before=before, limit=PAGE)
    asked = {"state": state}
    return render(
        request, visit, "webhooks.html", here=HERE, webhooks=found, state=state,
        readers=await visit.app.relays.status() if visit.caller.operator else None,
        alarms=[each for each in await visit.app.counting.alarms() if each.name in OF_THE_LOG] if visit.caller.operator else (),
        tabs=forms.tabs(HERE, asked, "state", [each.value for each in WEBHOOK.states]),
        first=forms.address(HERE, asked) if before else None,
        next=forms.address(HERE, {**asked, "before": found[-1].id}) if len(found) == PAGE else None,
    )  # fmt: skip


@router.get("/webhooks/{named}")
async def webhook(
    request: Request, visit: Reading, named: str, state: Text = "", before: UUID | None = None
) -> Response:
    """Show a webhook and what it is owed, was told and could not be told."""
    door = visit.doors.webhooks
    found = await door.get(named)
    deliveries = await door.deliveries(found.id, state=state or None, before=before, limit=PAGE)
    place, asked = f"{HERE}/{quote(named, safe='')}", {"state": state}
    return render(
        request, visit, "webhook.html", here=HERE, webhook=found, deliveries=deliveries, state=state,
        told=await explained(visit, found.id, state=found.state.value), place=place,
        tabs=forms.tabs(place, asked, "state", [each.value for each in DELIVERY.states]),
        first=forms.address(place, asked) if before else None,
        next=forms.address(place, {**asked, "before": deliveries[-1].id}) if len(deliveries) == PAGE else None,
    )  # fmt: skip


@router.post("/webhooks/{id}/pause")
async def pause(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """Send nothing to the webhook for now."""
    done = await visit.doors.webhooks.pause(id, reason=REASON)
    return back(request, to, "Paused: what it is owed waits." if done else "It was not active.")


@router.post("/webhooks/{id}/resume")
async def resume(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """Send to the webhook again."""
    done = await visit.doors.webhooks.resume(id, reason=REASON)
    return back(request, to, "It is called again." if done else "It was not paused.")


@router.post("/deliveries/{id}/retry")
async def retry(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """Try a dead delivery anew, as a new one."""
    await visit.doors.webhooks.retry(id)
    return back(request, to, "The dead delivery is tried anew.")
