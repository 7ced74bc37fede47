"""What the settings mean for agents and batches, and for the rules of the watchdog that hang on them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from ferryman.agents.ends import Parties
from ferryman.agents.intake.report import TOOL, ToolEnds
from ferryman.agents.model import Terms as TurnTerms
from ferryman.batches.model import Terms as BatchTerms
from ferryman.kernel.settings import CENTURY, Settings
from ferryman.tasks.joins import CHILD, Joins
from ferryman.tasks.ports import Owners, Settles


def turn_terms(settings: Settings) -> TurnTerms:
    """Return how long things may take with turns; a rule that must not be switched off keeps its default."""
    worker, pmo, agents = settings.worker, settings.pmo, settings.agents
    least = TurnTerms()
    return TurnTerms(
        dispatched_retry=pmo.dispatched_retry,
        dispatched_timeout=_bound(pmo.dispatched_timeout, least.dispatched_timeout),
        active_reap=_bound(pmo.active_reap, least.active_reap),
        pending_wakeup=max(pmo.pending_wakeup, timedelta(0)),
        pending_wakeup_skip=_bound(pmo.pending_wakeup_skip, CENTURY),
        inbox_processing_timeout=_bound(worker.inbox_processing_timeout, CENTURY),
        suspend_timeout=_bound(worker.suspend_timeout, least.suspend_timeout),
        worker_interval=worker.watchdog_pace,
        wall_time=agents.wall_time,
        queued_for=agents.queued_timeout,
        interval=pmo.watchdog_pace,
        lease=worker.lease,
        ends_after=settings.tasks.ends_after,
        max_depth=agents.max_recursion_depth,
        card_limit=settings.tasks.payload_limit,
    )


def batch_terms(settings: Settings) -> BatchTerms:
    """Return how much a batch may be, and how long it may take."""
    pmo = settings.pmo
    return BatchTerms(
        max_tasks=pmo.fork_join_max_tasks,
        deadline=pmo.fork_join_default_deadline,
        dispatch_concurrency=pmo.batch_dispatch_concurrency,
        interval=pmo.watchdog_pace,
        max_depth=settings.agents.max_recursion_depth,
        card_limit=settings.tasks.payload_limit,
    )


def _bound(given: timedelta, otherwise: timedelta) -> timedelta:
    return given if given > timedelta(0) else otherwise


def switches(settings: Settings) -> dict[str, float]:
    """Return the settings that rules of the watchdog hang on, in seconds; 0 or less switches one off (W)."""
    worker, pmo = settings.worker, settings.pmo
    return {
        "worker.watchdog_interval_seconds": worker.watchdog_interval.total_seconds(),
        "worker.lease_sweep_seconds": worker.lease_sweep.total_seconds(),
        "worker.inbox_processing_timeout_seconds": worker.inbox_processing_timeout.total_seconds(),
        "worker.suspend_timeout_seconds": worker.suspend_timeout.total_seconds(),
        "commands.unknown_after_seconds": settings.commands.unknown_after.total_seconds(),
        "pmo.watchdog_interval_seconds": pmo.watchdog_interval.total_seconds(),
        "pmo.dispatched_retry_seconds": pmo.dispatched_retry.total_seconds(),
        "pmo.dispatched_timeout_seconds": pmo.dispatched_timeout.total_seconds(),
        "pmo.active_reap_seconds": pmo.active_reap.total_seconds(),
        "pmo.pending_wakeup_seconds": pmo.pending_wakeup.total_seconds(),
    }


def owners_of(settings: Settings, settlers: Mapping[str, Settles]) -> Owners:
    """Return who settles which end of a task: other tasks, agents' turns, and whom the app names."""
    tools = ToolEnds(Parties(terms=turn_terms(settings)))
    return Owners({**settlers, CHILD: Joins(), TOOL: tools})
