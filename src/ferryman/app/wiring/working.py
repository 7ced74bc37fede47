"""What runs in a worker: a part for each domain, and the watchdog beside them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ferryman.app import crews, ingestion
from ferryman.app import relays as outgoing
from ferryman.app.fit import Fit
from ferryman.app.terms import switches, turn_terms
from ferryman.app.wiring.ground import patiently, rings_within
from ferryman.app.wiring.opened import Opened
from ferryman.app.wiring.watched import rules
from ferryman.commands.intake import routes
from ferryman.kernel import db, errors, ids, lease, part, sequences, watchdog
from ferryman.kernel.pool import Line
from ferryman.kernel.settings import Settings
from ferryman.relays.rules import ending
from ferryman.relays.work.part import Terms as RelayTerms
from ferryman.tasks.intake import queues
from ferryman.tasks.work.worker import Terms, Worker

_KEEP = db.load("ferryman.kernel", "settings/keep")


def in_force(settings: Settings) -> dict[str, float | bool]:
    """Return what SQL must know of the settings: the watchdog's views, and `create_tasks`."""
    tasks, turns = settings.tasks, turn_terms(settings)
    return {
        "watchdog.interval_seconds": settings.worker.watchdog_pace.total_seconds(),
        "tasks.timeout_ms": round(tasks.timeout.total_seconds() * 1000),
        "tasks.max_retries": tasks.max_retries,
        "tasks.ends_after_seconds": tasks.ends_after.total_seconds(),
        "tasks.payload_limit": tasks.payload_limit,
        "tasks.retention_seconds": tasks.retention.total_seconds(),
        "tasks.retention_failed_seconds": tasks.retention_failed.total_seconds(),
        "pmo.active_reap_seconds": turns.active_reap.total_seconds(),
        "pmo.dispatched_timeout_seconds": turns.dispatched_timeout.total_seconds(),
        "agents.wall_seconds": turns.wall_time.total_seconds(),
        "ingest.queued_max": settings.ingest.queued_max,
        "ingest.partition_concurrency": settings.ingest.partition_concurrency,
        "ring_within": rings_within(settings),
    }


async def work(opened: Opened, stop: asyncio.Event, **terms: Any) -> None:
    """Run a worker and its watchdog until told to stop."""
    worker = opened.settings.worker
    agreed = Terms(
        queues=opened.handlers.served(terms.pop("queues", None) or worker.queues),
        concurrency=terms.pop("concurrency", worker.concurrency),
        claim_max=terms.pop("claim_max", worker.claim_max),
        lanes=terms.pop("lanes", worker.lanes),
        lease=terms.pop("lease", worker.lease),
        grace=terms.pop("grace", worker.grace),
        poll=terms.pop("poll", worker.poll),
        result_limit=opened.settings.tasks.payload_limit,
        version=this_version(),
        ends_after=opened.settings.tasks.ends_after,
        knows={**crews.known(opened), **ingestion.known(opened)},
        leases={"ingest": opened.settings.ingest.lease, "delivery": ending.lease(opened.settings.relays.timeout)},
    )
    if terms:
        raise errors.SettingsInvalid(f"{min(terms)}: a worker has no such term.", field=min(terms))
    line = opened.line(watchdog.PATIENCE, **watchdog.SETTINGS)
    values = json.dumps(in_force(opened.settings))
    try:
        if await patiently(lambda: _begin(opened, line, values), stop):
            await _work(opened, stop, line, agreed)
    finally:
        await line.close()


async def _begin(opened: Opened, line: Line, in_force: str) -> None:
    await db.many(line, _KEEP, values=in_force)
    await sequences.repair_all(line)
    await declare_queues(opened)
    if opened.mappings.routes:
        await routes.declare(line, opened.mappings.routes)


async def _work(opened: Opened, stop: asyncio.Event, line: Line, agreed: Terms) -> None:
    worker = opened.settings.worker
    fit = Fit(stop)
    dog = watchdog.Watchdog(
        line,
        [*rules(opened), fit.rule()],
        interval=worker.watchdog_pace,
        lease=agreed.lease,
        settings=switches(opened.settings),
    )
    watching = asyncio.create_task(dog.run())
    boot_id = ids.boot_id()
    try:
        tasks = Worker(
            opened.handlers.handlers,
            opened.owners,
            opened.doorbell,
            line=partial(opened.line, lease.patience(agreed.lease)),
            session=opened.database.session,
            drafts=opened.drafts,
            terms=agreed,
            boot_id=boot_id,
            home=opened.database,
            looks=opened.tasks.flows.looks,
            seal=opened.tasks.seal,
        )
        relays = outgoing.parts(
            opened.settings, opened.doorbell,
            line=partial(opened.line, lease.patience(agreed.lease)),
            terms=RelayTerms(boot_id, agreed.lease, agreed.poll),
        )  # fmt: skip
        executors = ingestion.parts(opened, boot_id=boot_id, poll=agreed.poll)
        turns = crews.parts(opened, agreed, line=partial(opened.line, lease.patience(agreed.lease)), boot_id=boot_id)
        await part.run([tasks, *turns, *relays, *executors], stop, grace=agreed.grace, beside={"watchdog": watching})
        fit.confirm()
    finally:
        dog.stop()
        await asyncio.wait([watching], timeout=5)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def declare_queues(opened: Opened) -> Sequence[str]:
    """Store what the app declares of its queues; name those for which that is new."""
    if not opened.handlers.queues:
        return ()
    async with opened.database.transaction() as tx:
        changed = await queues.declare(tx, opened.handlers.queues)
    if changed:
        opened.doorbell.ring("queues")
    return changed


@cache
def this_version() -> str:
    """Return the version that is installed."""
    try:
        return version("ferryman")
    except PackageNotFoundError:
        return "0"
