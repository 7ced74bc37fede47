"""K21, R2: a process that freezes with a transaction open hides its rows for a while; that is inside the published bound."""

import asyncio
import signal
import time

import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import until
from tests.proof.conftest import Tell

INTERVAL_SECONDS = 0.3
OVERDUE = "select domain, state, rule from ferryman.overdue"
LATE = "select extract(epoch from ferryman.clock() - min(next_run_at))::float8 as late from ferryman.schedules"


@pytest.mark.contract("K21", "R2", "T10")
async def test_a_schedule_held_by_a_frozen_process_is_fired_before_it_counts_as_late(
    database_url: str, ship: Launch, tell: Tell
) -> None:
    terms = {"FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS": str(INTERVAL_SECONDS)}
    frozen = ship(database_url, lives=["fire.held=stop@1"]).start(**terms)
    await frozen.seen("working")
    async with cargo.client(database_url) as app:
        await app.schedules.accept({"name": "job", "payload": {"key": "s"}, "schedule_type": "every", "interval": 3})
    await until(lambda: frozen.strikes("fire.held"), "the freeze")
    other = ship(database_url).start(**terms)

    late, deadline = 0.0, time.monotonic() + 20
    overdue: list[object] = []
    while not other.lines("start"):
        assert time.monotonic() < deadline, other.output()
        [row] = await judge.read(database_url, LATE)
        late = max(late, row["late"])
        overdue += await judge.read(database_url, OVERDUE)
        await asyncio.sleep(0.02)
    frozen.signal(signal.SIGCONT)

    tell(
        f"frozen with a transaction open: its schedule fired {late:.2f} s late, with a watchdog every {INTERVAL_SECONDS} s"
    )
    assert late > 1
    assert overdue == []
