"""One task: what happened to it, why it does not run, what ends it, and what can be done about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Form, Request, Response
from markupsafe import Markup

from ferryman.dashboard import spelling
from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures.timeline import Mark, Row, Span, timeline
from ferryman.http.callers import Reading, Writing
from ferryman.kernel import errors, payload
from ferryman.kernel.events import Event
from ferryman.tasks.intake.read import Step
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.states import READY, RUNNING, TASK, TaskState

router = pages()

LOG_LINES = 500
STEPS_DRAWN = 60
COLOURS = {"pending": "violet", "ready": "amber", "running": "blue", "succeeded": "green", "failed": "red"}
STEP_COLOURS = {"open": "amber", "done": "green", "failed": "red"}


@router.get("/tasks/{task_id}")
async def task(request: Request, visit: Reading, task_id: str) -> Response:
    """Show a task whole."""
    door = visit.doors.tasks
    found = await door.record(task_id)
    events = await door.events(found.id)
    steps = await door.steps(found.id)
    return render(
        request, visit, "task.html", here="/tasks", task=found, told=await door.explain(found.id), events=events,
        steps=steps, logs=await door.logs(found.id, limit=LOG_LINES), picture=story(found, events, steps),
        awaited=[each.name for each in steps if each.kind == "event" and each.state == "open"],
        retries=found.terminal and found.state is not TaskState.SUCCEEDED, subject=str(found.id),
        owner=await visit.doors.history.owner(found.id),
    )  # fmt: skip


def story(task: TaskRecord, events: Sequence[Event], steps: Sequence[Step]) -> Markup:
    """Return the life of a task as a timeline: a row for each attempt, and one for each durable call."""
    now = spelling.now()
    end = task.finished_at or max([now, *(event.at for event in events)])
    rows = _attempts(events, end)
    rows += [_step(step, end) for step in steps[:STEPS_DRAWN]]
    return timeline(
        rows, begin=min([task.created_at, *(event.at for event in events)]), end=end, says="What happened, over time"
    )


def _attempts(events: Sequence[Event], end: datetime) -> list[Row]:
    """Return a row for each attempt: thin while it waited, thick while it ran, a mark at its end."""
    rows: dict[int, tuple[list[Span], list[Mark]]] = defaultdict(lambda: ([], []))
    for event, after in zip(events, [*events[1:], None], strict=True):
        if event.to_state is None:
            continue
        attempt = event.attempt or 1
        state = TaskState(event.to_state)
        failed = state is READY and event.from_state == RUNNING.value and event.reason_code
        if state in TASK.terminal or failed:
            rows[attempt][1].append(Mark(event.at, "red" if failed else COLOURS.get(state.value, "grey"), _said(event)))
        if state not in TASK.terminal:
            until = after.at if after is not None else end
            says = f"{state.value} for {spelling.length(until - event.at)}"
            # What waits after a failed attempt waits for the next one.
            spans = rows[attempt + 1 if failed else attempt][0]
            spans.append(Span(event.at, until, COLOURS[state.value], says, thin=state is not RUNNING))
    return [Row(f"Attempt {number}", spans, marks, _ran(spans)) for number, (spans, marks) in sorted(rows.items())]


def _ran(spans: Sequence[Span]) -> str:
    ran = sum((span.end - span.begin for span in spans if not span.thin), timedelta(0))
    return spelling.length(ran) if any(not span.thin for span in spans) else ""


def _said(event: Event) -> str:
    why = ": ".join(part for part in (event.reason_code, event.reason_message) if part)
    return f"{event.to_state}{f' ({why})' if why else ''}"


def _step(step: Step, end: datetime) -> Row:
    name = f"{step.kind} {step.name}" + (f" ({step.nth})" if step.nth > 1 else "")
    colour = STEP_COLOURS[step.state]
    if step.state == "open":
        until = min(end, step.until) if step.until else end
        return Row(name, [Span(step.at, max(until, step.at), colour, "waits", thin=True)], note="open")
    return Row(name, marks=[Mark(step.at, colour, step.state)], note=step.state)


@router.post("/tasks/{task_id}/cancel")
async def cancel(
    request: Request, visit: Writing, task_id: UUID, to: Annotated[str, Form(alias="back")] = "/tasks"
) -> Response:
    """Cancel the task."""
    done = await visit.doors.tasks.cancel(task_id, reason="cancelled on the dashboard")
    return back(request, to, "Cancelled." if done else "It had ended before.")


@router.post("/tasks/{task_id}/retry")
async def retry(
    request: Request, visit: Writing, task_id: UUID, to: Annotated[str, Form(alias="back")] = "/tasks"
) -> Response:
    """Try the task anew, as a new one."""
    made = await visit.doors.tasks.retry(task_id)
    if not made:
        return back(request, to, "It lives, has succeeded or is being retried.")
    return back(request, f"/tasks/{made[0].new}", "This is the new try.")


@router.post("/tasks/{task_id}/event")
async def send(
    request: Request,
    visit: Writing,
    task_id: UUID,
    name: Annotated[str, Form()],
    value: Annotated[str, Form()] = "",
    to: Annotated[str, Form(alias="back")] = "/tasks",
) -> Response:
    """Send the event that a task waits for: an approval, or an answer."""
    given = payload.decode(payload.check_text(value.encode(), error=errors.RequestInvalid)) if value.strip() else None
    await visit.doors.tasks.send_event(task_id, name.strip(), given)
    return back(request, to, f"The event {name.strip()} was sent.")
