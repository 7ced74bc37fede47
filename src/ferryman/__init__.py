"""Ferryman: durable orchestration for AI agents, background work and ingestion, on PostgreSQL.

from ferryman import Ferryman

app = Ferryman()

@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"
"""

from ferryman.app.blocking import Client
from ferryman.app.ferryman import Ferryman
from ferryman.app.tasks import Handle, Tasks
from ferryman.kernel.errors import DoNotRetry, FerrymanError
from ferryman.kernel.retry import Backoff
from ferryman.tasks.model import TaskRecord
from ferryman.tasks.states import TaskState
from ferryman.tasks.work.context import Context, current

__all__ = [
    "Backoff",
    "Client",
    "Context",
    "DoNotRetry",
    "Ferryman",
    "FerrymanError",
    "Handle",
    "TaskRecord",
    "TaskState",
    "Tasks",
    "current",
]
