"""A backup is put back while workers of the later time are at work: the database goes back in time under them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.sea import Sea
from tests.crash.yard import Ship, until
from tests.proof.conftest import Tell

PLACES = 8  # of a worker (yard.TERMS)
WORKERS = 2
BOTH = PLACES * WORKERS


@pytest.fixture
async def sea(ground: Path) -> AsyncIterator[Sea]:
    made = Sea(ground / "sea")
    try:
        yield await made.begin()
    finally:
        made.end()


def begun(workers: list[Ship], tasks: list[str]) -> int:
    """Count the starts of these."""
    return sum(line["task"] in set(tasks) for each in workers for line in each.lines("start"))


@pytest.mark.contract("K24")
@pytest.mark.parametrize("ghosts", [BOTH, PLACES // 2], ids=["no room", "room"])
async def test_workers_go_on_when_the_database_goes_back_in_time(
    ghosts: int, sea: Sea, ship: Launch, ground: Path, tell: Tell
) -> None:
    """What they hold of the later time is not known any more; where they have room they claim it anew, under the same epoch."""
    early, late = ground / "early", ground / "late"
    workers = [ship(sea.url).start() for _ in range(WORKERS)]
    ended = await cargo.load(sea.url, 20)
    await judge.all_ended(sea.url)
    held = await cargo.load(sea.url, BOTH, gate=str(early))
    await until(lambda: begun(workers, held) == BOTH, "every place to be taken")
    waiting = await cargo.load(sea.url, ghosts, gate=str(late))

    await sea.kill()
    backup = await asyncio.to_thread(sea.copy, ground / "backup")
    await asyncio.to_thread(sea.start)
    early.touch()
    await until(lambda: begun(workers, waiting) >= ghosts, "what the backup has in line to be begun")
    gone = await cargo.load(sea.url, 10) if ghosts < BOTH else []

    await sea.kill()
    await asyncio.to_thread(sea.put_back, backup)
    await asyncio.to_thread(sea.start)
    again = begun(workers, waiting)
    await until(lambda: begun(workers, waiting) >= again + ghosts, "it to be begun anew")
    late.touch()
    await judge.all_ended(sea.url)

    kept = [*ended, *held, *waiting]
    rows = await judge.read(sea.url, "select id::text, state from ferryman.tasks")
    assert {row["id"]: row["state"] for row in rows} == dict.fromkeys(kept, "succeeded")
    assert not {row["id"] for row in rows} & set(gone)
    ends = await judge.read(
        sea.url, "select subject::text from ferryman.events where to_state = any($1)", list(judge.TERMINAL)
    )
    assert Counter(row["subject"] for row in ends) == Counter(kept)
    assert await cargo.broken(sea.url) == []
    for each in workers:
        assert each.alive()
        assert "Traceback" not in each.output(), each.output()
    more = await cargo.load(sea.url, 50)
    await judge.all_ended(sea.url)
    assert begun(workers, more) == len(more)
    tell(
        f"a backup put back under {WORKERS} workers that held {ghosts} claims of the later time: {len(kept)} tasks ended once"
    )
