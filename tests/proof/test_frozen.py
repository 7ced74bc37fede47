"""K21, R2: a process that freezes with a transaction open hides its rows for a while; that is inside the published bound."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.pooler import Pooler
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import until
from tests.proof.conftest import Tell

INTERVAL_SECONDS = 0.3
OVERDUE = "select domain, state, rule from ferryman.overdue"
LATE = "select extract(epoch from ferryman.clock() - min(next_run_at))::float8 as late from ferryman.schedules"


@pytest.fixture(params=["directly", "through PgBouncer"])
def address(request: pytest.FixtureRequest, database_url: str, ground: Path) -> Iterator[str]:
    """Where workers connect to."""
    if request.param == "directly":
        yield database_url
        return
    pooler = Pooler(ground / "pooler")
    try:
        yield pooler.start(database_url)
    finally:
        pooler.stop()


@pytest.mark.contract("K21", "R2", "T10", "K24")
async def test_a_schedule_held_by_a_frozen_process_is_fired_before_it_counts_as_late(
    database_url: str, address: str, ship: Launch, tell: Tell
) -> None:
    terms = {
        "FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS": str(INTERVAL_SECONDS),
        "FERRYMAN_LISTEN_URL": database_url,
    }
    frozen = ship(address, lives=["fire.held=stop@1"]).start(**terms)
    await frozen.seen("working")
    async with cargo.client(database_url) as app:
        await app.schedules.accept({"name": "job", "payload": {"key": "s"}, "schedule_type": "every", "interval": 3})
    await until(lambda: frozen.strikes("fire.held"), "the freeze")
    other = ship(address).start(**terms)

    late, deadline = 0.0, time.monotonic() + 20
    overdue: list[object] = []
    while not other.lines("start"):
        assert time.monotonic() < deadline, other.output()
        [row] = await judge.read(database_url, LATE)
        late = max(late, row["late"])
        overdue += await judge.read(database_url, OVERDUE)
        await asyncio.sleep(0.02)
    frozen.signal(signal.SIGCONT)

    way = "directly" if address == database_url else "through PgBouncer"
    tell(
        f"frozen with a transaction open ({way}): its schedule fired {late:.2f} s late, with a watchdog every"
        f" {INTERVAL_SECONDS} s"
    )
    assert late > 1
    assert overdue == []
