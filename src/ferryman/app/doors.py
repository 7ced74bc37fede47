"""The doors of one tenant, for whoever serves several at once."""

from __future__ import annotations

from typing import NamedTuple

from ferryman.app.agents import Agents
from ferryman.app.batches import Batches
from ferryman.app.commands import Commands
from ferryman.app.history import History
from ferryman.app.ingest import Ingest
from ferryman.app.queues import Queues
from ferryman.app.relays import Webhooks
from ferryman.app.schedules import Schedules
from ferryman.app.tasks import Tasks


class Doors(NamedTuple):
    """Every door of an app, open to one tenant alone, whatever is running."""

    tenant: str
    tasks: Tasks
    queues: Queues
    schedules: Schedules
    agents: Agents
    batches: Batches
    commands: Commands
    ingest: Ingest
    webhooks: Webhooks
    history: History
