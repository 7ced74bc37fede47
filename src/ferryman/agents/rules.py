"""What should happen: what may come in, what a fallback and a result look like, who waits in line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ferryman.agents.model import (
    Accepted,
    Busy,
    Call,
    Close,
    End,
    NewAgent,
    Order,
    Rejected,
    Report,
    Suspension,
    Taken,
    Terms,
)
from ferryman.agents.states import TurnStatus
from ferryman.kernel import errors, ids, payload
from ferryman.tasks.model import Ended
from ferryman.tasks.states import FAILED, SUCCEEDED

# One token of a subject: an agent's id, a channel and a worker's target stand in subjects as they are (A15).
_TOKEN = re.compile(r"[A-Za-z0-9_:-]{1,200}")
BUSY_POLICIES = ("enqueue", "reject", "interrupt", "merge")
AFTER_EXECUTION = ("suspend", "terminate")
RESULT_STATUSES = tuple(TurnStatus)
# Who is told of an end: the call of a tool, by its task, and the call of another agent, by its turn.
TOOL, DELEGATE = "tool", "delegate"
# A result may say by this key of its object what follows it (A10).
CONTROL = "__after_execution__"

SCHEMA_VERSION = 1


class Finding(Protocol):
    """What a rule or a stop found: columns by name."""

    def __getitem__(self, key: Any, /) -> Any:
        """Give the value of a column."""


def reference(tenant: str, agent_id: str, tool_call_id: str) -> str:
    """Return what a callback carries: whose head is to be locked, and which call is answered."""
    return f"{tenant}/{agent_id}/{tool_call_id}"


def awaiting(refs: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return whose head each of such references names: (tenant, agent)."""
    return {ref: (tenant, agent) for ref in refs for tenant, agent, _ in [ref.split("/", 2)]}


def is_token(value: object) -> bool:
    """Tell whether a text can be one token of a subject."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def check_agent(agent: NewAgent) -> None:
    """Refuse an agent that could not be addressed."""
    for field in ("agent_id", "worker_target"):
        if not is_token(getattr(agent, field)):
            raise errors.AgentInvalidRequest(
                f"{field}: expected 1 to 200 letters, digits, _ : - (it is one token of a subject),"
                f" got {ascii(getattr(agent, field))[:60]}.",
                field=field,
            )
    ids.check_name(agent.profile, "profile")
    ids.check_name(agent.tenant, "tenant")
    if agent.when_busy not in BUSY_POLICIES:
        raise errors.AgentInvalidRequest(
            f"when_busy: expected one of {', '.join(BUSY_POLICIES)}, got {ascii(agent.when_busy)[:60]}.",
            field="when_busy",
        )


def refusal(order: Order, terms: Terms) -> Rejected | None:  # noqa: PLR0911 - one answer for each thing that can be wrong
    """Say why an order cannot be taken in, whatever the agent is doing."""
    if not is_token(order.agent_id):
        return Rejected("protocol_violation", f"agent_id: expected one token, got {ascii(order.agent_id)[:60]}.")
    if order.channel is None or not is_token(order.channel):
        return Rejected("missing_channel", f"channel: expected one token, got {ascii(order.channel)[:60]}.")
    if order.message_type not in ("turn", "ui_action"):
        return Rejected("protocol_violation", f"message_type: {ascii(order.message_type)[:60]} asks for no turn.")
    if (order.context_box is None) == (order.instruction is None):
        return Rejected("missing_required_fields", "Expected an instruction or a context box, one of them.")
    if order.depth >= terms.max_depth:
        return Rejected(
            "recursion_depth_exceeded", f"The turn would be {order.depth} deep; the limit is {terms.max_depth}."
        )
    if order.depth < 0 or (order.wall_time is not None and order.wall_time.total_seconds() <= 0):
        return Rejected("protocol_violation", "depth and wall_time must not be negative.")
    return _unfit(order.instruction, "instruction", terms) or _unfit(order.payload, "payload", terms)


def _unfit(value: Any, field: str, terms: Terms) -> Rejected | None:
    try:
        payload.encode(value, limit=terms.card_limit)
    except errors.FerrymanError as error:
        return Rejected("payload_invalid", f"{field}: {error.message}")
    return None


def standing(order: Order, *, when_busy: str, busy: bool, waiting: UUID | None) -> Accepted | Busy | str:
    """Say what becomes of an order for an agent: accepted as a turn of its own, `merge`, `interrupt`, or busy (A20)."""
    policy = "enqueue" if order.always_enqueue else when_busy
    # A user's action is for now: it does not wait in line (A4).
    if order.message_type == "ui_action" and (busy or waiting is not None):
        return Busy()
    if policy == "reject" and (busy or waiting is not None):
        return Busy()
    if policy == "interrupt" and busy:
        return "interrupt"
    # What somebody waits for by a call of its own has a turn and a result of its own. So the end of what was merged owes nobody
    # anything, and locks no more heads than the turn that it went along with (docs/adr/0035).
    if policy == "merge" and waiting is not None and order.context_box is None and order.callback is None:
        return "merge"
    return Accepted(order.turn)


def unreported(report: Report, terms: Terms) -> Rejected | None:  # noqa: PLR0911 - one answer for each thing that can be wrong
    """Say why a report cannot be taken in, whatever is waited for."""
    if report.inline is not None:
        return Rejected("inline_result", "A result is a tool.result card; none may stand in the message itself.")
    if report.message_type not in ("tool_result", "timeout"):
        return Rejected("protocol_violation", f"message_type: {ascii(report.message_type)[:60]} is no report.")
    if not 1 <= len(report.tool_call_id) <= ids.LONGEST:
        return Rejected("protocol_violation", "tool_call_id: expected 1 to 200 characters.")
    if report.content is None:
        return None
    if report.content.get("status") not in RESULT_STATUSES:
        return Rejected("invalid_status", f"status: expected one of {', '.join(RESULT_STATUSES)}.")
    if report.content.get("after_execution", "suspend") not in AFTER_EXECUTION:
        return Rejected("invalid_after_execution", "after_execution: expected suspend or terminate.")
    return _unfit(report.content, "content", terms)


def result(ended: Ended) -> dict[str, Any]:
    """Return the content of the tool.result card for a tool's task that has ended."""
    if ended.state is SUCCEEDED:
        value = None if ended.result is None else json.loads(ended.result)
        content: dict[str, Any] = {"status": "success", "result": value}
        if isinstance(value, Mapping) and value.get(CONTROL) in AFTER_EXECUTION:
            content |= {"after_execution": value[CONTROL], "result": {k: v for k, v in value.items() if k != CONTROL}}
        return content
    status = "failed" if ended.state is FAILED else "canceled"
    code = ended.code or ("tool_failed" if ended.state is FAILED else "tool_canceled")
    return {"status": status, "error": {"code": code, "message": ended.reason or code, "source": "tool"}}


