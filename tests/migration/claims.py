"""Claims beside a migration: the product's own statement, which settles a set and claims the next, over and over.

Each is timed, and PostgreSQL tells of each wait for a table that was a part of it. Somebody else holds what the migration asks
for meanwhile, so that it asks in vain and the claims stand behind it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from ferryman.kernel import migrate
from ferryman.kernel.db import SCHEMA
from ferryman.kernel.pool import Session
from ferryman.tasks import store
from ferryman.tasks.model import Outcome
from ferryman.tasks.states import READY
from tests.migration import stalls
from tests.patience import PATIENCE_SECONDS

# Rows of the oldest shape that the statement can work with.
_READY_TASKS = """
insert into ferryman.tasks (id, due_at, ends_at, rank, created_at, updated_at, timeout_ms, max_retries, state, name, payload)
select gen_random_uuid(), now(), now() + interval '1 day', now(), now(), now(), 60000, 0, 'ready', 'job', '{}'
from generate_series(1, $1)
"""
# What anybody's open transaction may hold of our tables.
EVERY_TABLE = """
do $$ begin execute (
    select string_agg(format('lock table %s in row exclusive mode', class.oid::regclass), ';')
    from pg_class as class where class.relnamespace = 'ferryman'::regnamespace and class.relkind in ('r', 'p')
); end $$
"""
ROOM = 4
LEASE, MARGIN = timedelta(seconds=60), timedelta(seconds=5)
# A file that waits in vain for longer than a claim could be made to stand, or asks for nothing that is held.
_TURNS = 25


@dataclass
class Claimer:
    """One lane of a worker; what it has claimed it hands back with its next turn, so that there is always something."""

    session: Session
    told: stalls.Told
    times: list[float] = field(default_factory=list)
    working: list[float] = field(default_factory=list)
    _held: list[Outcome] = field(default_factory=list)
    _owner: UUID = field(default_factory=uuid4)

    async def turn(self) -> None:
        began, waits = time.monotonic(), len(self.told.waits)
        claimed, stale, busy = await store.turn(
            self.session, self._held, owner=self._owner, lanes=[("default", "default", ROOM)],
            names=["job"], kinds=[], lease=LEASE, margin=MARGIN,
        )  # fmt: skip
        self.times.append(time.monotonic() - began)
        self.working.append(self.times[-1] - sum(self.told.waits[waits:]))
        assert (stale, busy) == (set(), set())
        assert len(claimed) == ROOM
        self._held = [Outcome(each.id, each.epoch, self._owner, READY) for each in claimed]

    def stall(self, noise: stalls.Noise) -> stalls.Stall:
        """Return the longest claim; what one took beside its waits for tables, as PostgreSQL tells them, is the machine's."""
        return stalls.Stall(max(self.times), max(noise.seconds, *self.working))


async def fill(url: str, count: int) -> None:
    """Let there be tasks to claim."""
    session = await asyncpg.connect(url)
    try:
        await session.execute(_READY_TASKS.replace("$1", str(count)))
    finally:
        await session.close()


@asynccontextmanager
async def claiming(url: str) -> AsyncIterator[Claimer]:
    session = await asyncpg.connect(url)
    told = stalls.Told()
    try:
        await told.listen(session)
        yield Claimer(Session(session, SCHEMA), told)
    finally:
        await session.close()


async def beside(url: str, folder: Path, claimer: Claimer, *, held: str, tries: int) -> list[str]:
    """Migrate while a stranger holds something, until so many claims stood behind the migration; return what was applied."""
    stranger = await asyncpg.connect(url)
    waited, turned = len(claimer.told.waits), len(claimer.times)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with stranger.transaction():
                await stranger.execute(held)
                migrating = asyncio.create_task(migrate.migrate(url, folder=folder))
                while (
                    not migrating.done()
                    and len(claimer.told.waits) - waited < tries
                    and (len(claimer.told.waits) > waited or len(claimer.times) - turned < _TURNS)
                ):
                    await claimer.turn()
            while not migrating.done():
                await claimer.turn()
            return await migrating
    finally:
        await stranger.close()
