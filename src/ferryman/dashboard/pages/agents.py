"""Agents: the list with its filters; one agent with its inbox and its turns."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote
from uuid import UUID

from fastapi import Request, Response

from ferryman.agents.model import Accepted, AgentRecord
from ferryman.agents.states import HeadState
from ferryman.app.refusals import refusal
from ferryman.dashboard import forms
from ferryman.dashboard.explained import explained
from ferryman.dashboard.forms import PAGE, Back, Text, Typed
from ferryman.dashboard.page import back, pages, render
from ferryman.http.callers import Reading, Visit, Writing
from ferryman.kernel import errors
from ferryman.tasks.intake.explain import Explanation

router = pages()

HERE = "/agents"
MESSAGES = 100
NOBODY = UUID(int=0)


@router.get("/agents")
async def agents(request: Request, visit: Reading, status: Text = "", profile: Text = "", after: Text = "") -> Response:
    """Show agents by name, and what they are doing."""
    found = await visit.doors.agents.list(
        profile=profile.strip() or None, status=status or None, after=after, limit=PAGE
    )
    asked = {"status": status, "profile": profile.strip()}
    next = forms.address(HERE, {**asked, "after": found[-1].agent_id}) if len(found) == PAGE else None
    return render(
        request, visit, "agents.html", here=HERE, agents=found, chosen=status, profile=profile, filtered=any(asked.values()),
        tabs=forms.tabs(HERE, asked, "status", [each.value for each in HeadState]),
        first=forms.address(HERE, asked) if after else None, next=next,
    )  # fmt: skip


@router.get("/agents/{agent_id}")
async def agent(request: Request, visit: Reading, agent_id: str, before: datetime | None = None) -> Response:
    """Show an agent: what it is doing, what is in its inbox, what it did."""
    door = visit.doors.agents
    found = await door.get(agent_id)
    turns = await door.turns(agent_id, before=before, limit=PAGE)
    here = _place(agent_id)
    next = forms.address(here, {"before": turns[-1].created_at.isoformat()}) if len(turns) == PAGE else None
    return render(
        request, visit, "agent.html", here=HERE, agent=found, turns=turns, next=next, first=here if before else None,
        messages=await door.inbox(agent_id, limit=MESSAGES), most=MESSAGES, place=here, told=await _told(visit, found),
    )  # fmt: skip


async def _told(visit: Visit, found: AgentRecord) -> Explanation:
    """Return what an agent is doing: what its turn is, or that it rests."""
    if found.active_agent_turn_id is not None:
        return await explained(visit, found.active_agent_turn_id, state=found.status)
    return Explanation(NOBODY, "agent", found.status, "It rests: it has no turn.", (), None, {})


@router.post("/agents/{agent_id}/send")
async def send(request: Request, visit: Writing, agent_id: str, instruction: Typed = "", to: Back = "") -> Response:
    """Ask the agent for a turn."""
    given = forms.value(instruction, "instruction")
    if given is None:
        raise errors.RequestInvalid("instruction: say what the agent is to do.", field="instruction")
    turn = await visit.doors.agents.send(agent_id, given)
    return back(request, f"/turns/{turn.id}", f"{agent_id} was asked for this turn.")


@router.post("/agents/{agent_id}/wakeup")
async def wakeup(request: Request, visit: Writing, agent_id: str, to: Back = "") -> Response:
    """Put the agent's next turn before the workers, if it has one."""
    answer = await visit.doors.agents.wakeup(agent_id, dispatch_next=True)
    if not isinstance(answer, Accepted):
        raise refusal(answer)
    return back(request, to or _place(agent_id), "Workers were called.")


def _place(agent_id: str) -> str:
    return f"{HERE}/{quote(agent_id, safe='')}"
