"""The only place where the parts meet: what is opened with an app, and what runs in a worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ferryman.agents import watch as agents_watch
from ferryman.agents.ends import Parties
from ferryman.agents.intake.report import ToolEnds
from ferryman.agents.ports import SettlesTurns
from ferryman.agents.rules import TOOL
from ferryman.agents.work.profiles import Profiles
from ferryman.app import crews
from ferryman.app import tasks as doors
from ferryman.app.agents import Agents
from ferryman.app.batches import Batches
from ferryman.app.fit import Fit
from ferryman.app.queues import Queues
from ferryman.app.registry import Registry
from ferryman.app.schedules import Schedules
from ferryman.app.terms import switches, turn_terms
from ferryman.batches import watch as batches_watch
from ferryman.kernel import db, errors, events, ids, lease, migrate, part, payload, telemetry, watchdog
from ferryman.kernel.doorbell import Doorbell, NoDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.invariants import KERNEL_INVARIANTS, Invariant
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.stream import Streams
from ferryman.tasks import watch
from ferryman.tasks.intake import queues
from ferryman.tasks.joins import CHILD, Joins
from ferryman.tasks.model import NewTask
from ferryman.tasks.ports import Owners, Settles
from ferryman.tasks.rules import keys, request
from ferryman.tasks.work.worker import Terms, Worker

log = logging.getLogger("ferryman")

_KEEP = db.load("ferryman.kernel", "settings/keep")

EMBEDDED_FOLDER = Path(".ferryman") / "postgres"
PATIENCE = timedelta(seconds=10)
SAID_EVERY = 15


@dataclass
class Opened:
    """An app's connections and doors."""

    settings: Settings
    url: str
    handlers: Registry
    owners: Owners
    database: Database
    doorbell: Doorbell
    tasks: doors.Tasks
    queues: Queues
    schedules: Schedules
    agents: Agents
    batches: Batches
    profiles: Profiles
    streams: Streams

    def line(self, patience: timedelta | None = None, **settings: str) -> Line:
        """Make a connection of our own."""
        return Line(self.url, schema=self.settings.schema, settings=settings or None, patience=patience)

    def drafts(
        self, task: str | Callable[..., Any], *, tenant: str, **fields: Any
    ) -> tuple[NewTask, Callable[[Any], NewTask]]:
        """Check the request for a task that a handler of this app creates, and say how its payload makes it whole."""
        name, handler, defaults = self.handlers.find(task)

        def whole(given: Any) -> NewTask:
            text = payload.encode(given, limit=self.settings.tasks.payload_limit)
            if handler is not None:
                handler.fit(text)
            made = like.task._replace(payload=text)
            return made if defaults.keys is None else keys.keyed(made, defaults.keys, {}, given)

        like = request.draft(
            tenant=tenant, name=name, payload="", defaults=defaults, traceparent=telemetry.carry(), **fields
        )
        self.handlers.serves(like.task.queue)
        return like.task, whole

    async def close(self) -> None:
        """Let go, doors first."""
        await self.tasks.close()
        await self.agents.close()
        await self.streams.close()
        await self.schedules.close()
        await self.doorbell.close()
        await self.database.close()


async def address(settings: Settings) -> str:
    """Return where the database is; without an address, start the embedded one of this directory."""
    if settings.database_url is not None:
        return settings.database_url
    from ferryman.app.embedded import Embedded

    log.warning("no database_url is set: using the embedded PostgreSQL in %s", EMBEDDED_FOLDER)
    return await asyncio.to_thread(Embedded(EMBEDDED_FOLDER).start)


def owners_of(settings: Settings, settlers: Mapping[str, Settles]) -> Owners:
    """Return who settles which end of a task: other tasks, agents' turns, and whom the app names."""
    tools = ToolEnds(Parties(terms=turn_terms(settings)))
    return Owners({**settlers, CHILD: Joins(), TOOL: tools})


async def open_app(
    settings: Settings,
    handlers: Registry,
    owners: Owners,
    *,
    doorbell: Doorbell | None,
    turn_owners: Mapping[str, SettlesTurns] | None = None,
    profiles: Profiles | None = None,
) -> Opened:
    """Connect, and open the doors."""
    url = await address(settings)
    if settings.database_url is None:
        await migrate.migrate(url, schema=settings.schema)
    bell = doorbell or make_doorbell(settings, url)
    database = await _connect(settings, url, bell)
    line = partial(Line, url, schema=settings.schema, patience=PATIENCE)
    tasks = doors.Tasks(
        database,
        bell,
        handlers,
        owners,
        creates=line(),
        keyed=line(),
        cancels=line(),
        flows=line(),
        tenant=settings.tenant,
        ends_after=settings.tasks.ends_after,
        payload_limit=settings.tasks.payload_limit,
        poll=settings.worker.poll,
        patience=PATIENCE,
        rings_within=rings_within(settings),
    )
    schedules = Schedules(
        database,
        bell,
        handlers,
        tasks,
        moves=line(),
        ends_after=settings.tasks.ends_after,
        payload_limit=settings.tasks.payload_limit,
    )
    profiles, streams = profiles or Profiles(), Streams(settings.nats_url)
    ends = crews.ends(settings, owners, turn_owners or {})
    agents = Agents(
        database, bell, ends.parties, line=line, tenant=settings.tenant, profiles=profiles, streams=streams
    )  # fmt: skip
    batches = Batches(database, bell, ends, profiles, tenant=settings.tenant)
    agreed = Queues(database, bell, lambda: tasks.tenant)
    opened = Opened(
        settings, url, handlers, owners, database, bell, tasks, agreed, schedules, agents,
        batches, profiles, streams,
    )  # fmt: skip
    try:
        await tasks.flows.open()
    except BaseException:
        await opened.close()
        raise
    return opened


