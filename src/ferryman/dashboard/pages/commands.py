"""Commands: the list with its filters, and the story of one."""

from __future__ import annotations

from uuid import UUID

from fastapi import Request, Response

from ferryman.commands.states import CommandStatus
from ferryman.dashboard import forms, spelling
from ferryman.dashboard.explained import explained
from ferryman.dashboard.forms import PAGE, Back, Text
from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures import story as picture
from ferryman.http.callers import Reading, Writing
from ferryman.kernel import errors

router = pages()

HERE = "/commands"
REASON = "cancelled on the dashboard"


@router.get("/commands")
async def commands(
    request: Request, visit: Reading, status: Text = "", type: Text = "", session: Text = "", before: UUID | None = None
) -> Response:
    """Show commands, the newest first."""
    asked = {"status": status, "type": type.strip(), "session": session.strip()}
    found = await visit.doors.commands.list(
        status=status or None, command_type=asked["type"] or None, session_id=asked["session"] or None, before=before,
        limit=PAGE,
    )  # fmt: skip
    next = forms.address(HERE, {**asked, "before": found[-1].id}) if len(found) == PAGE else None
    return render(
        request, visit, "commands.html", here=HERE, commands=found, chosen=status, type=asked["type"],
        session=asked["session"], filtered=any(asked.values()),
        tabs=forms.tabs(HERE, asked, "status", [each.value for each in CommandStatus]),
        first=forms.address(HERE, asked) if before else None, next=next,
    )  # fmt: skip


@router.get("/commands/statistics")
async def statistics(request: Request, visit: Reading) -> Response:
    """Show how many async tasks there are of each type and status, and how long they took; it reads all that is kept."""
    return render(request, visit, "capabilities.html", here=HERE, statistics=await visit.doors.commands.statistics())


@router.get("/commands/{id}")
async def command(request: Request, visit: Reading, id: UUID) -> Response:
    """Show all that came of a command, in order."""
    story = await visit.doors.commands.story(id)
    found = story.command
    return render(
        request, visit, "command.html", here=HERE, command=found, story=story, subject=str(id),
        picture=picture.draw(story, now=spelling.now()), told=await explained(visit, id, state=found.status.value),
    )  # fmt: skip


@router.post("/commands/{id}/cancel")
async def cancel(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """Cancel the command, with all that it started."""
    done = await visit.doors.commands.cancel(id, reason=REASON)
    return back(request, to, "Cancelled, with all that it started." if done else "It had ended before.")


@router.post("/commands/tasks/{id}/cancel")
async def cancel_task(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """Cancel one async task of a command."""
    ended = await visit.doors.commands.cancel_task(id, reason=REASON)
    if ended.code == errors.AsyncTaskNotFound.code:
        raise errors.AsyncTaskNotFound(f"There is no async task {id}.", async_task_id=str(id))
    return back(request, to, "The async task was cancelled." if ended.changed else "It had ended before.")
