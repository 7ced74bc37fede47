"""Who is cancelled while waiting ends, whatever comes in that moment (K17: a worker that is told to stop stops)."""

import asyncio
from pathlib import Path

import pytest

from ferryman.kernel.timed import timed

SOURCES = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.contract("K17")
@pytest.mark.parametrize("ticks", range(6))
async def test_a_loop_that_is_cancelled_in_the_moment_when_it_is_rung_ends(ticks: int) -> None:
    bell = asyncio.Event()

    async def loop() -> None:
        while True:
            await timed(bell.wait(), 60)
            bell.clear()

    going = asyncio.create_task(loop())
    for _ in range(3):
        await asyncio.sleep(0)
    bell.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    going.cancel()

    done, _ = await asyncio.wait([going], timeout=5)
    assert going in done


async def test_what_takes_too_long_is_told() -> None:
    with pytest.raises(TimeoutError):
        await timed(asyncio.Event().wait(), 0.01)


def test_nothing_else_waits_so() -> None:
    forgetful = [path.name for path in SOURCES.rglob("*.py") if "asyncio.wait_for(" in path.read_text(encoding="utf-8")]

    assert forgetful == []
