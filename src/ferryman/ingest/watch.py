"""What is repaired: the watchdog's rules for ingestion, acting through the normal functions; and what must always be true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from ferryman.ingest.registry import Sources
from ferryman.ingest.store import plans, tasks
from ferryman.ingest.store import retention as past
from ferryman.ingest.work import reslice
from ferryman.ingest.work.crew import TOPIC
from ferryman.ingest.work.settle import lose
from ferryman.kernel import errors, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import Rule, far_leases, walking

log = telemetry.logger("ingest")

_HERE = "ferryman.ingest"

INGEST_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "leased_is_running", "A task of ingestion is held if and only if a run of that claim is live."),
    declare(_HERE, "open_batches_run", "A batch that runs belongs to a run that runs."),
    declare(_HERE, "cursor_is_its_last_move", "A cursor stands where its last event left it."),
    declare(_HERE, "cursor_chain_is_whole", "Each move of a cursor begins where the one before it ended.", deep=True),
    declare(_HERE, "cursor_covers_nothing_open", "A cursor moves over finished coverage alone.", deep=True),
    declare(_HERE, "one_page_per_position", "One position of a slice has succeeded once.", deep=True),
    declare(_HERE, "ready_slices_have_tasks", "A slice is ready if and only if it has a task.", deep=True),
    declare(_HERE, "ingest_and_log_agree", "Of everything in ingestion row and log say the same.", deep=True),
    declare(_HERE, "work_has_one_tenant", "A task of ingestion belongs to the tenant of its plan.", deep=True),
)

EXPIRED = "still waiting at its ends_at"
# Claims and renewals: more than an hour's run has. It is told and nothing is done about it (I5).
LEASED_OFTEN = 200


def rules(
    sources: Sources,
    doorbell: Doorbell,
    *,
    sweep: timedelta,
    interval: timedelta,
    queued_max: int,
    ends_after: timedelta,
) -> list[Rule]:
    """Return the rules that end, bring back or go on with everything of ingestion."""

    async def reap(tx: Tx, late: Sequence[Row]) -> int:
        return await lose(tx, late, queued_max=queued_max)

    def ring(_found: Sequence[Any]) -> None:
        doorbell.ring(TOPIC)

    return [
        Rule(
            name="K19-ingest",
            finds="how many tasks of ingestion wait and run, by source, and how often the running ones were leased",
            does="shows it as a metric; tells of a task that was leased very often",
            setting="worker.watchdog_interval_seconds",
            every=timedelta(seconds=30),
            find=_count,
        ),
        Rule(
            name="W15",
            finds="a task of ingestion whose lease has passed, or whose batch is not done in its time",
            does="ends its run as FAILED and puts it back into the line; FAILED as stuck at its cap of claims",
            setting="worker.lease_sweep_seconds",
            every=sweep,
            find=tasks.lapsed,
            act=reap,
            reaps=True,
            only_bound=True,
            after=ring,
        ),
        *_expiring(interval),
        *_planning(sources, interval, ring, queued_max=queued_max, ends_after=ends_after),
    ]


def set_back(*, every: timedelta, lease: timedelta) -> Rule:
    """Return the rule for tasks of ingestion whose leases are of a time before the clock was set back."""
    return far_leases("K5-ingest", tasks.shorten, every=every, lease=lease)


def retention(*, kept: timedelta) -> Rule:
    """Return the rule by which plans leave of which everything has ended (T20)."""
    return walking.retention(
        "T20-ingest",
        finds="a plan of which everything ended longer ago than plans are kept, and which its cursor has passed",
        does="deletes it, with its slices, tasks, runs, batches and what they put aside; the moves of cursors stay",
        walk=partial(past.walk, kept=kept),
        forget=past.forget,
        # A plan may have thousands of slices, each with its batches.
        limit=20,
    )


async def _count(tx: Tx, _limit: int) -> Sequence[Row]:
    rows = await tasks.depth(tx)
    telemetry.depth("ingest", [(row["source"], row["status"], row["count"]) for row in rows])
    for row in rows:
        if row["leased"] >= LEASED_OFTEN:
            told = {"source": row["source"], "lease_count": row["leased"]}
            log.warning("a task of %s was leased %s times", row["source"], row["leased"], extra=told)
    return ()


def _expiring(interval: timedelta) -> list[Rule]:
    async def cancel(tx: Tx, found: Sequence[Row]) -> int:
        rows = await tasks.cancel(tx, [row["id"] for row in found], code=errors.IngestExpired.code, reason=EXPIRED)
        for _ in rows:
            telemetry.ended("ingest", "CANCELLED", errors.IngestExpired.code)
        return len(rows)

    async def fail(tx: Tx, found: Sequence[Row]) -> int:
        return await plans.fail(tx, {row["id"]: EXPIRED for row in found})

    return [
        Rule(
            name="I5",
            finds="a task of ingestion that still waits at its ends_at",
            does="cancels it as INGEST_EXPIRED",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=tasks.expired,
            act=cancel,
            only_bound=True,
        ),
        Rule(
            name="I3",
            finds="a slice that was not derived by its ends_at",
            does="ends it as FAILED",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=plans.expired,
            act=fail,
            only_bound=True,
        ),
    ]


def _planning(
    sources: Sources,
    interval: timedelta,
    ring: Callable[[Sequence[Any]], None],
    *,
    queued_max: int,
    ends_after: timedelta,
) -> list[Rule]:
    """Return the rules by which the planner goes on; the normal path has done it already."""

    async def derive(tx: Tx, found: Sequence[Row]) -> int:
        made = [
            task
            for row in found
            for task in await plans.derive(tx, tenant=row["tenant"], source=row["source"], most=queued_max)
        ]
        return len(made)

    async def undecided(tx: Tx, limit: int) -> Sequence[Row]:
        return await tasks.undecided(tx, limit, known=sources.declared)

    async def decide(tx: Tx, found: Sequence[Row]) -> int:
        return await reslice.decide(tx, found, sources, queued_max=queued_max, ends_after=ends_after)

    return [
        Rule(
            name="I3-derive",
            finds="a source with slices that wait, and room in its line",
            does="derives their tasks",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=partial(plans.waiting, most=queued_max),
            act=derive,
            key=_by_source,
            after=ring,
        ),
        Rule(
            name="I10",
            finds="a PARTIAL task that the planner has not decided about",
            does="halves what remains, or makes one slice of it, or says that there is nothing",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=undecided,
            act=decide,
            after=ring,
        ),
    ]


def _by_source(row: Any) -> tuple[str, str]:
    return row["tenant"], row["source"]
