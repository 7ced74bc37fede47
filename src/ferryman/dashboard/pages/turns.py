"""One turn: its timeline, its cards, what it waits for, whom it asked, what it may still spend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Form, Request, Response

from ferryman.agents.model import Accepted, BudgetRecord, CardRecord, EdgeRecord, TurnRecord, WaitRecord
from ferryman.agents.work.turn import FORK_JOIN
from ferryman.app.refusals import refusal
from ferryman.dashboard import forms, spelling
from ferryman.dashboard.explained import explained
from ferryman.dashboard.forms import Back, Typed
from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures import turn as picture
from ferryman.dashboard.pictures.share import Part, share
from ferryman.http.callers import Reading, Visit, Writing
from ferryman.kernel import errors

router = pages()

STOPPED = "stopped on the dashboard"
DELEGATED = "agent:"
CARDS = 200


@router.get("/turns/{id}")
async def turn(request: Request, visit: Reading, id: UUID) -> Response:
    """Show a turn whole."""
    door = visit.doors.agents
    found = await door.turn(id)
    waits = await door.waits(id)
    edges = await door.edges(id)
    state = found.turn_status or found.head_status or found.message_status
    return render(
        request, visit, "turn.html", here="/agents", turn=found, state=state, subject=str(id), waits=waits,
        told=await explained(visit, id, state=state), picture=await _drawn(visit, found, waits), steps=await door.steps(id),
        open=[each for each in waits if answerable(each)], boxes=await _boxes(visit, found),
        budget=budget(await door.budget(id)),
        parent=next((each for each in edges if each.target_turn_id == id and each.source_turn_id is not None), None),
        children=children(edges, id), batches=await visit.doors.batches.forked(id, found.agent_id),
        owner=await visit.doors.history.owner(id),
    )  # fmt: skip


async def _drawn(visit: Visit, found: TurnRecord, waits: Sequence[WaitRecord]) -> Any:
    moments = await visit.doors.agents.timeline(found.id)
    deadlines: dict[str, datetime] = {each.tool_call_id: each.deadline_at for each in waits}
    return picture.draw(moments, now=spelling.now(), deadlines=deadlines)


async def _boxes(visit: Visit, found: TurnRecord) -> list[tuple[str, Sequence[CardRecord], int]]:
    """Return the newest cards that the turn read, and that it wrote; and how many there are."""
    named = (("It read", found.context_box_id), ("It wrote", found.output_box_id))
    boxes = [(name, await visit.doors.agents.cards(box)) for name, box in named if box is not None]
    return [(name, cards[-CARDS:], len(cards)) for name, cards in boxes]


def answerable(wait: WaitRecord) -> bool:
    """Tell whether somebody outside may answer a call: no task does it, no other agent, and no batch is joined by it."""
    asked = wait.tool_name == FORK_JOIN or wait.tool_name.startswith(DELEGATED)
    return wait.wait_status == "waiting" and wait.task_id is None and not asked


def children(edges: Sequence[EdgeRecord], id: UUID) -> list[EdgeRecord]:
    """Return the turns that a turn asked for, each once."""
    found = {each.target_turn_id: each for each in reversed(edges) if each.source_turn_id == id and each.target_turn_id}
    return sorted(found.values(), key=lambda each: each.created_at)


def budget(found: BudgetRecord | None) -> list[dict[str, Any]]:
    """Return what a budget bounds, each with a bar of what is spent and what is reserved."""
    if found is None:
        return []
    made = []
    for name, title in (("tokens", "Tokens"), ("tool_calls", "Tool calls"), ("cost", "Cost")):
        spent, held, limit = (float(getattr(found, f"{name}_{part}") or 0) for part in ("spent", "held", "limit"))
        bounded = getattr(found, f"{name}_limit") is not None
        says = f"{title}: {spent:g} spent, {held:g} reserved" + (f" of {limit:g}" if bounded else "")
        parts = [Part("spent", "blue", spent), Part("reserved", "amber", held)]
        bar = share(parts, whole=limit, says=says) if bounded else None
        made.append({"name": title, "spent": spent, "held": held, "limit": limit if bounded else None, "bar": bar})
    return made


@router.post("/turns/{id}/stop")
async def stop(request: Request, visit: Writing, id: UUID, to: Back = "/agents") -> Response:
    """End the turn at once."""
    answer = await visit.doors.agents.stop(id, reason=STOPPED)
    if not isinstance(answer, Accepted):
        raise refusal(answer)
    return back(request, to, "It is being stopped.")


@router.post("/turns/{id}/answer")
async def answer(
    request: Request,
    visit: Writing,
    id: UUID,
    call: Annotated[str, Form(max_length=500)],
    status: Annotated[str, Form(max_length=20)] = "success",
    result: Typed = "",
    to: Back = "/agents",
) -> Response:
    """Answer a call that the turn waits for, in the place of whoever was asked."""
    waiting = [each for each in await visit.doors.agents.waits(id) if each.tool_call_id == call]
    if not waiting or not answerable(waiting[0]):
        raise errors.RequestInvalid("call: this turn does not wait for an answer to it any more.", field="call")
    if status not in {"success", "failed"}:
        raise errors.RequestInvalid("status: expected success or failed.", field="status")
    given = forms.value(result, "result")
    wrong = {"code": "refused", "message": str(given or "refused on the dashboard")} if status == "failed" else None
    said = await visit.doors.agents.report(call, status=status, result=given, error=wrong)
    return back(
        request, to, "The answer was given." if said.status == "accepted" else f"It was not taken: {said.code}."
    )
