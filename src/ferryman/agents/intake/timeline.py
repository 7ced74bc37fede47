"""A turn drawn over time: its moves, its steps, its calls (A17)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.agents.store import pages, steps
from ferryman.kernel import events, payload
from ferryman.kernel.db import Tx


class Moment(NamedTuple):
    """One thing of a turn: since when, until when (none: a moment, or still going on), and what it was."""

    at: datetime
    until: datetime | None
    kind: str  # state, step, card, call, end
    name: str
    status: str | None
    details: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it with its times as text."""
        return {
            **self._asdict(),
            "at": self.at.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }


async def timeline(tx: Tx, turn: UUID, *, tenant: str) -> list[Moment]:
    """Return everything that is known of a turn, in order."""
    moments = [_moved(each) for each in await events.of(tx, turn, tenant=tenant) if each.kind in MOVES]
    for step in await steps.load_steps(tx, [(tenant, turn)]):
        used: dict[str, Any] = {
            "input_tokens": step.input_tokens,
            "output_tokens": step.output_tokens,
            "error": step.error,
        }
        if step.cost is not None:
            used["cost"] = float(step.cost)
        moments.append(Moment(step.started_at, step.ended_at, step.kind, step.name, step.status, _told(used)))
    for call in await pages.calls(tx, turn, tenant=tenant):
        told = {
            "tool_call_id": call["tool_call_id"],
            "task_id": None if call["task_id"] is None else str(call["task_id"]),
            "step_id": None if call["step_id"] is None else str(call["step_id"]),
        }
        moments.append(
            Moment(
                call["created_at"],
                call["received_at"],
                "call",
                call["tool_name"],
                call["status"] or call["wait_status"],
                _told(told),
            )
        )
    return sorted(moments, key=lambda each: each.at)


MOVES = ("agent.state", "agent.task")


def _moved(event: events.Event) -> Moment:
    data = payload.decode(event.data or "{}")
    if event.kind == "agent.task":
        return Moment(event.at, None, "end", event.to_state or "", event.to_state, _told({"code": event.reason_code}))
    told = {"turn_epoch": data.get("turn_epoch"), "reason": event.reason_code}
    return Moment(event.at, None, "state", event.to_state or "", event.to_state, _told(told))


def _told(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}
