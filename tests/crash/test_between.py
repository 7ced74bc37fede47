"""R2: of a process frozen between two messages of one statement the watchdog ends the transaction: PostgreSQL does not."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.test_zombies import ENDS, holders, living, stopped
from tests.crash.wire import wired
from tests.patience import PATIENCE_SECONDS

COUNT = 6
FIRE = "where (schedule.state = 'active' or ("  # of tasks/sql/schedules/fire.sql, after schedules are locked by due.sql
STILL = "select state, wait_event from pg_stat_activity where pid = any($1)"


@pytest.mark.contract("R2", "W23", "K24", "K21", "T11")
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("strict", [False, True], ids=["directly", "through a pooler that takes no settings"])
async def test_what_a_process_frozen_in_the_middle_of_a_statement_holds_becomes_free_without_it(
    strict: bool, ends: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    if ends == "before it comes back":
        gate.touch()
    await cargo.load_schedules(database_url, COUNT, gate=str(gate))
    async with wired(database_url, strict=strict) as (wire, url):
        zombie, frozen = ship(url), asyncio.Event()

        def freeze() -> None:
            zombie.signal(signal.SIGSTOP)
            frozen.set()

        wire.before_answer(FIRE, freeze)
        zombie.start()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await frozen.wait()
        held = await holders(database_url, "ferryman.schedules")
        assert [tuple(row) for row in await judge.read(database_url, STILL, list(held))] == [("active", "ClientRead")]

        successor = ship(database_url).start()
        # Nothing else would free it: the zombie stands still for as long as it takes.
        await judge.all_fired(database_url, COUNT)

        assert not held & await living(database_url)
        await successor.seen("start", count=COUNT)
        if ends == "before it comes back":
            await judge.all_ended(database_url)
        await stopped(zombie)
    gate.touch()
    await judge.all_ended(database_url)
    fired = await judge.read(database_url, "select schedule, count(*) as n from ferryman.tasks group by schedule")
    assert [row["n"] for row in fired] == [1] * COUNT
    await judge.judge(database_url, [], [*zombie.lines(), *successor.lines()])
    assert await cargo.broken(database_url) == []
