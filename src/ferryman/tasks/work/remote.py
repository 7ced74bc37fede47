"""Workers that speak HTTP: programs in any language that claim, renew and settle tasks through a server (S4).

Nothing is special about their tasks. A remote worker is a crew like any other: it claims through the same lanes and gates,
its leases are renewed by the same statement, and its outcomes are settled, fenced and told by the same turn. It beats into the
table `workers`, so explain and doctor see it.

No server remembers anything that another would need. A remote worker has a secret, which it was given when it said hello; the
boot id that holds its leases is a hash of the secret and the tenant. So whoever wants to end a claim must know the secret (K4)
and the statement itself compares it, as the owner; what is kept here (lanes, the handlers it named) can be lost at any time.

A claim whose answer was lost leaves tasks with a worker that does not know of them. With its next claim it says what it
holds, and the rest is handed back, as a worker of ours does after it lost sight of the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ferryman.kernel import errors, outage, telemetry
from ferryman.kernel.crew import Turned
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.follow import within
from ferryman.kernel.gather import Again, Gather
from ferryman.kernel.lease import MARGIN
from ferryman.kernel.patience import away, outlast
from ferryman.kernel.pool import Line, spoken
from ferryman.tasks import store
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import TASK, TaskState
from ferryman.tasks.work import outcomes
from ferryman.tasks.work.crew import TaskCrew
from ferryman.tasks.work.words import Words

KNOWN_MAX = 10_000
SILENT_LEASES = 3
PREFIX = "fw_"


class Terms(NamedTuple):
    """How long leases are, how often is looked without a ring, and how long the database may be away."""

    lease: timedelta
    poll: timedelta
    patience: timedelta


class Hello(NamedTuple):
    """What a remote worker says of itself."""

    tenant: str
    queues: Sequence[str]
    handlers: Sequence[str]
    host: str
    pid: int
    version: str


class Told(NamedTuple):
    """An outcome, and until when it is sent again while it cannot be written though the database is there."""

    outcome: Outcome
    until: float


class Elsewhere:
    """The hands of a remote worker: they are not here."""

    def __init__(self, owner: UUID, names: Sequence[str]) -> None:
        """Know which handlers it named."""
        self._owner = owner
        self.names = names

    async def run(self, task: Claimed) -> Outcome | None:
        """Nothing is run here: a remote worker tells its outcomes."""
        raise NotImplementedError(task.name)

    def hand_back(self, task: Claimed) -> Outcome:
        """Return a task that was not done."""
        return outcomes.hand_back(task, owner=self._owner)

    def spoil(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Replace an outcome that PostgreSQL refuses."""
        return outcomes.spoil(outcome, error)


class Remote:
    """One remote worker, as far as this process knows it."""

    def __init__(self, boot_id: UUID, said: Hello, crew: TaskCrew) -> None:
        """Nothing was looked at yet."""
        self.boot_id = boot_id
        self.said = said
        self.crew = crew
        self.rung = asyncio.Event()
        self.beaten = 0.0
        self.looked = 0.0
        crew.look = self.rung.set

    def heard(self, hints: frozenset[str]) -> None:
        """Look again if a ring names a lane of this one."""
        if self.crew.heard(hints):
            self.rung.set()


def boot_id_of(secret: str, tenant: str) -> UUID:
    """Return the boot id under which the bearer of a secret holds leases of a tenant."""
    return UUID(bytes=hashlib.sha256(f"{tenant}\x1f{secret}".encode()).digest()[:16])