def timed_out(tool_name: str) -> dict[str, Any]:
    """Return the content of the tool.result card for a call that nobody answered in time (W2)."""
    message = f"{tool_name} gave no result in time."
    return {"status": "timeout", "error": {"code": "tool_timeout", "message": message, "source": "watchdog"}}


def fallback(status: TurnStatus, *, code: str | None, message: str) -> dict[str, Any]:
    """Return the deliverable of a turn that left none (A13)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "fallback_deliverable",
        "status": status.value,
        "partial": status is TurnStatus.PARTIAL,
        "message": message,
        "fields": [{"name": "summary", "value": message}, {"name": "reason", "value": code}],
    }


def end_of(
    taken: Taken,
    status: TurnStatus,
    content: Any = None,
    *,
    owner: UUID,
    code: str | None = None,
    error: str | None = None,
    result_card: UUID | None = None,
) -> End:
    """Return the end of a turn by its holder; without content the deliverable is a fallback."""
    missing = content is None
    said = error or code or "The turn left no deliverable."
    return End(
        id=taken.id,
        epoch=taken.epoch,
        tenant=taken.tenant,
        agent_id=taken.agent_id,
        card_id=ids.new_id(),
        status=status,
        content=fallback(status, code=code, message=said) if missing else content,
        fallback=missing,
        owner=owner,
        code=code,
        error=error,
        result_card=result_card,
        callback=taken.callback,
        callback_ref=taken.callback_ref,
    )


def suspension_of(taken: Taken, calls: Sequence[Call], *, owner: UUID) -> Suspension:
    """Return the outcome of a turn that waits for calls."""
    return Suspension(
        id=taken.id,
        epoch=taken.epoch,
        tenant=taken.tenant,
        agent_id=taken.agent_id,
        owner=owner,
        calls=tuple(calls),
        callback=taken.callback,
        callback_ref=taken.callback_ref,
    )


def ended_by(
    finding: Finding,
    status: TurnStatus,
    code: str,
    message: str,
    *,
    expects: tuple[str, ...],
    overdue: bool = False,
    to: str = "consumed",
) -> End:
    """Return the end of a turn that somebody else than its holder ends: a stop, or the watchdog (A2: the epoch grows)."""
    return End(
        id=finding["id"],
        epoch=finding["turn_epoch"],
        tenant=finding["tenant"],
        agent_id=finding["agent_id"],
        card_id=ids.new_id(),
        status=status,
        content=fallback(status, code=code, message=message),
        fallback=True,
        expects=expects,
        overdue=overdue,
        bump=1,
        code=code,
        error=message,
        forced=ids.new_id(),
        message_status=to,  # type: ignore[arg-type]
        callback=finding["callback"],
        callback_ref=finding["callback_ref"],
    )


def closed_by(
    finding: Finding, status: TurnStatus, code: str, message: str, *, expects: tuple[str, ...], to: str
) -> Close:
    """Return the end of a message that no head holds."""
    return Close(
        id=finding["id"],
        tenant=finding["tenant"],
        card_id=ids.new_id(),
        status=status,
        code=code,
        error=message,
        content=fallback(status, code=code, message=message),
        expects=expects,
        to_status=to,  # type: ignore[arg-type]
        callback=finding["callback"],
        callback_ref=finding["callback_ref"],
    )
