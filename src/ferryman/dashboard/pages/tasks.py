"""Tasks: the list with its filters, and what can be done to many at once."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Form, Query, Request, Response

from ferryman.dashboard.page import back, pages, render
from ferryman.http.callers import Reading, Writing
from ferryman.kernel import errors
from ferryman.tasks.states import TaskState

router = pages()

PAGE = 50
MARKED_MAX = 1000

Text = Annotated[str, Query(max_length=200)]


@router.get("/tasks")
async def tasks(
    request: Request, visit: Reading, state: Text = "", queue: Text = "", name: Text = "", before: UUID | None = None
) -> Response:
    """Show tasks, the newest first."""
    found = await visit.doors.tasks.list(
        state=state or None, queue=queue.strip() or None, name=name.strip() or None, before=before, limit=PAGE
    )
    asked = {key: value for key, value in (("state", state), ("queue", queue), ("name", name)) if value}
    next = _to({**asked, "before": str(found[-1].id)}) if len(found) == PAGE else None
    tabs = [("", "All", _to({**asked, "state": ""}))]
    tabs += [(each.value, each.value.capitalize(), _to({**asked, "state": each.value})) for each in TaskState]
    return render(
        request, visit, "tasks.html", here="/tasks", tasks=found, state=state, queue=queue, name=name, tabs=tabs,
        first=_to(asked) if before else None, next=next, filtered=bool(asked),
    )  # fmt: skip


def _to(asked: dict[str, str]) -> str:
    query = urlencode({key: value for key, value in asked.items() if value})
    return f"/tasks?{query}" if query else "/tasks"


@router.post("/tasks")
async def act(
    request: Request,
    visit: Writing,
    action: Annotated[str, Form()],
    id: Annotated[list[UUID] | None, Form()] = None,
    to: Annotated[str, Form(alias="back")] = "/tasks",
) -> Response:
    """Cancel or retry the tasks that were marked."""
    marked = list(id or ())
    if not marked or len(marked) > MARKED_MAX:
        raise errors.RequestInvalid(f"Mark 1 to {MARKED_MAX} tasks.", field="id")
    match action:
        case "cancel":
            done = await visit.doors.tasks.cancel(*marked, reason="cancelled on the dashboard")
            said = _told(len(done), len(marked), "cancelled", "had ended before")
        case "retry":
            made = await visit.doors.tasks.retry(*marked)
            said = _told(len(made), len(marked), "tried anew", "live, succeeded or are being retried")
        case _:
            raise errors.RequestInvalid("action: expected cancel or retry.", field="action")
    return back(request, to, said)


def _told(done: int, marked: int, what: str, else_: str) -> str:
    rest = f"; {marked - done} {else_}" if marked > done else ""
    return f"{done} {'task' if done == 1 else 'tasks'} {what}{rest}."
