"""What an answer of agents that is no "accepted" is told as, wherever somebody asks: one error for each kind of no."""

from __future__ import annotations

from typing import Any

from ferryman.agents.model import Busy, Failed, Rejected
from ferryman.kernel import errors

CONFLICTS = ("agent_busy", "output_box_taken", "stale_epoch", "not_queued")


def refusal(answer: Busy | Rejected | Failed, **details: Any) -> errors.FerrymanError:
    """Return the error; the code of the answer is in its details."""
    told = {"code": answer.code, "status": answer.status, **details}
    match answer.code:
        case "agent_unknown":
            return errors.AgentNotFound(answer.reason, **told)
        case "call_unknown":
            return errors.CallNotFound(answer.reason, **told)
        case "turn_conflict":
            return errors.TurnDuplicate(answer.reason, conflict_fields=list(getattr(answer, "fields", ())), **told)
    kind = errors.TurnRefused if answer.code in CONFLICTS or isinstance(answer, Failed) else errors.AgentInvalidRequest
    return kind(answer.reason, **told)
