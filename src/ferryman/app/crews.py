"""What other domains than tasks do in a worker, made only where something of theirs is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol
from uuid import UUID

from ferryman.agents.ends import Parties
from ferryman.agents.intake.delegate import Delegation
from ferryman.agents.work.profiles import Profiles
from ferryman.agents.work.turns import TurnWorker
from ferryman.agents.work.worker import Capacity
from ferryman.app.registry import Registry
from ferryman.batches.ends import BatchEnds
from ferryman.batches.work.forks import Forks
from ferryman.batches.work.part import BatchWorker
from ferryman.kernel import telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.pool import Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.stream import Streams
from ferryman.tasks.model import Draft
from ferryman.tasks.rules import request
from ferryman.tasks.work.worker import Terms


class Home(Protocol):
    """What of an opened app turns need."""

    settings: Settings
    handlers: Registry
    doorbell: Doorbell
    profiles: Profiles
    streams: Streams

    ends: BatchEnds

    @property
    def parties(self) -> Parties:
        """Whom the ends of turns concern."""


def batches(home: Home, *, line: Callable[[], Line]) -> list[BatchWorker]:
    """Return the part of a worker that dispatches the tasks of batches, if agents are registered."""
    return [BatchWorker(home.ends, home.doorbell, line=line())] if home.profiles.profiles else []


def turns(home: Home, agreed: Terms, *, line: Callable[[], Line], boot_id: UUID) -> list[TurnWorker]:
    """Return the part of a worker that does turns, if agents are registered."""
    if not home.profiles.profiles:
        return []
    targets = sorted({profile.worker_target for profile in home.profiles.profiles.values()})
    return [
        TurnWorker(
            home.profiles,
            replace(home.parties, terms=replace(home.parties.terms, lease=agreed.lease)),
            home.doorbell,
            home.streams,
            drafts=partial(draft, home.handlers),
            delegates=Delegation,
            forks=Forks(home.ends.terms, home.profiles.profiles),
            line=line,
            capacity=Capacity(agreed.concurrency, agreed.claim_max, agreed.lanes, agreed.poll, targets),
            boot_id=boot_id,
            kept=home.settings.agents.kept_handlers,
        )
    ]


def draft(handlers: Registry, name: str, *, tenant: str, payload: str, callback: str, callback_ref: str) -> Draft:
    """Return the task of a tool's call."""
    _, _, defaults = handlers.find(name)
    made = request.plain(
        tenant=tenant, name=name, payload=payload, defaults=defaults, traceparent=telemetry.carry()
    )  # fmt: skip
    return made._replace(task=made.task._replace(callback=callback, callback_ref=callback_ref))
