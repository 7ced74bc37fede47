"""What a client of a benchmark creates, and of which it tells the time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench import operations
from bench.protocol import HANDLED, WARM, Marks, Order, Peer
from bench.stage import Crew


class Noting(Peer):
    """It notes what it is asked for; of each set another worker takes all."""

    def __init__(self, marks: Marks, *, takers: list[int]) -> None:
        super().__init__("", marks)
        self.takers = takers
        self.asked: list[range] = []

    async def create_many(self, jobs: range, *, due: float | None = None) -> None:
        self.marks.times[HANDLED + self.takers[len(self.asked)]] += len(jobs)
        self.asked.append(jobs)


async def test_a_bulk_create_is_timed_after_a_small_one(tmp_path: Path) -> None:
    peer = Noting(Marks(tmp_path / "marks"), takers=[0, 0])

    await operations.bulk(peer, Order(op="bulk", count=1_000))

    assert peer.asked == [range(WARM), range(WARM, WARM + 1_000)]


async def test_workers_are_warmed_until_each_has_had_a_job(tmp_path: Path) -> None:
    peer = Noting(Marks(tmp_path / "marks"), takers=[1, 1, 0])

    told = await operations.warm(peer, Order(op="warm", count=0, workers=2))

    assert told == {"made": 3 * WARM}


async def test_a_worker_that_never_begins_a_job_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    peer = Noting(Marks(tmp_path / "marks"), takers=[0] * 1_000_000)

    with pytest.raises(TimeoutError, match="1 of 2 workers"):
        await operations.warm(peer, Order(op="warm", count=0, workers=2, cap=0.5))


def becomes(members: list[psutil.Process], *, stopped: bool) -> bool:
    """Look until all of them stand still, or none does: a signal takes its time."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if all((member.status() == psutil.STATUS_STOPPED) == stopped for member in members):
            return True
    return False


def test_a_stopped_crew_stands_still_with_its_children_until_it_goes_on() -> None:
    child = "import time; print('here', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        crew = Crew([process])
        members = list(crew.members())

        try:
            crew.stop()
            assert becomes(members, stopped=True)

            crew.go_on()
            assert becomes(members, stopped=False)
        finally:
            for member in reversed(members):
                member.kill()
