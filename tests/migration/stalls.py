"""How long somebody was held up by locks, as PostgreSQL itself tells it; and how late the machine was meanwhile.

A claim that takes long may have waited for a lock, which is the product's doing, or for a processor, which is not. PostgreSQL
measures each wait for a lock on a relation and says how long it took (log_lock_waits). It takes part in the machine's
business too, so beside it somebody sleeps for moments and notes by how much each was overslept: that is the noise.

What is measured is never shorter than the stall was, so one within the aim needs no quiet machine. A longer one may be so by
the noise, which has a bound itself: a machine that is later than that would excuse any stall, so what was measured there is
measured again. After a few times it is said that nothing can be said.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg

STALL_SECONDS = 0.25
NOISE_SECONDS = 0.1
MEASUREMENTS = 5
_WAITED = re.compile(r"acquired \w+ on relation \d+ of database \d+ after ([\d.]+) ms")
_MOMENT_SECONDS = 0.002
# Whoever waits for a table to read or write it: not who wants to change it, and waits by choice.
_WAITING = """
    select max(extract(epoch from clock_timestamp() - waitstart))::float8
    from pg_locks
    where database = (select oid from pg_database where datname = current_database())
      and not granted and locktype = 'relation' and mode in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
"""


class Inconclusive(AssertionError):
    """The machine was too late, each time, to tell a stall from it: this is no word about the product."""


@dataclass(frozen=True)
class Stall:
    """The longest stall of one measurement, no shorter than it was, and how late the machine was meanwhile."""

    seconds: float
    noise: float

    @property
    def short(self) -> bool:
        """Whether it is within the aim, the lateness of the machine aside."""
        return self.seconds < STALL_SECONDS + self.noise


async def steady(measure: Callable[[], Awaitable[Stall]]) -> Stall:
    """Measure until it can be told what a stall was due to."""
    seen = []
    for _ in range(MEASUREMENTS):
        stall = await measure()
        if stall.seconds < STALL_SECONDS or stall.noise <= NOISE_SECONDS:
            return stall
        seen.append(stall)
    late, stood = (
        ", ".join(f"{value * 1000:.0f}" for value in values)
        for values in ([each.noise for each in seen], [each.seconds for each in seen])
    )
    raise Inconclusive(
        f"Inconclusive: the machine was late by {late} ms in {MEASUREMENTS} measurements, and above"
        f" {NOISE_SECONDS * 1000:.0f} ms a stall cannot be told from that (seen: {stood} ms). Measure on a quieter machine."
    )


class Told:
    """What a session is told of its own waits for tables."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def listen(self, session: asyncpg.Connection) -> None:
        session.add_log_listener(self._hear)
        for name, value in {"log_lock_waits": "on", "deadlock_timeout": "2ms", "client_min_messages": "log"}.items():
            await session.execute(f"set {name} = '{value}'")

    def _hear(self, _session: object, said: Any) -> None:
        waited = _WAITED.search(said.message or "")
        if waited is not None:
            self.waits.append(float(waited[1]) / 1000)


class Noise:
    """By how much moments were overslept, at most."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def measure(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(_MOMENT_SECONDS)
            self.seconds = max(self.seconds, time.monotonic() - began - _MOMENT_SECONDS)


class Waits:
    """How long anybody was seen to wait for a table, by the clock of PostgreSQL, and for how long nobody looked."""

    def __init__(self, session: asyncpg.Connection) -> None:
        self._session = session
        self.seconds = 0.0
        self.unseen = 0.0

    @property
    def most(self) -> float:
        """So long a wait may have been whose end nobody saw."""
        return self.seconds + self.unseen

    async def measure(self) -> None:
        looked = time.monotonic()
        while True:
            self.seconds = max(self.seconds, await self._session.fetchval(_WAITING) or 0.0)
            await asyncio.sleep(_MOMENT_SECONDS)
            self.unseen, looked = max(self.unseen, time.monotonic() - looked), time.monotonic()


@asynccontextmanager
async def noise() -> AsyncIterator[Noise]:
    """Measure how late the machine is, as long as the block lasts."""
    made = Noise()
    async with _beside(made.measure()):
        yield made


@asynccontextmanager
async def waits(url: str) -> AsyncIterator[Waits]:
    """Measure how long others wait for tables, as long as the block lasts."""
    session = await asyncpg.connect(url)
    made = Waits(session)
    try:
        async with _beside(made.measure()):
            yield made
    finally:
        session.terminate()


@asynccontextmanager
async def _beside(measuring: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(measuring)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
