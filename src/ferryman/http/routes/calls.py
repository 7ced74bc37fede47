"""Calls of turns over HTTP: somebody outside answers them (A10)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter

from ferryman.agents.model import Accepted
from ferryman.app.refusals import refusal
from ferryman.http.answers import Asked, Shape
from ferryman.http.bodies import asks, takes
from ferryman.http.callers import Writing
from ferryman.http.fields import CallId, Whole

router = APIRouter(tags=["turns"])


class ToolResult(Asked):
    """What a call came to, from whoever did it."""

    status: str = "success"
    result: Any = None
    error: dict[str, Any] | None = None
    after_execution: str | None = None
    turn_epoch: Whole | None = None


class Reported(Shape):
    """What became of a result: `effect` is false for one that came too late, or second."""

    status: str
    effect: bool


@router.post(
    "/tool-results/{tool_call_id}",
    response_model=Reported,
    openapi_extra=takes(ToolResult),
    summary="Answer a call of a turn",
)
async def report(
    visit: Writing, tool_call_id: CallId, asked: Annotated[ToolResult, asks(ToolResult)]
) -> dict[str, Any]:
    """Answer a call that a turn waits for, from outside. The first answer counts; a later one has no effect."""
    answer = await visit.doors.agents.report(
        tool_call_id,
        status=asked.status,
        result=asked.result,
        error=asked.error,
        after_execution=asked.after_execution,
        turn_epoch=asked.turn_epoch,
    )
    if not isinstance(answer, Accepted):
        raise refusal(answer, tool_call_id=tool_call_id)
    return {"status": answer.status, "effect": answer.effect}
