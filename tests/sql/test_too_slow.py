"""What takes longer than a statement may is nobody else's trouble: it goes in smaller sets, or alone (K24, K25)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.model import Asked, Birth, Kept
from ferryman.tasks.work.scribe import Scribe
from tests.sql.moves import OWNER
from tests.sql.test_steps import DAY, born, call, running

# The server gives up a statement after 0.8 s.
PATIENCE = timedelta(seconds=1)
# For each row that it is given, as a large one takes: three of them are too many for one statement.
SLOW = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep({seconds}); return new; end $$;
create trigger slow before insert on ferryman.task_steps for each row when ({when}) execute function public.slow();
"""
MEND = "drop function public.slow() cascade"
ENOUGH_SECONDS = 15.0
Tell = Callable[[Scribe, UUID], Awaitable[Any]]
CALLS: dict[str, Tell] = {
    "remember": lambda scribe, task: scribe.remember([Kept(call(task), "done", "1")]),
    "wait": lambda scribe, task: scribe.wait(Asked(call(task, "event"))),
    "bear": lambda scribe, task: scribe.bear([Birth(call(task, "child", "mail"), born(task))]),
}


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    line = Line(database_url, patience=PATIENCE)
    yield line
    await line.close()


async def slow(db: Database, seconds: float, when: str = "true") -> None:
    async with db.session() as tx:
        await tx.execute(SLOW.format(seconds=seconds, when=when))


@pytest.mark.contract("K24", "K25", "T19")
@pytest.mark.parametrize("tell", CALLS.values(), ids=CALLS)
async def test_calls_that_take_too_long_together_are_written_in_smaller_sets(
    line: Line, db: Database, tell: Tell
) -> None:
    tasks = await running(line, 5)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)
    await slow(db, 0.3)

    async with asyncio.timeout(ENOUGH_SECONDS):
        await asyncio.gather(*(tell(scribe, task) for task in tasks))


@pytest.mark.contract("K24", "K25", "T19")
@pytest.mark.parametrize("tell", CALLS.values(), ids=CALLS)
async def test_a_call_that_takes_too_long_by_itself_keeps_no_other_waiting(
    line: Line, db: Database, tell: Tell
) -> None:
    bad, *good = await running(line, 3)
    scribe = Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY)
    await slow(db, 5, when=f"new.task = '{bad}'")

    async with asyncio.timeout(ENOUGH_SECONDS):
        stuck = asyncio.ensure_future(tell(scribe, bad))
        for task in good:
            await tell(scribe, task)
        assert not stuck.done()
        async with db.session() as tx:
            await tx.execute(MEND)
        await stuck
