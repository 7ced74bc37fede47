"""What other domains than tasks do in a worker, made only where something of theirs is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol
from uuid import UUID

from ferryman.agents.ends import Parties
from ferryman.agents.intake.delegate import DelegateEnds, Delegation
from ferryman.agents.ports import SettlesTurns
from ferryman.agents.rules import DELEGATE
from ferryman.agents.work.profiles import Profiles
from ferryman.agents.work.turns import TurnWorker
from ferryman.agents.work.worker import Capacity
from ferryman.app.batches import Batches
from ferryman.app.registry import Registry
from ferryman.app.terms import batch_terms, turn_terms
from ferryman.batches.ends import BatchEnds
from ferryman.batches.work.forks import Forks
from ferryman.batches.work.part import BatchWorker
from ferryman.kernel import telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.part import Part
from ferryman.kernel.pool import Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.stream import Streams
from ferryman.tasks.model import Draft
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.work.worker import Terms


class Home(Protocol):
    """What of an opened app turns need."""

    settings: Settings
    handlers: Registry
    doorbell: Doorbell
    profiles: Profiles
    streams: Streams
    batches: Batches


def ends(settings: Settings, owners: Owners, turn_owners: Mapping[str, SettlesTurns]) -> BatchEnds:
    """Return whom the ends of turns concern: batches, agents that asked for them, and whom the app names."""
    terms = turn_terms(settings)
    others = {DELEGATE: DelegateEnds(Parties(terms)), **turn_owners}
    return BatchEnds(batch_terms(settings), terms, tasks=owners, others=others)


def known(home: Home) -> dict[str, Sequence[str]]:
    """Return what a worker says that it knows of turns: profiles, targets, and to whom their ends may be owed."""
    profiles = home.profiles.profiles
    return {
        "profiles": sorted(profiles),
        "targets": sorted({profile.worker_target for profile in profiles.values()}),
        "turn_callbacks": home.batches.ends.parties.owners.kinds,
    }


def parts(home: Home, agreed: Terms, *, line: Callable[[], Line], boot_id: UUID) -> list[Part]:
    """Return the parts of a worker that do turns and dispatch the tasks of batches, if agents are registered."""
    if not home.profiles.profiles:
        return []
    batches = BatchWorker(home.batches.ends, home.doorbell, line=line())
    return [turns(home, agreed, line=line, boot_id=boot_id), batches]


def turns(home: Home, agreed: Terms, *, line: Callable[[], Line], boot_id: UUID) -> TurnWorker:
    """Return the part of a worker that does turns."""
    targets = sorted({profile.worker_target for profile in home.profiles.profiles.values()})
    return TurnWorker(
        home.profiles,
        replace(home.batches.ends.parties, terms=replace(home.batches.ends.parties.terms, lease=agreed.lease)),
        home.doorbell,
        home.streams,
        drafts=partial(draft, home.handlers),
        delegates=Delegation,
        forks=Forks(home.batches.ends.terms, home.profiles.profiles),
        line=line,
        capacity=Capacity(agreed.concurrency, agreed.claim_max, agreed.lanes, agreed.poll, targets),
        boot_id=boot_id,
        kept=home.settings.agents.kept_handlers,
    )


def draft(handlers: Registry, name: str, *, tenant: str, payload: str, callback: str, callback_ref: str) -> Draft:
    """Return the task of a tool's call."""
    _, _, defaults = handlers.find(name)
    made = request.plain(
        tenant=tenant, name=name, payload=payload, defaults=defaults, traceparent=telemetry.carry()
    )  # fmt: skip
    return made._replace(task=made.task._replace(callback=callback, callback_ref=callback_ref))
