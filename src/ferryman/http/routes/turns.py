"""Turns over HTTP: agents are asked for them, their results waited for."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from ferryman.agents.model import StepRecord, TurnRecord
from ferryman.agents.states import TurnStatus
from ferryman.agents.work.profiles import Budget
from ferryman.app.agents import Agents
from ferryman.http import speech
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import RepeatKey, asks, takes
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import AgentId, Before, Wait, Whole
from ferryman.kernel import errors, payload

router = APIRouter(tags=["turns"])

# A turn that is asked for with a key has an id made of it, so that a repeat meets it.
KEYED = UUID("6b0f5f4e-51f6-5a0f-9d0c-6f1c0b8a7a11")
YEAR_SECONDS = 365 * 86400


class Spend(Asked):
    """How much a turn and all that it leads to may use; what is not said has no limit."""

    tokens: Whole | None = None
    tool_calls: Whole | None = None
    cost: Annotated[float, Field(ge=0, le=1e12)] | None = None


class NewTurn(Asked):
    """What an agent is asked for: an instruction, of any JSON value, or a context box that exists."""

    instruction: Any = None
    context_box_id: UUID | None = None
    channel: str = "default"
    result_fields: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default=[], max_length=100)
    wall_time_seconds: Annotated[float, Field(gt=0, le=YEAR_SECONDS)] | None = None
    budget: Spend | None = None
    payload: dict[str, Any] | None = None


class Turn(Shape):
    """A turn: how far it is, or how it ended."""

    id: UUID
    tenant: str
    agent_id: str
    message_type: str
    message_status: str
    channel: str | None
    turn_epoch: int | None
    depth: int
    context_box_id: UUID | None
    output_box_id: UUID | None
    turn_status: TurnStatus | None
    deliverable_card_id: UUID | None
    tool_result_card_id: UUID | None
    error_code: str | None
    error: str | None
    merged_into: UUID | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    head_status: str | None
    waiting_tool_count: int | None


class Sent(Shape):
    """The answer to a send: the turn's id, and whether it was there before."""

    turn_id: UUID
    agent_id: str
    idempotent_hit: bool


class Result(Shape):
    """What a turn came to; `ended` is false while it goes on, and then there is no deliverable yet."""

    turn_id: UUID
    ended: bool
    status: TurnStatus | None
    deliverable: Any
    output_box_id: UUID | None
    error_code: str | None
    error: str | None


class Moment(Shape):
    """One thing of a turn: a move, a step, a call or its end, and when it was."""

    at: datetime
    until: datetime | None
    kind: str
    name: str
    status: str | None
    details: dict[str, Any]


class Step(Shape):
    """A step of a turn, with what it cost if that is known."""

    id: UUID
    kind: str
    name: str
    nth: int
    status: str
    error: str | None
    result: Any
    tool_call_ids: list[str]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    started_at: datetime
    ended_at: datetime | None


class Stop(Asked):
    """Why a turn is stopped; with an epoch only if it is still at it."""

    reason: Annotated[str, Field(min_length=1, max_length=2000)] = "stopped"
    turn_epoch: Whole | None = None


class Stopped(Shape):
    """What became of a stop: accepted, and a worker ends the turn now; or why not."""

    status: str
    code: str | None


@router.post(
    "/agents/{agent_id}/turns",
    status_code=201,
    response_model=Sent,
    responses=also(200, Sent),
    openapi_extra=takes(NewTurn),
    summary="Ask an agent for a turn",
)
async def send(
    visit: Writing,
    agent_id: AgentId,
    asked: Annotated[NewTurn, asks(NewTurn)],
    key: RepeatKey,
    response: Response,
) -> dict[str, Any]:
    """Ask an agent for a turn.

    With an Idempotency-Key a repeat answers with the turn that is there (200); another request under it is a conflict (409).
    """
    turn = await visit.doors.agents.send(
        agent_id,
        asked.instruction,
        turn=None if key is None else uuid.uuid5(KEYED, f"{visit.tenant}/{key}"),
        context_box=asked.context_box_id,
        channel=asked.channel,
        result_fields=asked.result_fields,
        wall_time=asked.wall_time_seconds,
        budget=None if asked.budget is None else Budget(**asked.budget.model_dump()),
        payload=asked.payload,
    )
    if turn.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/turns/{turn.id}"
    return {"turn_id": turn.id, "agent_id": agent_id, "idempotent_hit": turn.idempotent_hit}


