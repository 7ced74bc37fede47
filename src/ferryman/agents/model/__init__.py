"""What agents, turns, messages, calls and cards are made of."""

from ferryman.agents.model.cards import (
    Card,
    CardRecord,
)
from ferryman.agents.model.messages import (
    NOBODY,
    Accepted,
    Answer,
    Busy,
    Edge,
    Failed,
    NewAgent,
    Order,
    Rejected,
    Report,
    Source,
    Stop,
)
from ferryman.agents.model.records import (
    AgentRecord,
    CallRecord,
    StepRecord,
    TurnRecord,
)
from ferryman.agents.model.terms import (
    Terms,
)
from ferryman.agents.model.turns import (
    Amount,
    Call,
    Close,
    End,
    EndedTurn,
    Outcome,
    Release,
    Step,
    Suspension,
    Taken,
)

__all__ = [
    "NOBODY",
    "Accepted",
    "AgentRecord",
    "Amount",
    "Answer",
    "Busy",
    "Call",
    "CallRecord",
    "Card",
    "CardRecord",
    "Close",
    "Edge",
    "End",
    "EndedTurn",
    "Failed",
    "NewAgent",
    "Order",
    "Outcome",
    "Rejected",
    "Release",
    "Report",
    "Source",
    "Step",
    "StepRecord",
    "Stop",
    "Suspension",
    "Taken",
    "Terms",
    "TurnRecord",
]
