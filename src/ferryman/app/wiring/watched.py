"""What the watchdog does for every domain, and what must always be true."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferryman.agents import watch as agents_watch
from ferryman.app import ingestion
from ferryman.app.wiring.opened import Opened
from ferryman.batches import watch as batches_watch
from ferryman.commands import watch as command_watch
from ferryman.kernel import db, events, sequences, watchdog
from ferryman.kernel.invariants import KERNEL_INVARIANTS, Invariant
from ferryman.relays import watch as relays_watch
from ferryman.tasks import watch

log = logging.getLogger("ferryman")


def rules(opened: Opened) -> list[watchdog.Rule]:
    """Return every rule of every domain."""
    worker = opened.settings.worker
    return [
        *watch.rules(
            opened.owners,
            opened.doorbell,
            sweep=worker.lease_sweep,
            interval=worker.watchdog_pace,
        ),
        watch.set_back(every=worker.watchdog_pace, lease=worker.lease),
        agents_watch.set_back(every=worker.watchdog_pace, lease=worker.lease),
        *agents_watch.rules(opened.agents.parties, opened.doorbell, sweep=worker.lease_sweep),
        *batches_watch.rules(opened.batches.ends, opened.doorbell, sweep=worker.lease_sweep),
        watch.retention(kept=opened.settings.tasks.retention, failed_kept=opened.settings.tasks.retention_failed),
        *relays_watch.set_back(every=worker.watchdog_pace, lease=worker.lease, call=opened.settings.relays.timeout),
        *relays_watch.rules(
            interval=worker.watchdog_pace,
            kept=opened.settings.relays.retention,
            dead_kept=opened.settings.relays.retention_dead,
        ),
        *command_watch.rules(
            opened.orchestrator,
            opened.owners,
            opened.doorbell,
            interval=worker.watchdog_pace,
            unknown_after=opened.settings.commands.unknown_after,
        ),
        *command_watch.retention(kept=opened.settings.commands.retention),
        agents_watch.retention(kept=opened.settings.agents.retention),
        batches_watch.retention(kept=opened.settings.pmo.retention),
        *watch.leavings(kept=opened.settings.tasks.retention),
        *ingestion.rules(opened),
        watchdog.W16,
        watchdog.standing_still(every=worker.lease_sweep, runs=opened.settings.ingest.lease),
        days_of_the_log(kept=opened.settings.log.retention),
        sequences.rule(every=worker.watchdog_pace),
    ]


def counting(opened: Opened) -> list[watchdog.Rule]:
    """Return the rules that change nothing: what they find they show as metrics."""
    return [each for each in rules(opened) if each.name == "W16" or each.name.startswith("K19")]


def days_of_the_log(*, kept: timedelta) -> watchdog.Rule:
    """Return the rule by which the log gets its days, and loses them."""

    async def turn_over(tx: db.Tx, _limit: int) -> Sequence[Any]:
        made = await events.ensure_partitions(tx)
        dropped = await events.drop_partitions(tx, older_than=kept)
        if made or dropped:
            log.info("turned over the days of the log", extra={"made": list(made), "dropped": list(dropped)})
        # Named as findings, so that they are committed at once: both hold locks.
        return [*made, *dropped]

    return watchdog.Rule(
        name="K10",
        finds="a day of the next week that has no partition in the log, and days older than the log is kept",
        does="makes it, ahead of its time, and drops them, as far as every consumer has read",
        setting="log.retention",  # not an interval, which may be 0: without its days the log takes no event
        every=timedelta(hours=1),
        find=turn_over,
        key=str,
    )


def invariants() -> tuple[Invariant, ...]:
    """Return what must always be true, of every domain."""
    return (
        *KERNEL_INVARIANTS,
        *watch.TASK_INVARIANTS,
        *watch.SCHEDULE_INVARIANTS,
        *agents_watch.AGENT_INVARIANTS,
        *batches_watch.BATCH_INVARIANTS,
        *command_watch.COMMAND_INVARIANTS,
        *ingestion.INVARIANTS,
        *relays_watch.RELAY_INVARIANTS,
    )
