"""The door to commands: what users reach as `app.commands`.

Sends that come at one time share a trip (kernel/gather.py); each has its own answer. What ends something holds commands and
tasks over several trips, so it goes over a line of its own, whose transactions do not outlive a frozen process.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ferryman.app.mappings import Mappings
from ferryman.app.repeat import apart, repeated
from ferryman.commands.intake import read, send
from ferryman.commands.intake import result as results
from ferryman.commands.intake.read import Story
from ferryman.commands.model import AsyncTaskRecord, CommandRecord, Completion, End, Message, NewCommand, Sent
from ferryman.commands.orchestrator import Orchestrator, mirror, progress
from ferryman.commands.rules import names, plan, request
from ferryman.commands.states import AsyncTaskStatus
from ferryman.commands.work.mirror import Mirror
from ferryman.kernel import doorbell_pg, errors, faults, ids, telemetry
from ferryman.kernel.borrow import borrow
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import MAX_HINTS, Doorbell
from ferryman.kernel.gather import Gather
from ferryman.kernel.pool import Database, Line, spoken
from ferryman.kernel.settings import Settings
from ferryman.kernel.waiting import Waiting, Waits
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import ending
from ferryman.tasks.work import context
from ferryman.tasks.work.lanes import named

Value = TypeVar("Value")


class Orders(NamedTuple):
    """Who ends what: the orchestrator, and the owners of all callbacks."""

    orchestrator: Orchestrator
    owners: Owners


class Commands:
    """Send commands, and ask about them."""

    def __init__(
        self,
        db: Database,
        doorbell: Doorbell,
        mappings: Mappings,
        orders: Orders,
        settings: Settings,
        *,
        line: Callable[[], Line],
        patience: timedelta,
        rings_within: bool,
    ) -> None:
        """Serve one tenant, and inside a handler that of its task."""
        self._db = db
        self._doorbell = doorbell
        self._mappings = mappings
        self._orchestrator, self._owners = orders
        self._tenant = settings.tenant
        self._home: Database | None = db
        self._deadline = settings.commands.deadline.total_seconds()
        self._ends_after = settings.tasks.ends_after
        self._limit = settings.tasks.payload_limit
        self._poll = settings.worker.poll.total_seconds()
        self._patience = patience
        self._rings_within = rings_within
        self._plain, self._keyed, self._ends, self._words = (line() for _ in range(4))
        self._sends = Gather[NewCommand, Sent](lambda commands: self._send_set(self._plain, commands), revocable=True)
        self._keyed_sends = Gather[NewCommand, Sent](
            lambda commands: self._send_set(self._keyed, commands), revocable=True
        )
        # Rings about "done" name tasks, not the commands that end with them.
        self._waits = Waits[Waiting[CommandRecord]](
            lambda tenant: Waiting(
                partial(self._ended, tenant=tenant), doorbell, topic="done", poll=self._poll, named=False
            )
        )
        self.mirror = mappings.mirror = Mirror(lambda words: mirror(self._words, words))

    @property
    def tenant(self) -> str:
        """Whom the next call serves: inside a handler of this app the tenant of the running task, else the app's own."""
        return (None if self._home is None else context.tenant_in(self._home)) or self._tenant

    def of(self, tenant: str) -> Commands:
        """Return the same door for one tenant, whatever task is running."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        door._home = None  # noqa: SLF001
        return door

    # What comes in

    async def send(
        self,
        command_type: str,
        payload: Any = None,
        /,
        *,
        session_id: str | UUID | None = None,
        idempotency_key: str | None = None,
        scope: str | None = None,
        deadline: timedelta | float | None = None,
        connection: object = None,
    ) -> Sent:
        """Send a command, and answer when it is stored: with its id, and whether it was there before.

        The same key with the same type and session answers with the command that exists; with others it is refused. `deadline`
        bounds the command as a whole. With a caller's `connection` it is sent if and only if the caller commits.
        """
        command = send.draft(
            command_type, payload,
            tenant=self.tenant, session_id=session_id, idempotency_key=idempotency_key, scope=scope,
            deadline=request.seconds(deadline, "deadline") or self._deadline, limit=self._limit,
            traceparent=telemetry.carry(),
        )  # fmt: skip
        if connection is not None:
            return await self._send_lent(connection, command)
        return await (self._sends(command) if idempotency_key is None else self._keyed_sends(command))

    async def accept(self, asked: Mapping[str, Any], *, connection: object = None) -> Sent:
        """Send a command from a request in the form of the source: `{"command_type": …, "payload": …}`."""
        fields = request.fields(asked)
        return await self.send(
            fields.get("command_type"), fields.get("payload"),  # type: ignore[arg-type]  # whatever it is, it is checked
            session_id=fields.get("session_id"), idempotency_key=fields.get("idempotency_key"), scope=fields.get("scope"),
            deadline=fields.get("deadline_seconds"), connection=connection,
        )  # fmt: skip

    async def _send_set(self, line: Line, commands: list[NewCommand]) -> Sequence[Sent | Exception]:
        return await apart([commands], partial(self._send_once, line), self._patience)

    async def _send_once(self, line: Line, commands: Sequence[NewCommand]) -> Sequence[Sent | errors.CommandDuplicate]:
        async with line.transaction() as tx:
            answers = await send.send(tx, commands, self._options(commands), ends_after=self._ends_after)
        faults.point("command.committed")
        lanes = self._lanes(commands, answers)
        if lanes:
            self._doorbell.ring("ready", lanes)
        return answers

    async def _send_lent(self, connection: object, command: NewCommand) -> Sent:
        tx = borrow(connection, schema=self._db.schema)
        [answer] = await send.send(tx, [command], self._options([command]), ends_after=self._ends_after)
        if isinstance(answer, errors.CommandDuplicate):
            raise answer
        lanes = self._lanes([command], [answer])
        if lanes and self._rings_within:
            await doorbell_pg.ring_within(tx, {"ready": frozenset(lanes)})
        return answer

    def _options(self, commands: Sequence[NewCommand]) -> list[Any]:
        return [self._mappings.options(names.COMMAND + each.command_type) for each in commands]

    def _lanes(self, commands: Sequence[NewCommand], answers: Sequence[Sent | Exception]) -> set[str]:
        born = [
            command
            for command, answer in zip(commands, answers, strict=True)
            if isinstance(answer, Sent) and not answer.idempotent_hit
        ]
        queues = [(each, options.queue) for each, options in zip(born, self._options(born), strict=True)]
        for queue in {queue for _, queue in queues}:
            telemetry.created("command", queue, sum(queue == each for _, each in queues))
        return {named(queue, each.tenant) for each, queue in queues}

    async def start(self, message: Message, /) -> UUID:
        """Start one async task without a command; it ends by its capability, or by its id (C5)."""
        asked = plan.read(message, told="start", complete=self._mappings.complete).messages[0]
        deadline = asked.deadline_seconds or self._deadline
        tenant = self.tenant
        return await self._ending(
            lambda tx, after: self._orchestrator.start(tx, asked, tenant=tenant, deadline=deadline, after=after)
        )

    # What ends

    async def complete(
        self,
        *,
        async_task_id: str | UUID | None = None,
        correlation_id: str | UUID | None = None,
        type: str | None = None,
        result: Any = None,
        error: Any = None,
    ) -> Completion:
        """Take a result, or an error, from outside: for an async task by its id, else by correlation and type.

        One that matches nothing live changes nothing; the answer says so.
        """
        tenant = self.tenant
        return await self._ending(
            lambda tx, after: results.complete(
                tx, self._orchestrator, self._owners, tenant=tenant, async_task_id=async_task_id,
                correlation_id=correlation_id, type=type, result=result, error=error, limit=self._limit, after=after,
            )
        )  # fmt: skip

    async def progress(self, async_task_id: str | UUID, percent: float) -> bool:
        """Take how far an async task is whose work is done outside; false when there is no such live one."""
        id, told, tenant = request.check_id(async_task_id, "async_task_id"), request.percent(percent), self.tenant
        with spoken():
            async with self._db.session() as tx:
                return await progress(tx, id, tenant=tenant, percent=told)

    async def cancel(self, command_id: str | UUID, *, reason: str | None = None) -> bool:
        """Cancel a command that has not ended, with all that it started; false when it had ended."""
        id, tenant = request.check_id(command_id, "command_id"), self.tenant
        told = request.reason(reason)
        said = "cancelled" if told is None else f"cancelled: {told}"

        async def end(tx: Tx, after: Aftermath) -> bool:
            await read.get(tx, id, tenant=tenant)
            ended = await self._orchestrator.fail(
                tx, self._owners, [id],
                to=AsyncTaskStatus.CANCELLED, code=errors.CommandCancelled.code, reason=ending.readable(said), after=after,
            )  # fmt: skip
            return bool(ended)

        return await self._ending(end)

    async def cancel_task(self, async_task_id: str | UUID, *, reason: str | None = None) -> Completion:
        """Cancel one async task; its command goes on with the others, and fails when they have ended."""
        id, tenant, said = request.check_id(async_task_id, "async_task_id"), self.tenant, request.reason(reason)
        end = End(
            id, AsyncTaskStatus.CANCELLED, reason_code=errors.CommandCancelled.code,
            reason=ending.readable(said or "cancelled"),
        )  # fmt: skip
        return await self._ending(
            lambda tx, after: self._orchestrator.complete(tx, self._owners, end, tenant=tenant, after=after)
        )

    async def _ending(self, act: Callable[[Tx, Aftermath], Awaitable[Value]]) -> Value:
        """Do what ends something, in one transaction; tell who waits or runs for it after the commit."""
        after = Aftermath()

        async def once() -> Value:
            after.lanes, after.cancelled = [], []
            async with self._ends.transaction() as tx:
                return await act(tx, after)

        answer = await repeated(once, self._patience)
        if after.lanes:
            self._doorbell.ring("ready", after.lanes)
        hints = [str(id) for id in after.cancelled]
        if hints:
            self._doorbell.ring("cancel", hints if len(hints) <= MAX_HINTS else ())
        self._doorbell.ring("done")
        return answer

    # Questions

    async def get(self, command_id: str | UUID) -> CommandRecord:
        """Read a command."""
        return await self._read(lambda tx: read.get(tx, command_id, tenant=self.tenant))

    async def task(self, async_task_id: str | UUID) -> AsyncTaskRecord:
        """Read an async task."""
        return await self._read(lambda tx: read.task(tx, async_task_id, tenant=self.tenant))

    async def list(self, **filters: Any) -> Sequence[CommandRecord]:
        """Read a page of commands, newest first; filters are status, command_type, session_id, before and limit."""
        return await self._read(lambda tx: read.list_page(tx, tenant=self.tenant, **filters))

    async def story(self, correlation_id: str | UUID) -> Story:
        """Read all that came of a command: events, tasks, results, in order."""
        return await self._read(lambda tx: read.story(tx, correlation_id, tenant=self.tenant))

    async def statistics(self) -> Sequence[dict[str, Any]]:
        """Read how many async tasks there are of each type and status, and how long they took."""
        return await self._read(lambda tx: read.statistics(tx, tenant=self.tenant))

    async def wait(self, command_id: str | UUID, *, timeout: float | None = None) -> CommandRecord:
        """Wait until a command has ended, and return it, completed or failed."""
        id = request.check_id(command_id, "command_id")
        async with asyncio.timeout(timeout):
            return await self._waits.of(self.tenant).end(id)

    async def _ended(self, ids: Collection[UUID], *, tenant: str) -> Mapping[UUID, CommandRecord | Exception]:
        """Read how commands ended; all who wait share this look."""
        return await self._read(lambda tx: read.ended(tx, ids, tenant=tenant))

    async def _read(self, ask: Callable[[Tx], Awaitable[Value]]) -> Value:
        with spoken():
            async with self._db.session() as tx:
                return await ask(tx)

    async def close(self) -> None:
        """Send what is under way; let nobody wait any more."""
        await self._waits.close()
        await self._sends.drain()
        await self._keyed_sends.drain()
        await self.mirror.close()
        for line in (self._plain, self._keyed, self._ends, self._words):
            await line.close()
