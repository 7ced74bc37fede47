"""The object users hold: declarations of what can be done, and doors to let it be done and to ask about it (S2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from ferryman.app import wiring
from ferryman.app.declarations import Declarations
from ferryman.app.profiles import Declares
from ferryman.app.watching import Watching
from ferryman.kernel import errors, migrate
from ferryman.kernel.settings import Settings
from ferryman.tasks.intake import read
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.rules.request import recurring
from ferryman.tasks.work.context import Context

if TYPE_CHECKING:
    from ferryman.app.agents import Agents
    from ferryman.app.batches import Batches
    from ferryman.app.commands import Commands
    from ferryman.app.doors import Doors
    from ferryman.app.figures import Counting
    from ferryman.app.handle import Handle
    from ferryman.app.ingest import Ingest
    from ferryman.app.log import Log
    from ferryman.app.queues import Queues
    from ferryman.app.relays import Relays, Webhooks
    from ferryman.app.remote import Remote
    from ferryman.app.schedules import Schedule, Schedules
    from ferryman.app.tasks import Tasks
    from ferryman.app.tokens import Tokens
    from ferryman.kernel.codec import Codec
    from ferryman.kernel.doorbell import Doorbell
    from ferryman.kernel.pool import Database
    from ferryman.kernel.watchdog import Rule
    from ferryman.tasks.intake.read import WorkerRecord


class Ferryman(Declarations, Declares):
    """One application on one database.

    Without a database_url, here or in the environment, the embedded PostgreSQL of this directory is used and migrated.
    """

    def __init__(
        self, database_url: str | None = None, *, settings: Settings | None = None,
        doorbell: Doorbell | str | None = None, codec: Codec | None = None, **overrides: Any,
    ) -> None:  # fmt: skip
        """Read the settings; nothing is connected yet. Overrides are settings by name, such as tenant='acme'.

        Settings may also be given whole, and a doorbell ready made. A codec encrypts what tasks are given and return.
        """
        if database_url is not None:
            overrides["database_url"] = database_url
        if isinstance(doorbell, str):
            overrides["doorbell"] = doorbell
            doorbell = None
        if settings is not None and overrides:
            raise errors.SettingsInvalid("Give settings whole or by name, not both.", field=min(overrides))
        super().__init__(settings or Settings.load(overrides))
        self._given_doorbell = doorbell
        self._codec = codec
        self._opened: wiring.Opened | None = None
        self._opened_in: asyncio.AbstractEventLoop | None = None
        self._watching: Watching | None = None

    # Opening and closing

    async def open(self, *, unless: asyncio.Event | None = None) -> Self:
        """Connect to the database; a wrong address or missing tables are told here.

        A database that is away is an error. With `unless` it is waited for, until it is there or that event is set; in that
        case the app stays closed.
        """
        if unless is not None:
            await wiring.patiently(self.open, unless)
        elif self._opened is None:
            self._opened = await wiring.open_app(
                self.settings,
                self._handlers,
                self._settlers,
                doorbell=self._given_doorbell,
                mappings=self._mappings,
                orchestrator=self._orchestrator,
                sources=self._sources,
                gate=self._gate,
                turn_owners=self._turn_settlers,
                profiles=self._profiles,
                codec=self._codec,
            )
            self._opened_in = asyncio.get_running_loop()
        elif self._opened_in is not asyncio.get_running_loop():
            raise errors.OpenElsewhere
        return self

    async def close(self) -> None:
        """Let go of everything that was opened."""
        watching, self._watching = self._watching, None
        if watching is not None:
            await watching.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def __aenter__(self) -> Self:
        """Open the app."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the app."""
        await self.close()

    @property
    def _open(self) -> wiring.Opened:
        if self._opened is None:
            raise errors.NotOpen()
        return self._opened

    def of(self, tenant: str) -> Doors:
        """Return the doors of one tenant, whatever task is running."""
        return self._open.of(tenant)

    @property
    def tasks(self) -> Tasks:
        """The door to tasks."""
        return self._open.tasks

    @property
    def queues(self) -> Queues:
        """The door to queues."""
        return self._open.queues

    @property
    def agents(self) -> Agents:
        """The door to agents and their turns."""
        return self._open.agents

    @property
    def batches(self) -> Batches:
        """The door to batches."""
        return self._open.batches

    async def fork_join(self, tasks: Sequence[Mapping[str, Any]], **asked: Any) -> Mapping[str, Any]:
        """Ask several agents for turns at once, and wait for what became of all of them (see `batches.fork`)."""
        return await (await self.batches.fork(tasks, **asked)).result()

    @property
    def schedules(self) -> Schedules:
        """The door to schedules."""
        return self._open.schedules

    @property
    def commands(self) -> Commands:
        """The door to commands."""
        return self._open.commands

    @property
    def ingest(self) -> Ingest:
        """The door to ingestion."""
        return self._open.ingest

    @property
    def webhooks(self) -> Webhooks:
        """The door to webhooks."""
        return self._open.webhooks

    @property
    def relays(self) -> Relays:
        """The door to the readers of the log that tell it to the outside."""
        return self._open.relays

    async def explain(self, id: str | UUID) -> Explanation:
        """Say of anything, by its id or the name its creator gave it, what it does, why it does not run, and what ends it."""
        tenant = self.tasks.tenant
        async with self.database.session() as tx:
            told = await explain(tx, id, tenant=tenant)
        if told is None:
            raise errors.UnknownId(f"Nothing of tenant {tenant} has the id {id}.", id=str(id))
        return told

    @property
    def log(self) -> Log:
        """The door to the log."""
        return self._open.log

    @property
    def remote(self) -> Remote:
        """The door for workers that speak HTTP."""
        return self._open.remote

    @property
    def counting(self) -> Counting:
        """The figures of the last minutes, shared by all who look."""
        return self._open.counting

    @property
    def watching(self) -> Watching:
        """The watchdog's view of all tenants."""
        if self._watching is None:
            opened, interval = self._open, self.settings.worker.watchdog_pace
            self._watching = Watching(opened.database, lambda: wiring.rules(opened), interval=interval)
        return self._watching

    @property
    def tokens(self) -> Tokens:
        """The door to tokens for HTTP; it serves all tenants."""
        return self._open.tokens

    async def accept(self, asked: Mapping[str, Any]) -> Handle | Schedule:
        """Do what a request in the form of the source asks for: a task, or with cron, daily or every a schedule."""
        return await (self.schedules.accept(asked) if recurring(asked) else self.tasks.accept(asked))

    @property
    def database(self) -> Database:
        """The pool behind the doors; a handler may use it for its own tables."""
        return self._open.database

    @property
    def doorbell(self) -> Doorbell:
        """The doorbell of this process."""
        return self._open.doorbell

    async def _plan_ingest(self, ctx: Context, **asked: Any) -> dict[str, Any]:
        return await self.ingest.fired(ctx, asked)

    async def migrate(self) -> list[str]:
        """Bring the database's tables up to this version; return what was applied."""
        return await migrate.migrate(await wiring.address(self.settings), schema=self.settings.schema)

    async def declare_queues(self) -> Sequence[str]:
        """Store what this app declares of its queues, as a worker does when it starts; name those that changed."""
        return await wiring.declare_queues(self._open)

    async def workers(self) -> Sequence[WorkerRecord]:
        """Read who works, for whichever tenant, and who went without a word in the last day."""
        async with self.database.session() as tx:
            return await read.workers(tx)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the watchdog: what each finds, and what it does about it."""
        return wiring.rules(self._open)

    async def count(self) -> None:
        """Bring the metrics up to date that are counted in the database: depths, what is behind, what is overdue."""
        for rule in wiring.counting(self._open):
            async with self.database.session() as tx:
                await rule.find(tx, rule.limit)

    # Working

    async def work(self, *, stop: asyncio.Event | None = None, **terms: Any) -> None:
        """Run a worker, with its watchdog, until `stop` is set or the caller is cancelled.

        Terms are those of the settings' section `worker`, such as concurrency=20 or queues=["mail"]. The schedules that stand
        in the code are brought into the database first.
        """
        stop = stop or asyncio.Event()
        if await wiring.patiently(lambda: self.schedules.declare(self._declared), stop):
            await wiring.work(self._open, stop, **terms)

    @asynccontextmanager
    async def worker(self, **terms: Any) -> AsyncIterator[None]:
        """Run a worker beside the caller, as long as the block lasts."""
        stop = asyncio.Event()
        working = asyncio.create_task(self.work(stop=stop, **terms))
        try:
            yield
        finally:
            stop.set()
            await working
