"""What comes in: the primitives, each in the caller's transaction, each with an answer for every message of its set."""

from ferryman.agents.intake import budgets, cards, read
from ferryman.agents.intake.agents import create, hold, try_hold
from ferryman.agents.intake.cancel import cancel, join, stop, wakeup
from ferryman.agents.intake.enqueue import enqueue
from ferryman.agents.intake.report import report

__all__ = [
    "budgets",
    "cancel",
    "cards",
    "create",
    "enqueue",
    "hold",
    "join",
    "read",
    "report",
    "stop",
    "try_hold",
    "wakeup",
]
