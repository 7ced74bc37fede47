"""Schedules: what fires when, what came of it, and pause, resume and trigger."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Form, Query, Request, Response

from ferryman.dashboard.page import back, pages, render
from ferryman.http.callers import Reading, Writing
from ferryman.kernel import duration, errors
from ferryman.tasks.model import ScheduleRecord
from ferryman.tasks.states import ScheduleState

router = pages()

PAGE = 50
FIRINGS = 20
COMING = 8

Text = Annotated[str, Query(max_length=200)]
Back = Annotated[str, Form(alias="back")]


def rhythm(schedule: ScheduleRecord) -> str:
    """Return when a schedule fires, in a few words."""
    if schedule.interval_ms is not None:
        return f"every {duration.show(schedule.interval)}"
    return f"{schedule.cron_expr} {schedule.timezone}"


@router.get("/schedules")
async def schedules(
    request: Request, visit: Reading, state: Text = "", name: Text = "", before: UUID | None = None
) -> Response:
    """Show schedules, the newest first."""
    found = await visit.doors.schedules.list(state=state or None, name=name.strip() or None, before=before, limit=PAGE)
    asked = {key: value for key, value in (("state", state), ("name", name)) if value}
    tabs = [("", "All", _to({**asked, "state": ""}))]
    tabs += [(each.value, each.value.capitalize(), _to({**asked, "state": each.value})) for each in ScheduleState]
    return render(
        request, visit, "schedules.html", here="/schedules", schedules=found, rhythm=rhythm, state=state, name=name, tabs=tabs,
        first=_to(asked) if before else None, filtered=bool(asked),
        next=_to({**asked, "before": str(found[-1].id)}) if len(found) == PAGE else None,
    )  # fmt: skip


def _to(asked: dict[str, str]) -> str:
    query = urlencode({key: value for key, value in asked.items() if value})
    return f"/schedules?{query}" if query else "/schedules"


@router.get("/schedules/{schedule_id}")
async def schedule(request: Request, visit: Reading, schedule_id: str) -> Response:
    """Show a schedule whole."""
    door = visit.doors.schedules
    found = await door.record(schedule_id)
    live = found.state is not ScheduleState.ENDED
    return render(
        request, visit, "schedule.html", here="/schedules", schedule=found, rhythm=rhythm(found), subject=str(found.id),
        told=await visit.doors.tasks.explain(found.id), coming=await door.next(found.id, COMING) if live else (),
        firings=await door.firings(found.id, limit=FIRINGS), events=await door.events(found.id),
    )  # fmt: skip


@router.post("/schedules/{schedule_id}/{action}")
async def act(request: Request, visit: Writing, schedule_id: UUID, action: str, to: Back = "/schedules") -> Response:
    """Pause, resume, trigger or end a schedule."""
    door = visit.doors.schedules
    match action:
        case "pause":
            done = await door.pause(schedule_id, reason="paused on the dashboard")
            said = "Paused: it fires no more until it is resumed." if done else "It rested already."
        case "resume":
            said = "It fires again." if await door.resume(schedule_id) else "It fired already."
        case "trigger":
            made = await door.trigger(schedule_id)
            return back(request, f"/tasks/{made.id}", "The schedule was triggered; this is its task.")
        case "end":
            said = "Ended." if await door.delete(schedule_id, reason="ended on the dashboard") else "It had ended."
        case _:
            raise errors.RouteUnknown
    return back(request, to, said)
