"""The door for workers that are not Python processes of ours: what HTTP lets them do (S4)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ferryman.kernel import errors, ids, payload
from ferryman.kernel.codec import PLAIN, Seal
from ferryman.kernel.pool import spoken
from ferryman.tasks.joins import CHILD
from ferryman.tasks.model import Claimed, Outcome
from ferryman.tasks.rules import ending, request
from ferryman.tasks.work import outcomes
from ferryman.tasks.work.context import LEVELS, PERCENT_MAX
from ferryman.tasks.work.remote import Hello, Remotes, boot_id_of

HANDLERS_MAX = 1000
QUEUES_MAX = 100
CLAIM_MAX = 100
HELD_MAX = 1000
LINES_MAX = 1000
WAIT_SECONDS_MAX = 60.0


class Greeted(NamedTuple):
    """A worker that was taken in: its secret, the name its leases are held under, and how long they are."""

    worker: str
    boot_id: UUID
    lease_seconds: float
    beat_seconds: float


class Remote:
    """Let remote workers of one tenant claim tasks, keep them and end them."""

    def __init__(self, engine: Remotes, *, tenant: str, payload_limit: int, seal: Seal = PLAIN) -> None:
        """Serve one tenant; remote workers are told payloads as they were given, and their results are sealed here."""
        self._engine = engine
        self._seal = seal
        self._tenant = tenant
        self._limit = payload_limit

    def of(self, tenant: str) -> Remote:
        """Return the same door for one tenant."""
        door = copy.copy(self)
        door._tenant = ids.check_name(tenant, "tenant")  # noqa: SLF001 - a copy of ours
        return door

    async def hello(
        self,
        *,
        handlers: Sequence[str],
        queues: Sequence[str] = ("default",),
        host: str = "",
        pid: int = 0,
        version: str = "",
    ) -> Greeted:
        """Take in a worker that knows these handlers; what is returned is told once."""
        said = Hello(
            self._tenant,
            _names(queues, "queues", QUEUES_MAX),
            _names(handlers, "handlers", HANDLERS_MAX),
            ending.readable(host)[:200],
            request.whole(pid, "pid", 0, 2**31 - 1),
            ending.readable(version)[:200],
        )
        with spoken():
            secret, boot_id = await self._engine.hello(said)
        lease = self._engine.terms.lease.total_seconds()
        return Greeted(secret, boot_id, lease, lease / 3)

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        wait: float = 0.0,
        holds: Sequence[UUID] | None = None,
        unless: asyncio.Event | None = None,
    ) -> Sequence[Claimed]:
        """Claim tasks, waiting up to so many seconds for one; `unless` ends the wait."""
        with spoken():
            remote = await self._engine.find(worker, tenant=self._tenant)
            claimed = await self._engine.claim(
                remote,
                room=request.whole(limit, "limit", 1, CLAIM_MAX),
                seconds=_seconds(wait),
                holds=holds,
                unless=unless or asyncio.Event(),
            )
        return [each for task in claimed if (each := await self._readable(worker, task)) is not None]

    async def _readable(self, worker: str, task: Claimed) -> Claimed | None:
        """Return a task with its payload as it was given; one that cannot be read ends here, alone (K25)."""
        try:
            text = self._seal.open(task.payload)
            payload.decode(text)
        except (errors.PayloadSealed, errors.TaskInvalidPayload) as error:
            await self._end(worker, task.id, task.epoch, code=error.code, reason=error.message, again=False)
            return None
        return task._replace(payload=text)

    async def renew(
        self, worker: str, held: Mapping[UUID, int], *, wait: float = 0.0, unless: asyncio.Event | None = None
    ) -> Mapping[UUID, bool]:
        """Keep claims, each by its epoch; say of each whether it is still held. A wait ends when one is cancelled."""
        if len(held) > HELD_MAX:
            raise errors.TaskInvalidRequest(f"held: expected at most {HELD_MAX}, got {len(held)}.", field="held")
        with spoken():
            remote = await self._engine.find(worker, tenant=self._tenant)
            return await self._engine.renew(remote, held, seconds=_seconds(wait), unless=unless or asyncio.Event())

    async def complete(self, worker: str, id: UUID, *, epoch: int, result: Any = None) -> Outcome:
        """End a claim with a result."""
        text = None if result is None else payload.encode(result, limit=self._limit, error=errors.TaskInvalidResult)
        owner = boot_id_of(worker, self._tenant)

        def won(task: Claimed) -> Outcome:
            # What is owed to another domain is read there.
            sealed = text is not None and self._seal.active and task.callback in {None, CHILD}
            return outcomes.won(task, owner=owner, result=self._seal.close(text) if sealed and text else text)

        return await self._settle(worker, id, epoch, won)

    async def fail(self, worker: str, id: UUID, *, epoch: int, reason: str, again: bool = True) -> Outcome:
        """End a claim that failed; it is tried again if it may be, and `again` is not false."""
        return await self._end(worker, id, epoch, code=ending.EXECUTION_FAILED, reason=reason, again=again)

    async def _end(self, worker: str, id: UUID, epoch: int, *, code: str, reason: str, again: bool) -> Outcome:
        owner = boot_id_of(worker, self._tenant)
        return await self._settle(
            worker, id, epoch, lambda task: outcomes.lost(task, owner=owner, code=code, reason=reason, again=again)
        )

    async def release(self, worker: str, id: UUID, *, epoch: int) -> Outcome:
        """Hand back a claim that was not worked on; no attempt is used."""
        owner = boot_id_of(worker, self._tenant)
        return await self._settle(worker, id, epoch, lambda task: outcomes.hand_back(task, owner=owner))

    async def _settle(self, worker: str, id: UUID, epoch: int, outcome: Callable[[Claimed], Outcome]) -> Outcome:
        with spoken():
            return await self._engine.settle(
                id, epoch=epoch, tenant=self._tenant, owner=boot_id_of(worker, self._tenant), outcome=outcome
            )

    async def say(
        self,
        worker: str,
        id: UUID,
        *,
        epoch: int,
        percent: float | None = None,
        message: str | None = None,
        lines: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Tell how far the work is, and keep lines (level, message) in the task's log."""
        if percent is not None and not 0 <= percent <= PERCENT_MAX:
            raise errors.TaskInvalidRequest(f"percent: expected 0 to 100, got {percent!r}.", field="percent")
        for level, _ in lines:
            if level not in LEVELS:
                told = f"level: expected one of {', '.join(LEVELS)}, got {request.shown(level)}."
                raise errors.TaskInvalidRequest(told, field="level")
        with spoken():
            await self._engine.say(
                id,
                epoch=epoch,
                tenant=self._tenant,
                owner=boot_id_of(worker, self._tenant),
                progress=None
                if percent is None
                else (int(percent), None if message is None else ending.readable(message)),
                lines=[(level, ending.readable(text)) for level, text in lines[:LINES_MAX]],
            )

    async def leave(self, worker: str) -> int:
        """Let a worker go; what it holds is handed back at once. Say how much that was."""
        with spoken():
            return await self._engine.leave(await self._engine.find(worker, tenant=self._tenant))

    async def close(self) -> None:
        """Send what is under way."""
        await self._engine.close()


def _names(given: Sequence[str], field: str, most: int) -> Sequence[str]:
    if not 1 <= len(given) <= most:
        raise errors.TaskInvalidRequest(f"{field}: expected 1 to {most}, got {len(given)}.", field=field)
    return sorted({ids.check_name(each, field) for each in given})


def _seconds(wait: float) -> float:
    if not 0 <= wait <= WAIT_SECONDS_MAX:
        raise errors.TaskInvalidRequest(
            f"wait: expected 0 to {WAIT_SECONDS_MAX:.0f} seconds, got {request.shown(wait)}.", field="wait"
        )
    return wait
