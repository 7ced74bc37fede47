"""K24: a crowd of workers loses its database at one moment, and comes back at one moment; that keeps nobody down."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.sea import Sea
from tests.crash.test_database import PLACES, each_works_on
from tests.proof.conftest import Tell

WORKERS = 40
EACH = 8  # connections of a worker: two lanes, the sweep, leases, the watchdog, the doorbell's two, and one of the pool
SPARE = 12  # for whoever looks, and what the server keeps back
TASKS, HOLD_SECONDS = 1500, 0.05
OUTAGE_SECONDS = 6.0  # by then everybody has come to ask as seldom as ever
SELDOM_SECONDS = 2.0  # which is this, and up to half as long again by chance
FIRST_START_SECONDS = 5.0  # docs/contracts/reliability.md
DONE_SECONDS = 30.0
OURS = "select count(*) from pg_stat_activity where application_name like 'ferryman%'"


@pytest.fixture
async def sea(ground: Path) -> AsyncIterator[Sea]:
    made = Sea(ground / "sea", max_connections=str(WORKERS * EACH + SPARE), log_connections="receipt")
    try:
        yield await made.begin()
    finally:
        made.end()


@asynccontextmanager
async def counted(url: str) -> AsyncIterator[list[int]]:
    """Count the connections of the product for as long as the body takes."""
    counts: list[int] = []
    connection = await asyncpg.connect(url)

    async def look() -> None:
        while True:
            counts.append(await connection.fetchval(OURS))
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield counts
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await connection.close()


@pytest.mark.contract("K24", "K1")
async def test_a_crowd_that_comes_back_at_one_moment_is_served_and_everything_is_done_once(
    sea: Sea, ship: Launch, tell: Tell
) -> None:
    workers = [ship(sea.url, crowd=True).start(FERRYMAN_WORKER__LEASE="30s") for _ in range(WORKERS)]
    held = await cargo.load(sea.url, WORKERS * PLACES, hold=OUTAGE_SECONDS)
    for each in workers:
        await each.seen("start")
    held += await cargo.load(sea.url, TASKS, hold=HOLD_SECONDS)

    await sea.kill()
    left = len(held) - len({line["task"] for each in workers for line in each.lines("end")})
    await asyncio.sleep(OUTAGE_SECONDS)  # the outage itself
    gone = time.monotonic()
    await asyncio.to_thread(sea.start)
    back = time.monotonic()
    async with counted(sea.url) as counts:
        await judge.all_ended(sea.url)
    done = time.monotonic() - back
    await each_works_on(sea, workers, agents=False)

    said = sea.said()
    asked, vain = said.count("connection received"), said.count("FATAL")
    first = [min(line["at"] for line in each.lines("start") if line["at"] > back) - back for each in workers]
    tell(
        f"a crowd of {WORKERS}: the database is up {back - gone:.1f} s after its start, the first task begins {min(first):.2f}"
        f" s after that, {left} are done after {done:.1f} s, each is at work after {max(first):.1f} s; {max(counts)}"
        f" connections at most, {asked} asked for, {vain} in vain"
    )
    assert left > TASKS / 2
    assert min(first) < FIRST_START_SECONDS
    assert done < DONE_SECONDS
    assert max(counts) <= WORKERS * EACH
    assert vain <= WORKERS * EACH * (1 + (back - gone) / SELDOM_SECONDS)
    assert "too many clients" not in said
    assert all(each.alive() and len(each.lines("born")) == 1 for each in workers)
    assert all("Traceback" not in each.output() for each in workers)
    await judge.judge(sea.url, held, [line for each in workers for line in each.lines()])
    assert await cargo.broken(sea.url) == []
