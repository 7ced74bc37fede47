"""What is opened with an app: its connections, and the doors of every domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from ferryman.agents.ports import SettlesTurns
from ferryman.agents.work.profiles import Profiles
from ferryman.app import crews, ingestion
from ferryman.app import tasks as doors
from ferryman.app.agents import Agents
from ferryman.app.batches import Batches
from ferryman.app.commands import Commands, Orders
from ferryman.app.doors import Doors
from ferryman.app.figures import Counting
from ferryman.app.history import History
from ferryman.app.ingest import Ingest
from ferryman.app.log import TOPICS, Log
from ferryman.app.mappings import Mappings
from ferryman.app.queues import Queues
from ferryman.app.registry import Registry
from ferryman.app.relays import Relays, Webhooks
from ferryman.app.remote import Remote
from ferryman.app.schedules import Schedules
from ferryman.app.terms import owners_of
from ferryman.app.tokens import Tokens
from ferryman.app.wiring.ground import address, check, make_doorbell, rings_within
from ferryman.commands.orchestrator import Orchestrator
from ferryman.commands.rules import names
from ferryman.ingest.ports import Gate
from ferryman.ingest.registry import Sources
from ferryman.kernel import lease, migrate, payload, telemetry
from ferryman.kernel.codec import Codec, Seal
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.follow import Reader
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.settings import Settings
from ferryman.kernel.stream import Streams
from ferryman.kernel.waiting import Waits
from ferryman.tasks.model import NewTask
from ferryman.tasks.ports import Owners, Settles
from ferryman.tasks.rules import keys, request
from ferryman.tasks.work.remote import Remotes, Terms

PATIENCE = timedelta(seconds=10)
TENANTS_KEPT = 1000


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
    orchestrator: Orchestrator
    mappings: Mappings
    commands: Commands
    webhooks: Webhooks
    relays: Relays
    ingest: Ingest
    profiles: Profiles
    streams: Streams
    log: Log
    remote: Remote
    counting: Counting
    tokens: Tokens

    _doors: dict[str, Doors] = field(default_factory=dict, init=False)

    def of(self, tenant: str) -> Doors:
        """Return the doors of one tenant, made once."""
        found = self._doors.get(tenant)
        if found is None:
            while len(self._doors) >= TENANTS_KEPT:
                del self._doors[next(iter(self._doors))]
            found = self._doors[tenant] = self._doors_of(tenant)
        return found

    def _doors_of(self, tenant: str) -> Doors:
        return Doors(
            tenant,
            self.tasks.of(tenant),
            self.queues.of(tenant),
            self.schedules.of(tenant),
            self.agents.of(tenant),
            self.batches.of(tenant),
            self.commands.of(tenant),
            self.ingest.of(tenant),
            self.webhooks.of(tenant),
            self.log.of(tenant),
            self.remote.of(tenant),
            History(self.database, tenant),
        )

    @property
    def waits(self) -> Sequence[Waits[Any]]:
        """Where callers of this app wait for ends."""
        doors = (self.tasks, self.agents, self.commands, self.ingest, self.batches)
        return [*(door._waits for door in doors), self.batches._joins]  # noqa: SLF001

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
            made = like.task._replace(payload=self.tasks.seal.close(text))
            return made if defaults.keys is None else keys.keyed(made, defaults.keys, {}, given)

        like = request.draft(
            tenant=tenant, name=name, payload="", defaults=defaults, traceparent=telemetry.carry(), **fields
        )
        self.handlers.serves(like.task.queue)
        return like.task, whole

    async def close(self) -> None:
        """Let go, doors first."""
        await self.log.close()
        await self.remote.close()
        await self.counting.close()
        self.tokens.close()
        await self.tasks.close()
        await self.batches.close()
        await self.agents.close()
        await self.streams.close()
        await self.schedules.close()
        await self.commands.close()
        self.mappings.mirror = None
        await self.ingest.close()
        await self.doorbell.close()
        await self.database.close()


async def open_app(
    settings: Settings, handlers: Registry, settlers: Mapping[str, Settles], *, doorbell: Doorbell | None, mappings: Mappings,
    orchestrator: Orchestrator, sources: Sources, gate: Gate | None,
    turn_owners: Mapping[str, SettlesTurns] | None = None, profiles: Profiles | None = None, codec: Codec | None = None,
) -> Opened:  # fmt: skip
    """Connect, and open the doors."""
    url = await address(settings)
    if settings.database_url is None:
        await migrate.migrate(url, schema=settings.schema)
    database = Database(url, schema=settings.schema, size=settings.pool.size)
    line = partial(Line, url, schema=settings.schema, patience=PATIENCE)
    bell = doorbell or make_doorbell(settings, url)
    owners = owners_of(settings, {**settlers, names.CALLBACK: orchestrator})
    try:
        await database.open()
        await check(url, settings.schema)
        await _hear(bell)
    except BaseException:
        await database.close()
        raise
    tasks = _tasks(settings, database, bell, handlers, owners, line=line, seal=Seal(codec))
    schedules = Schedules(
        database,
        bell,
        handlers,
        tasks,
        moves=line(),
        ends_after=settings.tasks.ends_after,
        payload_limit=settings.tasks.payload_limit,
    )
    profiles, streams = profiles or Profiles(), Streams(settings.nats_url, prefix=settings.relays.prefix)
    ends = crews.ends(settings, owners, turn_owners or {})
    agents = Agents(
        database, bell, ends.parties, line=line, tenant=settings.tenant, profiles=profiles, streams=streams,
    )  # fmt: skip
    commands = Commands(
        database, bell, mappings, Orders(orchestrator, owners), settings,
        line=line, patience=PATIENCE,
        rings_within=rings_within(settings),
    )  # fmt: skip
    ingest = ingestion.door(
        database, bell, tasks, schedules, sources=sources, gate=gate, settings=settings,
        moves=line(), patience=PATIENCE,
    )  # fmt: skip
    agreed = Queues(database, bell, lambda: tasks.tenant, tasks.flows.learn)
    opened = Opened(
        settings, url, handlers, owners, database, bell, tasks, agreed, schedules, agents,
        Batches(database, bell, ends, profiles, line=line, tenant=settings.tenant), orchestrator, mappings,
        commands, Webhooks(database, bell, tasks, settings=settings), Relays(database), ingest, profiles, streams,
        Log(Reader(database, bell, topics=TOPICS), database, tenant=settings.tenant),
        _remote(settings, database, bell, owners, url=url, seal=tasks.seal),
        Counting(database, interval=settings.worker.watchdog_pace),
        Tokens(database, bell, settings=settings),
    )  # fmt: skip
    try:
        await tasks.flows.open()
    except BaseException:
        await opened.close()
        raise
    return opened


async def _hear(bell: Doorbell) -> None:
    try:
        await bell.open()
    except BaseException:
        await bell.close()
        raise


def _remote(settings: Settings, database: Database, bell: Doorbell, owners: Owners, *, url: str, seal: Seal) -> Remote:
    worker = settings.worker
    engine = Remotes(
        owners,
        bell,
        line=partial(Line, url, schema=settings.schema, patience=lease.patience(worker.lease)),
        session=database.session,
        terms=Terms(worker.lease, worker.poll, PATIENCE),
    )
    return Remote(engine, tenant=settings.tenant, payload_limit=settings.tasks.payload_limit, seal=seal)


def _tasks(
    settings: Settings,
    database: Database,
    bell: Doorbell,
    handlers: Registry,
    owners: Owners,
    *,
    line: Callable[[], Line],
    seal: Seal,
) -> doors.Tasks:
    return doors.Tasks(
        database,
        bell,
        handlers,
        owners,
        creates=(line(), line()),
        keyed=line(),
        cancels=line(),
        flows=line(),
        tenant=settings.tenant,
        ends_after=settings.tasks.ends_after,
        payload_limit=settings.tasks.payload_limit,
        poll=settings.worker.poll,
        patience=PATIENCE,
        rings_within=rings_within(settings),
        seal=seal,
    )