@router.get("/agents/{agent_id}/turns", response_model=Page[Turn], summary="List the turns of an agent")
async def list_page(visit: Reading, agent_id: AgentId, before: Before = None, limit: Limit = LIMIT) -> dict[str, Any]:
    """List an agent's turns, newest first, a page at a time."""
    await visit.doors.agents.get(agent_id)
    return page(await visit.doors.agents.turns(agent_id, before=before, limit=limit), limit=limit)


@router.get("/turns/{turn_id}", response_model=Turn, summary="Read a turn")
async def get(visit: Reading, turn_id: UUID) -> TurnRecord:
    """Read a turn: how far it is, or how it ended."""
    return await visit.doors.agents.turn(turn_id)


@router.get(
    "/turns/{turn_id}/result",
    response_model=Result,
    responses=also(202, Result),
    summary="Wait for what a turn comes to",
)
async def result(visit: Reading, turn_id: UUID, response: Response, wait: Wait = 0) -> dict[str, Any]:
    """Read what a turn came to; with `wait` wait for its end, so long at most. 202 while it goes on."""
    door = visit.doors.agents
    found = await _ended(door, turn_id, wait)
    if not found.terminal:
        response.status_code = 202
    card = None if found.deliverable_card_id is None else await door.card(found.deliverable_card_id)
    return {
        "turn_id": found.id,
        "ended": found.terminal,
        "status": found.turn_status,
        "deliverable": None if card is None else payload.decode(card.content),
        "output_box_id": found.output_box_id,
        "error_code": found.error_code,
        "error": found.error,
    }


async def _ended(door: Agents, turn: UUID, seconds: float) -> TurnRecord:
    if seconds:
        try:
            return await door.wait(turn, timeout=timedelta(seconds=seconds))
        except TimeoutError:
            pass  # it goes on: told as it is now
    return await door.turn(turn)


@router.get("/turns/{turn_id}/timeline", response_model=list[Moment], summary="Read a turn's timeline")
async def timeline(visit: Reading, turn_id: UUID) -> Any:
    """Read what a turn did, in order: its moves, its steps, its calls, and when each of them was."""
    return await visit.doors.agents.timeline(turn_id)


@router.get("/turns/{turn_id}/steps", response_model=list[Step], summary="Read a turn's steps")
async def steps(visit: Reading, turn_id: UUID) -> list[dict[str, Any]]:
    """Read the steps of a turn, in order, with what they came to."""
    return [_step(each) for each in await visit.doors.agents.steps(turn_id)]


def _step(step: StepRecord) -> dict[str, Any]:
    return step._asdict() | {"result": None if step.result is None else payload.decode(step.result)}


@router.get(
    "/turns/{turn_id}/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {speech.MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    summary="Listen to a turn",
)
async def stream(visit: Reading, turn_id: UUID, request: Request) -> StreamingResponse:
    """Follow what a turn streams from now on: events `text` with a JSON string, and at last `end` with its status."""
    await visit.doors.agents.turn(turn_id)
    return speech.answer(speech.turn(visit.doors.agents, turn_id), closing=request.app.state.closing)


@router.post(
    "/turns/{turn_id}/stop",
    response_model=Stopped,
    openapi_extra=takes(Stop, required=False),
    summary="Stop a turn",
)
async def stop(visit: Writing, turn_id: UUID, asked: Annotated[Stop, asks(Stop, required=False)]) -> dict[str, Any]:
    """End a turn at once; one that still waits in line is taken back. One that has ended is a conflict."""
    found = await visit.doors.agents.turn(turn_id)
    if found.terminal:
        told = f"The turn has ended already, as {found.turn_status}."
        raise errors.TurnRefused(told, code="ended", status=found.turn_status)
    answer = await visit.doors.agents.stop(turn_id, epoch=asked.turn_epoch, reason=asked.reason)
    return {"status": answer.status, "code": answer.code}
