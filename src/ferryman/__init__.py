"""Ferryman: durable orchestration for AI agents, background work and ingestion, on PostgreSQL.

from ferryman import Ferryman

app = Ferryman()

@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"

The names below are imported at their first use: a part that needs few of them, such as `ferryman --help`, does not pay
for the driver and all the rest. What joins the domains is loaded when an app is opened (app/wiring).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferryman.agents.work.profiles import Budget, Limits
    from ferryman.agents.work.steps import Spent
    from ferryman.agents.work.turn import ToolResult, Turn
    from ferryman.app.blocking import Client
    from ferryman.app.ferryman import Ferryman
    from ferryman.app.handle import Handle
    from ferryman.app.schedules import Schedule, Schedules
    from ferryman.app.tasks import Tasks
    from ferryman.app.turns import TurnHandle
    from ferryman.commands.model import Command, Fact, Message, Result
    from ferryman.kernel.errors import DoNotRetry, FerrymanError
    from ferryman.kernel.retry import Backoff
    from ferryman.tasks.model import ScheduleRecord, TaskRecord
    from ferryman.tasks.states import ScheduleState, TaskState
    from ferryman.tasks.work.context import Context, current
    from ferryman.tasks.work.offspring import Child

__all__ = [
    "Backoff",
    "Budget",
    "Child",
    "Client",
    "Command",
    "Context",
    "DoNotRetry",
    "Fact",
    "Ferryman",
    "FerrymanError",
    "Handle",
    "Limits",
    "Message",
    "Result",
    "Schedule",
    "ScheduleRecord",
    "ScheduleState",
    "Schedules",
    "Spent",
    "TaskRecord",
    "TaskState",
    "Tasks",
    "ToolResult",
    "Turn",
    "TurnHandle",
    "current",
]

_HOMES = {
    "Backoff": "ferryman.kernel.retry",
    "Budget": "ferryman.agents.work.profiles",
    "Child": "ferryman.tasks.work.memory",
    "Client": "ferryman.app.blocking",
    "Command": "ferryman.commands.model",
    "Context": "ferryman.tasks.work.context",
    "DoNotRetry": "ferryman.kernel.errors",
    "Fact": "ferryman.commands.model",
    "Ferryman": "ferryman.app.ferryman",
    "FerrymanError": "ferryman.kernel.errors",
    "Handle": "ferryman.app.handle",
    "Limits": "ferryman.agents.work.profiles",
    "Message": "ferryman.commands.model",
    "Result": "ferryman.commands.model",
    "Schedule": "ferryman.app.schedules",
    "ScheduleRecord": "ferryman.tasks.model",
    "ScheduleState": "ferryman.tasks.states",
    "Schedules": "ferryman.app.schedules",
    "Spent": "ferryman.agents.work.steps",
    "TaskRecord": "ferryman.tasks.model",
    "TaskState": "ferryman.tasks.states",
    "Tasks": "ferryman.app.tasks",
    "ToolResult": "ferryman.agents.work.turn",
    "Turn": "ferryman.agents.work.turn",
    "TurnHandle": "ferryman.app.turns",
    "current": "ferryman.tasks.work.context",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ferryman' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