class Remotes:
    """All remote workers that came to this process."""

    def __init__(
        self,
        owners: Owners,
        doorbell: Doorbell,
        *,
        line: Callable[[], Line],
        session: Callable[[], AbstractAsyncContextManager[Tx]],
        terms: Terms,
    ) -> None:
        """Claim over one line and settle over another; neither connects before it is used."""
        self._owners = owners
        self._doorbell = doorbell
        self._session = session
        self.terms = terms
        # What somebody holds is sent again, and nobody's outcome waits for another's.
        self._claims, self._settles = line(), line().hurry()
        self._known: OrderedDict[UUID, Remote] = OrderedDict()
        self._desk = self._crew(UUID(int=0), (), (), tenant=None)
        self._gather: Gather[Told, bool] = Gather(self._settle_set)
        self._words: Words | None = None
        self._hushes: Sequence[Callable[[], None]] = ()

    def _crew(self, owner: UUID, queues: Sequence[str], names: Sequence[str], *, tenant: str | None) -> TaskCrew:
        return TaskCrew(
            Elsewhere(owner, names), self._owners, self._doorbell,
            owner=owner, queues=queues, lease=self.terms.lease, margin=MARGIN, tenant=tenant,
        )  # fmt: skip

    # Coming and going

    async def hello(self, said: Hello) -> tuple[str, UUID]:
        """Take in a worker; return its secret and its boot id."""
        secret = PREFIX + secrets.token_urlsafe(24)
        remote = self._keep(boot_id_of(secret, said.tenant), said)
        await self._beat(remote)
        return secret, remote.boot_id

    async def find(self, secret: str, *, tenant: str) -> Remote:
        """Return the worker that was given a secret; one that was forgotten must say hello again."""
        boot_id = boot_id_of(secret, tenant)
        remote = self._known.get(boot_id)
        if remote is not None:
            self._known.move_to_end(boot_id)
            return remote
        async with self._session() as tx:
            row = await store.worker(tx, boot_id)
        if row is None:
            raise errors.WorkerUnknown()
        said = Hello(tenant, row["queues"], row["handlers"], row["host"], row["pid"], row["version"])
        return self._known.get(boot_id) or self._keep(boot_id, said)

    def _keep(self, boot_id: UUID, said: Hello) -> Remote:
        if not self._hushes:
            topics: Mapping[str, Callable[[frozenset[str]], None]] = {
                "ready": self._ready, "queues": lambda _hints: self._ready(frozenset()),
            }  # fmt: skip
            self._hushes = [self._doorbell.listen(topic, hear) for topic, hear in topics.items()]
        remote = Remote(boot_id, said, self._crew(boot_id, said.queues, said.handlers, tenant=said.tenant))
        self._known[boot_id] = remote
        self._forget()
        return remote

    def _forget(self) -> None:
        """Forget those that have not been heard of for long: every ring is told to all that are known."""
        silent = time.monotonic() - SILENT_LEASES * self.terms.lease.total_seconds()
        while len(self._known) > 1:
            oldest = next(iter(self._known.values()))
            if oldest.beaten > silent and len(self._known) <= KNOWN_MAX:
                return
            self._known.popitem(last=False)

    def _ready(self, hints: frozenset[str]) -> None:
        for remote in self._known.values():
            remote.heard(hints)

    async def _beat(self, remote: Remote) -> None:
        """Say that it lives, if that was not said within a third of a lease."""
        now = time.monotonic()
        if now - remote.beaten < self.terms.lease.total_seconds() / 3:
            return
        said = remote.said
        async with self._session() as tx:
            await store.beat(
                tx,
                boot_id=remote.boot_id,
                tenant=said.tenant,
                host=said.host,
                pid=said.pid,
                version=said.version,
                queues=list(said.queues),
                handlers=list(said.handlers),
                settings=json.dumps(
                    {"remote": True, "callbacks": self._owners.kinds, "lease_seconds": self.terms.lease.total_seconds()}
                ),
                lease=self.terms.lease,
            )
        remote.beaten = now

    async def leave(self, remote: Remote) -> int:
        """Hand back whatever it holds, and forget it; say how much that was."""
        self._known.pop(remote.boot_id, None)
        handed_back = await remote.crew.reclaim(self._claims, ()) or 0
        async with self._session() as tx:
            await store.leave(tx, remote.boot_id)
        return handed_back

    # Claiming

    async def claim(
        self, remote: Remote, *, room: int, seconds: float, holds: Collection[UUID] | None, unless: asyncio.Event
    ) -> Sequence[Claimed]:
        """Claim up to `room`, waiting so long for something to claim; `holds` is what it knows to have, if it says so."""
        until = time.monotonic() + seconds
        if holds is not None:
            await remote.crew.reclaim(self._claims, holds)
        while not unless.is_set():
            await self._beat(remote)
            remote.rung.clear()
            if time.monotonic() - remote.looked >= self.terms.poll.total_seconds():
                remote.looked = time.monotonic()
                remote.crew.doubt()
            turned = await remote.crew.turn(self._claims, (), room)
            if turned.items:
                return turned.items
            left = until - time.monotonic()
            if left <= 0:
                return ()
            if not turned.more:
                await _first(remote.rung, unless, min(left, self.terms.poll.total_seconds()))
        return ()

    # Keeping

    async def renew(
        self, remote: Remote, held: Mapping[UUID, int], *, seconds: float, unless: asyncio.Event
    ) -> Mapping[UUID, bool]:
        """Renew leases, and say of each whether it is still held; waiting so long to hear that one is not.

        A wait may be longer than a lease: who waits here lives, and what it holds is kept meanwhile.
        """
        until = time.monotonic() + seconds
        third = self.terms.lease.total_seconds() / 3
        named = {str(id) for id in held}
        told = asyncio.Event()
        hush = self._doorbell.listen("cancel", lambda hints: told.set() if not hints or hints & named else None)
        try:
            while True:
                told.clear()
                await self._beat(remote)
                kept = await self._renew(remote, held)
                left = until - time.monotonic()
                if len(kept) < len(held) or left <= 0 or unless.is_set():
                    return {id: id in kept for id in held}
                await _first(told, unless, min(left, third))
        finally:
            hush()

    async def _renew(self, remote: Remote, held: Mapping[UUID, int]) -> Mapping[UUID, bool]:
        ids = sorted(held)
        kept = await remote.crew.renew(self._claims, ids, [held[id] for id in ids]) if ids else {}
        remote.crew.lost(len(held) - len(kept))
        return kept

    # Settling

    async def settle(
        self, id: UUID, *, epoch: int, tenant: str, owner: UUID, outcome: Callable[[Claimed], Outcome]
    ) -> Outcome:
        """End a claim. One that is not held any more is refused, unless it was ended by these very words before."""
        found = await self._found(id, tenant=tenant, owner=owner, epoch=epoch)
        if found is None:
            raise errors.TaskNotFound(f"There is no task {id} for tenant {tenant}.", task_id=str(id))
        task, _, _, held = found
        told = outcome(task)._replace(bore=True)  # an earlier try may have left children
        if held:
            if await self._gather(Told(told, time.monotonic() + self.terms.patience.total_seconds())):
                return told
            found = await self._found(id, tenant=tenant, owner=owner, epoch=epoch)
        else:
            telemetry.fenced("task", "settle")
        _, state, latest, _ = found or (task, None, False, False)
        if latest and state in TASK.terminal and state is told.state:
            return told  # the answer to the first try was lost, on its way here or from here
        raise _lost(id, state)

    async def _found(
        self, id: UUID, *, tenant: str, owner: UUID, epoch: int
    ) -> tuple[Claimed, TaskState, bool, bool] | None:
        async with self._session() as tx:
            return await store.claim(tx, id, tenant=tenant, owner=owner, epoch=epoch)

    async def _settle_set(self, told: list[Told]) -> Sequence[bool | Exception]:
        async def turn() -> Turned[Claimed]:
            with spoken():
                return await self._desk.turn(self._settles, [each.outcome for each in told], 0)

        try:
            turned = await outlast(turn, within=self.terms.patience, over=_away)
        except Exception as error:  # noqa: BLE001 - told to those whom it is about
            held, too_much = outage.locked(error), outage.unfinished(error)
            if len(told) == 1:
                return [Again(error) if (held or too_much) and time.monotonic() < told[0].until else error]
            if too_much:
                half = len(told) // 2
                return [*await self._settle_set(told[:half]), *await self._settle_set(told[half:])]
            if not held and not outage.of_one(error):
                return [error] * len(told)
            # One of them is refused by PostgreSQL, or cannot be written now; the others must not suffer by their company.
            alone: list[bool | Exception] = []
            for each in told:
                late = held and time.monotonic() >= each.until
                alone += [error] if late else await self._settle_set([each])
            return alone
        ids = [each.outcome.id for each in told]
        return [Again() if id in turned.left else id not in turned.stale for id in ids]

    # What it says meanwhile

    async def say(
        self,
        id: UUID,
        *,
        epoch: int,
        tenant: str,
        owner: UUID,
        progress: tuple[int, str | None] | None,
        lines: Sequence[tuple[str, str]],
    ) -> None:
        """Take progress and lines for the log of a claim that is held."""
        found = await self._found(id, tenant=tenant, owner=owner, epoch=epoch)
        if found is None:
            raise errors.TaskNotFound(f"There is no task {id} for tenant {tenant}.", task_id=str(id))
        task, state, _, held = found
        if not held:
            telemetry.fenced("task", "progress")
            raise _lost(id, state)
        if self._words is None:
            self._words = Words(self._session, self._doorbell)
        if progress is not None:
            self._words.report(task, *progress)
        for level, message in lines:
            self._words.say(task, level, message)
        await self._words.written()

    async def close(self) -> None:
        """Send what is under way."""
        for hush in self._hushes:
            hush()
        await self._gather.drain()
        if self._words is not None:
            await self._words.close()
        await self._claims.close()
        await self._settles.close()


def _lost(id: UUID, state: TaskState | None) -> errors.LeaseLost:
    said = "gone" if state is None else state.value
    return errors.LeaseLost(f"The task {id} is {said}, and not held by this claim any more.", id=str(id), state=said)


def _away(error: errors.FerrymanError) -> bool:
    return away(error) and outage.of_any_set(error)


async def _first(heard: asyncio.Event, unless: asyncio.Event, seconds: float) -> None:
    """Wait until one of two events is set, for so long at most."""
    waiting = [asyncio.create_task(within(each, seconds)) for each in (heard, unless)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
