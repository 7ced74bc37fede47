"""Agents over HTTP: who there is, and what they are doing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from ferryman.agents.model import AgentRecord, Answer, Rejected
from ferryman.agents.states import HeadState
from ferryman.app.refusals import refusal
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import AgentId, Name
from ferryman.kernel import errors, payload

router = APIRouter(prefix="/agents", tags=["agents"])

TAGS_MAX = 100


class NewAgent(Asked):
    """An agent to be made. What is not said is that of its profile, where this server knows it."""

    agent_id: str
    profile: str
    when_busy: str | None = None
    worker_target: str | None = None
    tags: list[str] = Field(default=[], max_length=TAGS_MAX)
    metadata: dict[str, Any] | None = None


class Agent(Shape):
    """An agent, and what it is doing."""

    agent_id: str
    tenant: str
    profile: str
    worker_target: str
    when_busy: str
    derived_from: str | None
    tags: list[str]
    metadata: dict[str, Any]
    created_at: datetime
    status: HeadState
    since_at: datetime
    turn_epoch: int
    active_agent_turn_id: UUID | None
    output_box_id: UUID | None
    last_output_box_id: UUID | None


class Ensured(Shape):
    """The answer to a create: the agent, and whether it was there before."""

    idempotent_hit: bool
    agent: Agent


class Wakeup(Asked):
    """How an agent is woken; `dispatch_next` puts its next turn before the workers first."""

    dispatch_next: bool = False


class Woken(Shape):
    """What became of a wakeup: the turn that the agent is at, if any, and its epoch if it was dispatched now."""

    status: str
    agent_turn_id: UUID | None
    turn_epoch: int | None


def told(agent: AgentRecord) -> dict[str, Any]:
    """Return an agent with its metadata as values."""
    return agent._asdict() | {"metadata": payload.decode(agent.metadata)}


@router.post(
    "",
    status_code=201,
    response_model=Ensured,
    responses=also(200, Ensured),
    openapi_extra=takes(NewAgent),
    summary="Make an agent",
)
async def create(visit: Writing, asked: Annotated[NewAgent, asks(NewAgent)], response: Response) -> dict[str, Any]:
    """Make an agent of a profile, unless it is there (200). One of another profile under this id is a conflict."""
    given = {name: value for name, value in asked.model_dump(exclude={"agent_id", "profile"}).items() if value}
    made = await visit.doors.agents.accept(asked.agent_id, asked.profile, **given)
    if made.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/agents/{made.agent.agent_id}"
    return {"idempotent_hit": made.idempotent_hit, "agent": told(made.agent)}


@router.get("", response_model=Page[Agent], summary="List agents")
async def list_page(
    visit: Reading,
    profile: Annotated[Name | None, Query(description="Of this profile only: found by walking.")] = None,
    status: Annotated[HeadState | None, Query(description="Doing this only: found by walking.")] = None,
    after: Annotated[str, Query(description="Go on after this id: `next` of the page before.", max_length=200)] = "",
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List agents by their ids, a page at a time, and what they are doing."""
    if "\x00" in after:
        raise errors.RequestInvalid("after: expected the id of an agent.", field="after")
    found = await visit.doors.agents.list(profile=profile, status=status, after=after, limit=limit)
    return page(found, limit=limit, key="agent_id") | {"items": [told(each) for each in found]}


@router.get("/{agent_id}", response_model=Agent, summary="Read an agent")
async def get(visit: Reading, agent_id: AgentId) -> dict[str, Any]:
    """Read an agent, and what it is doing."""
    return told(await visit.doors.agents.get(agent_id))


@router.post(
    "/{agent_id}/wakeup", response_model=Woken, openapi_extra=takes(Wakeup, required=False), summary="Wake an agent"
)
async def wakeup(
    visit: Writing, agent_id: AgentId, asked: Annotated[Wakeup, asks(Wakeup, required=False)]
) -> dict[str, Any]:
    """Ring for an agent, so that its workers look at once; nothing is lost without it."""
    answer = await visit.doors.agents.wakeup(agent_id, dispatch_next=asked.dispatch_next)
    if isinstance(answer, Rejected):
        raise refusal(answer, agent_id=agent_id)
    return {"status": answer.status, **_turn(answer)}


def _turn(answer: Answer) -> dict[str, Any]:
    id, epoch = getattr(answer, "id", None), getattr(answer, "epoch", None)
    return {"agent_turn_id": id if id and id.int else None, "turn_epoch": epoch}
