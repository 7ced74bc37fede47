"""Waiting for ends, without busy polling (T18).

All who wait for something of one kind and tenant share one look: a ring names what has ended, and one statement reads the ends
of those that somebody here waits for. A ring without names, and a slow poll in any case, ask for all of them, so a lost ring
only costs time; where thousands are waited for, that look is not repeated before four times its own duration has passed.

Waiting outlasts a database that is away: what is waited for goes on when it is back, and how long that is waited for is said by
the caller's timeout alone. Meanwhile nobody looks before the backoff has passed, whoever else comes to wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from ferryman.kernel import errors, telemetry
from ferryman.kernel.doorbell import Doorbell
from ferryman.kernel.loop import RECONNECT
from ferryman.kernel.pool import Standstill
from ferryman.kernel.timed import timed

log = telemetry.logger("waiting")

# A look at everything is repeated at the earliest after this many times what it took.
REST = 4
# So many looks in a row that found every connection of the pool held, and none come back, are no busy moment any more: those
# who hold them may be the very ones who wait here.
STANDSTILLS = 3

Over = TypeVar("Over")
Kind = TypeVar("Kind", bound="Waiting[Any]")


class Waiting(Generic[Over]):
    """Everybody in this process who waits for an end of one kind, of one tenant."""

    def __init__(
        self,
        read: Callable[[Collection[UUID]], Awaitable[Mapping[UUID, Over | Exception]]],
        doorbell: Doorbell,
        *,
        topic: str,
        poll: float,
        named: bool = True,
    ) -> None:
        """Listen at the doorbell while somebody waits.

        `read` answers with those of a set that are over, or cannot be; without `named` the rings of this topic name others
        than those who are waited for, and each asks for everything.
        """
        self._read_set = read
        self._doorbell = doorbell
        self._topic = topic
        self._poll = poll
        self._rings_name = named
        self._ends: dict[str, asyncio.Future[Over]] = {}  # by the text of the id, as rings name it
        self._named: set[str] = set()
        self._everything = False
        self._rested = 0.0  # until then no look at everything is repeated
        self._poll_at = 0.0
        self._waiters: Counter[asyncio.Future[Over]] = Counter()
        self._wake = asyncio.Event()
        self._looker: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody waits, and nothing is under way."""
        return not self._ends and self._looker is None

    async def end(self, id: UUID | str) -> Over:
        """Wait until it has ended."""
        name = str(id if isinstance(id, UUID) else UUID(id))  # what is no id is its caller's fault, and no other's
        future = self._ends.get(name)
        if future is None:
            future = self._ends[name] = asyncio.get_running_loop().create_future()
        self._waiters[future] += 1
        self._look(name)
        try:
            return await asyncio.shield(future)
        finally:
            self._leave(name, future)

    def _leave(self, name: str, future: asyncio.Future[Over]) -> None:
        """Forget what nobody waits for any more."""
        self._waiters[future] -= 1
        if self._waiters[future]:
            return
        del self._waiters[future]
        if self._ends.get(name) is future:
            del self._ends[name]
        if not future.done():
            future.cancel()

    def _look(self, name: str) -> None:
        self._named.add(name)
        self._wake.set()
        if self._looker is None:
            self._looker = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        stop = self._doorbell.listen(self._topic, self._heard)
        self._poll_at = time.monotonic() + self._poll
        failures = standstills = 0
        try:
            while self._ends:
                self._wake.clear()
                try:
                    await (self._read_all() if self._due() else self._read(self._take_named()))
                except errors.FerrymanError as error:
                    standstills = standstills + 1 if isinstance(error, Standstill) else 0
                    if not error.retryable or standstills == STANDSTILLS:
                        self._fail(error)
                        return
                    level = logging.DEBUG if failures else logging.WARNING
                    log.log(level, "ends could not be read", extra={"code": error.code})
                    failures += 1
                    self._everything, self._rested = True, 0.0
                    await asyncio.sleep(RECONNECT.delay(failures).total_seconds())
                    continue
                except Exception as error:  # noqa: BLE001 - told to those who wait, who would wait for ever
                    self._fail(error)
                    return
                else:
                    failures = standstills = 0
                await self._rest()
        finally:
            stop()
            self._looker = None

    def _due(self) -> bool:
        """Tell whether it is time to ask for everything."""
        now = time.monotonic()
        return now >= self._rested and (self._everything or now >= self._poll_at)

    async def _read_all(self) -> None:
        began = time.monotonic()
        self._everything = False
        self._named.clear()
        await self._read(list(self._ends))
        now = time.monotonic()
        self._rested, self._poll_at = now + REST * (now - began), now + self._poll

    def _take_named(self) -> Collection[str]:
        named, self._named = self._named, set()
        return [name for name in named if name in self._ends]

    async def _rest(self) -> None:
        """Wait for a ring that names somebody, or for the time of the next look at everything."""
        if self._ends and not self._named:
            next_look = max(self._rested, 0.0 if self._everything else self._poll_at)
            await within(self._wake.wait(), max(0.0, next_look - time.monotonic()))

    def _heard(self, hints: frozenset[str]) -> None:
        named = hints & self._ends.keys() if self._rings_name else ()
        everything = not hints or not self._rings_name
        self._named.update(named)
        self._everything = self._everything or everything
        if named or everything:
            self._wake.set()

    async def _read(self, names: Collection[str]) -> None:
        if not names:
            return
        for id, end in (await self._read_set([UUID(name) for name in names])).items():
            future = self._ends.pop(str(id), None)
            if future is None or future.done():
                continue
            if isinstance(end, Exception):
                future.set_exception(end)
            else:
                future.set_result(end)

    def _fail(self, error: Exception) -> None:
        for name in self.waited():
            self.give_up(name, error)

    def waited(self) -> list[str]:
        """Return the ids that somebody waits for."""
        return list(self._ends)

    def give_up(self, name: str, error: Exception) -> None:
        """Let nobody wait for this one any more."""
        future = self._ends.pop(name, None)
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # seen: whoever waited for it may have given up

    async def close(self) -> None:
        """Let nobody wait any more."""
        self._fail(errors.NotOpen("The app was closed while somebody waited for an end."))
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.wait([self._looker])


class Waits(Generic[Kind]):
    """One place to wait for each tenant, made when somebody waits there."""

    def __init__(self, make: Callable[[str], Kind]) -> None:
        """Make places by the tenant's name."""
        self._make = make
        self._places: dict[str, Kind] = {}

    def of(self, tenant: str) -> Kind:
        """Return the place of a tenant; those where nobody waits any more are let go."""
        if tenant not in self._places:
            for each in [each for each, place in self._places.items() if place.idle]:
                del self._places[each]
            self._places[tenant] = self._make(tenant)
        return self._places[tenant]

    def waited(self) -> dict[str, Kind]:
        """Return the ids that somebody waits for, each with its place."""
        return {name: place for place in self._places.values() for name in place.waited()}

    async def close(self) -> None:
        """Let nobody wait any more."""
        for place in list(self._places.values()):
            await place.close()


async def within(awaitable: Awaitable[object], seconds: float) -> bool:
    """Wait for so many seconds at most; say whether it came."""
    try:
        await timed(awaitable, seconds)
    except TimeoutError:
        return False
    return True
