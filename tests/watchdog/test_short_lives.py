"""Where no process lives long, expired leases are reaped in time all the same (K24, W20)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ferryman.kernel.pool import Database
from ferryman.kernel.watchdog import Watchdog
from tests.watchdog.ward import HEAL, SECOND, admit, healed, lines, passes, ticked

LEASE = 2 * SECOND
SWEEP = replace(HEAL, name="sweep", reaps=True, every=SECOND)


class Time:
    """Time of the watchdogs and of their row, which passes when it is told to."""

    def __init__(self, ward: Database) -> None:
        self.now = 1000.0
        self._ward = ward

    async def pass_until(self, moment: float) -> None:
        await passes(self._ward, timedelta(seconds=moment - self.now))
        self.now = moment


async def live(dog: Watchdog, time: Time, dies: float) -> None:
    """Let a watchdog run until it is killed, as `Watchdog.run` does."""
    dog._spread()
    while time.now < dies:
        await dog.tick()
        await time.pass_until(min(dies, max(dog.due, time.now)))


@pytest.mark.contract("K24", "W20", "W13", "R3")
@pytest.mark.parametrize("interval", [0.6, 5.0])
@pytest.mark.parametrize(
    ("lives", "dead"),
    [(0.2, 1.1), (0.4, 0.9), (1.2, 0.1), (0.4, 2.5), (1.9, 2.5)],
    ids=["0.2 s of 1.3", "0.4 s of 1.3", "1.2 s of 1.3", "0.4 s between outages", "1.9 s between outages"],
)
async def test_what_a_dead_worker_held_is_taken_back_although_no_process_lives_long(
    ward: Database, database_url: str, lives: float, dead: float, interval: float
) -> None:
    """The first process after the outage may give a grace, of one lease. After it whoever lives looks in time."""
    await ticked(ward, timedelta(0))
    await admit(ward, 1)
    time = Time(ward)
    began = time.now
    async with lines(database_url) as [line]:
        while 0 in (await healed(ward)).values():
            await time.pass_until(time.now + dead)
            dog = Watchdog(line, [SWEEP], interval=timedelta(seconds=interval), lease=LEASE, clock=lambda: time.now)
            await live(dog, time, time.now + lives)
            assert time.now - began < dead + LEASE.total_seconds() + 2 * (lives + dead), "nobody has looked"
