"""K24: everybody stops at once, as with a machine that sleeps; and a server that has no connection to spare."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.sea import Sea
from tests.crash.yard import LEASE_SECONDS
from tests.patience import PATIENCE_SECONDS

HELD = 4
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'ferryman%'"


@pytest.fixture
async def sea(tmp_path: Path) -> AsyncIterator[Sea]:
    made = Sea(tmp_path / "sea")
    try:
        yield await made.begin()
    finally:
        made.end()


@pytest.mark.contract("K24", "W13", "R2")
async def test_a_fleet_and_its_database_that_stood_still_together_go_on_where_they_were(
    sea: Sea, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = await cargo.load(sea.url, HELD, gate=str(gate))
    holder = ship(sea.url).start()
    await holder.seen("start", count=HELD)
    other = ship(sea.url).start()
    await other.seen("working")

    for each in (holder, other):
        os.kill(each.pid, signal.SIGSTOP)
    everybody = [holder.pid, other.pid, *await sea.freeze()]
    await asyncio.sleep(LEASE_SECONDS * 1.5)  # every lease ends in it
    for pid in reversed(everybody):
        os.kill(pid, signal.SIGCONT)
    await renewed(sea.url)
    gate.touch()
    await judge.all_ended(sea.url)

    await judge.judge(sea.url, held, [*holder.lines(), *other.lines()])
    # Whoever wakes first asks the living before it takes anything from them.
    assert [line["epoch"] for line in holder.lines("start")] == [1] * HELD
    assert other.lines("start") == []
    assert await cargo.broken(sea.url) == []


@pytest.mark.contract("K24")
async def test_a_worker_that_finds_no_connection_to_be_had_waits_and_goes_on(sea: Sea, ship: Launch) -> None:
    worker = ship(sea.url).start()
    await worker.seen("working")
    strangers = await take_all(sea.url)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "too many clients" not in worker.output():  # it may be quicker than we are
            await strangers[0].execute(CUT)
            strangers += await take_all(sea.url)

    for each in strangers:
        await each.close()
    tasks = await cargo.load(sea.url, 20)
    await judge.all_ended(sea.url)

    await judge.judge(sea.url, tasks, worker.lines())
    assert worker.alive()
    assert len(worker.lines("born")) == 1
    assert "Traceback" not in worker.output(), worker.output()


async def renewed(url: str) -> None:
    """Wait until every lease was renewed again."""
    [begun] = await judge.read(url, "select max(lease_count) as most from ferryman.tasks")
    await judge.nothing_of(url, "select id, lease_count from ferryman.tasks where lease_count <= $1", begun["most"])


async def take_all(url: str) -> list[asyncpg.Connection]:
    """Take every connection that the server has to give."""
    taken = []
    while True:
        try:
            taken.append(await asyncpg.connect(url))
        except asyncpg.TooManyConnectionsError:
            return taken