async def _connect(settings: Settings, url: str, bell: Doorbell) -> Database:
    database = Database(url, schema=settings.schema, size=settings.pool.size)
    try:
        await database.open()
        await check(url, settings.schema)
        await _hear(bell)
    except BaseException:
        await database.close()
        raise
    return database


async def _hear(bell: Doorbell) -> None:
    try:
        await bell.open()
    except BaseException:
        await bell.close()
        raise


async def patiently(attempt: Callable[[], Awaitable[object]], stop: asyncio.Event) -> bool:
    """Try until it is done, while the database is away; false when told to stop before (K24)."""
    failures = 0

    def told(count: int, error: errors.DatabaseUnavailable) -> None:
        nonlocal failures
        failures = count
        # Said at once, and again every half a minute or so.
        level = logging.WARNING if failures % SAID_EVERY == 1 else logging.DEBUG
        log.log(level, "waiting for the database: %s", error.message, extra={"failures": failures})

    try:
        await outlast(attempt, unless=stop, told=told)
    except errors.DatabaseUnavailable:
        return False
    if failures:
        log.info("the database is there", extra={"failures": failures})
    return True


async def check(url: str, schema: str) -> None:
    """Refuse a database that does not have the tables this version needs."""
    missing = await migrate.pending(url, schema=schema)
    if missing:
        raise errors.DatabaseNotMigrated(f"The database lacks {', '.join(missing)}.", missing=missing)


def make_doorbell(settings: Settings, url: str) -> Doorbell:
    """Return the doorbell that the settings ask for."""
    if settings.doorbell == "none":
        return NoDoorbell()
    if settings.doorbell == "nats":
        from ferryman.kernel.doorbell_nats import NatsDoorbell

        if settings.nats_url is None:
            raise errors.SettingsInvalid("doorbell: 'nats' needs nats_url.", field="nats_url")
        return NatsDoorbell(settings.nats_url, schema=settings.schema)
    return PostgresDoorbell(url, listen_url=settings.listen_url, schema=settings.schema)


def rings_within(settings: Settings) -> bool:
    """Say whether a create inside a caller's transaction rings when that commits."""
    return settings.doorbell == "postgres" and settings.ring_within == "on"


def in_force(settings: Settings) -> dict[str, float | bool]:
    """Return what SQL must know of the settings: the watchdog's views, and `create_tasks`."""
    tasks = settings.tasks
    return {
        "watchdog.interval_seconds": settings.worker.watchdog_interval.total_seconds(),
        "tasks.timeout_ms": round(tasks.timeout.total_seconds() * 1000),
        "tasks.max_retries": tasks.max_retries,
        "tasks.ends_after_seconds": tasks.ends_after.total_seconds(),
        "tasks.payload_limit": tasks.payload_limit,
        "tasks.retention_seconds": tasks.retention.total_seconds(),
        "tasks.retention_failed_seconds": tasks.retention_failed.total_seconds(),
        "pmo.active_reap_seconds": turn_terms(settings).active_reap.total_seconds(),
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
    await declare_queues(opened)


async def _work(opened: Opened, stop: asyncio.Event, ground: Line, agreed: Terms) -> None:
    worker = opened.settings.worker
    fit = Fit(stop)
    dog = watchdog.Watchdog(
        ground,
        [*rules(opened), fit.rule()],
        # An outage that ends a lease must be noticed as one, however short the lease is.
        interval=min(worker.watchdog_interval, agreed.lease / watchdog.SILENT_INTERVALS),
        lease=agreed.lease,
        settings=switches(opened.settings),
    )
    watching = asyncio.create_task(dog.run())
    try:
        line, boot_id = partial(opened.line, lease.patience(agreed.lease)), ids.boot_id()
        tasks = Worker(
            opened.handlers.handlers,
            opened.owners,
            opened.doorbell,
            line=line,
            session=opened.database.session,
            drafts=opened.drafts,
            terms=agreed,
            boot_id=boot_id,
            home=opened.database,
            looks=opened.tasks.flows.looks,
        )
        parts: list[part.Part] = [tasks, *crews.parts(opened, agreed, line=line, boot_id=boot_id)]
        await part.run(parts, stop, grace=agreed.grace, beside={"watchdog": watching})
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


def rules(opened: Opened) -> list[watchdog.Rule]:
    """Return every rule of every domain."""
    worker = opened.settings.worker
    return [
        *watch.rules(
            opened.owners,
            opened.doorbell,
            sweep=worker.lease_sweep,
            interval=worker.watchdog_interval,
        ),
        *agents_watch.rules(opened.agents.parties, opened.doorbell, sweep=worker.lease_sweep),
        *batches_watch.rules(opened.batches.ends, opened.doorbell, sweep=worker.lease_sweep),
        watch.retention(kept=opened.settings.tasks.retention, failed_kept=opened.settings.tasks.retention_failed),
        *watch.leavings(kept=opened.settings.tasks.retention),
        watchdog.W16,
        days_of_the_log(kept=opened.settings.log.retention),
    ]


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
        setting="worker.watchdog_interval_seconds",
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
    )


def this_version() -> str:
    """Return the version that is installed."""
    try:
        return version("ferryman")
    except PackageNotFoundError:
        return "0"
