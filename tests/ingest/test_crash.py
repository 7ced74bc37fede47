"""R1 for ingestion: SIGKILL at every named point, in real processes; nothing is lost, nothing happens twice (I6, I13)."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.forge import Forged
from tests.ingest import hulk
from tests.ingest.harbour import DAWN, HOUR, Harbour, harbour
from tests.patience import PATIENCE_SECONDS
from tests.spread import KILLS, paired

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = hulk.RECORDS // hulk.SIZE

# One life after another, each with the fault that ends it; the last one dies of nothing.
LIVES = [
    "ingest.planned=kill@1",
    "ingest.claimed=kill@1",
    "ingest.begun=kill@{page}",
    "ingest.fetched=kill@{page}",
    "ingest.written=kill@{page}",
    "ingest.committed=kill@{page}",
    "ingest.ending=kill@1",
    "ingest.ended=kill@1",
    "renew.before=kill@1;ingest.fetched=delay:30@1",
    "watchdog.acted=kill@1",
]
# Nothing but ingestion is worked on here: what every pump passes is passed by its own.
PUMP = ["claim.sent=kill@1", "claim.committed=kill@1", "settle.before=kill@1"]
ROUNDS = {f"page {page}": [plan.format(page=page) for plan in LIVES] for page in range(1, KILLS + 1)}
ROUNDS["pump"] = PUMP * KILLS


class Hulk:
    """A mother of executors."""

    def __init__(self, lines: asyncio.StreamReader, stdin: int, folder: Path) -> None:
        self._lines = lines
        self._stdin = stdin
        self._folder = folder

    async def born(self, plan: str = "") -> int:
        """Begin a life; return its process id."""
        os.write(self._stdin, f"{plan}\n".encode())
        return int((await self._said("born"))[0])

    async def died(self) -> int:
        return int((await self._said("died"))[0])

    async def _said(self, word: str) -> list[str]:
        line = (await asyncio.wait_for(self._lines.readline(), PATIENCE_SECONDS)).decode().split()
        assert line[:1] == [word], line
        return line[1:]

    def asked(self) -> Counter[str]:
        path = self._folder / "asked"
        return Counter(path.read_text(encoding="utf-8").splitlines()) if path.exists() else Counter()

    def strikes(self) -> list[str]:
        path = self._folder / "faults"
        return [line.split()[0] for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def fences(self) -> int:
        """Return how often its lives were told that a claim is not theirs any more."""
        path = self._folder / "faults.fenced"
        return sum(map(int, path.read_text(encoding="utf-8").split())) if path.exists() else 0


@asynccontextmanager
async def mother(url: str, folder: Path, *, kind: str = "plain", concurrency: int = 1) -> AsyncIterator[Hulk]:
    words = [url, str(folder / "asked"), str(folder / "faults"), kind, str(concurrency)]
    (theirs, stdin), (stdout, told) = os.pipe(), os.pipe()
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    process = Forged(
        hulk.__name__,
        words,
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        stdio=(theirs, told, sys.stderr.fileno()),
    )
    os.close(theirs)
    os.close(told)
    lines = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(stdout, "rb")
    )
    try:
        yield Hulk(lines, stdin, folder)
    finally:
        os.close(stdin)
        transport.close()
        process.send_signal(signal.SIGKILL)
        process.wait()


async def pass_on(here: Harbour) -> None:
    """Let the lease of whoever died run out, and take its task from it."""
    await here.travel(timedelta(seconds=61))
    await here.tick()


async def judge(here: Harbour, hull: Hulk, *, again: int) -> None:
    expected = [(n, f"v{n}") for n in range(hulk.RECORDS)]
    assert await here.sunk() == expected
    assert await here.fetch("select distinct writes from public.cargo") == [(1,)]  # the effect of each batch, once
    good = await here.fetch(
        "select count(*), count(distinct idempotent_key) from ferryman.ingest_batch where status = 'SUCCEEDED'"
    )
    assert good == [(PAGES, PAGES)]
    asked = hull.asked()
    assert len(asked) == PAGES
    assert sum(asked.values()) - PAGES <= again, asked
    assert await here.cursor() == DAWN + hulk.HOURS * HOUR
    assert await here.states("task") == ["SUCCEEDED"] * hulk.HOURS
    assert len(await here.states("plan")) == 1
    await here.sound()


@pytest.mark.contract("R1", "I6", "I13", "I4", "I11")
@pytest.mark.parametrize("round", ROUNDS)
async def test_an_executor_killed_at_every_point_loses_and_repeats_nothing(
    round: str, database_url: str, tmp_path: Path
) -> None:
    lives = ROUNDS[round]
    # Ordered: each batch moves the cursor, in the transaction that writes its records.
    async with harbour(database_url, ordered=True) as here, mother(database_url, tmp_path, kind="ordered") as hull:
        for plan in lives:
            if plan.startswith("watchdog"):
                await _late(here)
            await hull.born(plan)
            assert await hull.died() == -signal.SIGKILL, plan
            await pass_on(here)
        await hull.born()
        assert await hull.died() == 0

        struck = Counter(hull.strikes())
        for point, count in Counter(plan.partition("=")[0] for plan in lives).items():
            assert struck[point] >= count, point
        await judge(here, hull, again=len(lives))


async def _late(here: Harbour) -> None:
    """Give the watchdog of the next life something to do, without which its plan does not end."""
    assert len(await here.ship().claim()) == 1
    await here.travel(timedelta(seconds=61))


async def _free(here: Harbour) -> bool:
    """Tell whether nobody has the rows that are leased in an open transaction."""
    return bool(
        await here.fetch("select id from ferryman.ingest_task where leased_until is not null for update skip locked")
    )


async def _until(true: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await true():  # noqa: ASYNC110 - told by another process, through the database
            await asyncio.sleep(0.01)


@pytest.mark.contract("R2", "W15", "W23")
async def test_an_executor_frozen_inside_a_page_lets_go_of_its_task_with_its_lease(
    database_url: str, tmp_path: Path
) -> None:
    async with harbour(database_url) as here, mother(database_url, tmp_path) as hull:
        frozen = await hull.born("ingest.written=stop@1")
        await _until(lambda: _struck(hull))
        assert not await _free(here)
        await _until(lambda: _free(here))  # within 30 s, and not after the 60 s that a caller's transaction may think
        await pass_on(here)
        os.kill(frozen, signal.SIGKILL)
        assert await hull.died() == -signal.SIGKILL
        await hull.born()
        assert await hull.died() == 0
        await judge(here, hull, again=1)


# With a claim unknown to it, with a page to ask for, with one in hand, inside the page's transaction, after it, and inside the
# end of a run.
STOPS = ["ingest.claimed", "ingest.begun", "ingest.fetched", "ingest.written", "ingest.committed", "ingest.ending"]


@pytest.mark.contract("R2", "I4", "I6", "K4")
@pytest.mark.parametrize(("point", "ends"), paired(STOPS, ["before it comes back", "after it has come back"]))
async def test_an_executor_that_was_frozen_writes_nothing_when_it_is_back(
    point: str, ends: str, database_url: str, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("zombie", "successor")]
    for folder in folders:
        folder.mkdir()
    async with (
        harbour(database_url) as here,
        mother(database_url, folders[0]) as zombie,
        mother(database_url, folders[1]) as successor,
    ):
        frozen = await zombie.born(f"{point}=stop@1")
        await _until(lambda: _struck(zombie))
        await _until(lambda: _free(here))  # at once, or when PostgreSQL has ended its transaction
        await pass_on(here)
        held = "ingest.begun=stop@1" if ends == "after it has come back" else ""
        other = await successor.born(held)
        if held:
            await _until(
                lambda: _stopped(other)
            )  # it has taken the work over; told to go on before that, it would stop after
            os.kill(frozen, signal.SIGCONT)
            os.kill(other, signal.SIGCONT)
        assert await successor.died() == 0
        if not held:
            os.kill(frozen, signal.SIGCONT)
        assert await zombie.died() == 0

        assert zombie.fences() > 0
        assert await here.sunk() == [(n, f"v{n}") for n in range(hulk.RECORDS)]
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert await here.cursor() == DAWN + hulk.HOURS * HOUR
        assert await here.states("task") == ["SUCCEEDED"] * hulk.HOURS
        await here.sound()


async def _struck(hull: Hulk) -> bool:
    return bool(hull.strikes())


async def _stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


async def _asked(hull: Hulk) -> bool:
    return bool(hull.asked())


@pytest.mark.contract("R1", "I5", "I13", "K17")
async def test_executors_beside_each_other_and_drained_lose_and_repeat_nothing(
    database_url: str, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    # Into a table: a page is one statement, and the batch that follows is there with it.
    async with (
        harbour(database_url) as here,
        mother(database_url, folders[0], kind="table", concurrency=3) as first,
        mother(database_url, folders[1], kind="table", concurrency=3) as second,
    ):
        await first.born("ingest.committed=kill@6;ingest.fetched=delay:0.05")
        # Who has begun has a slice, and a slice has the six pages: the second could else be done with all before that.
        await _until(lambda: _asked(first))
        drained = await second.born("ingest.fetched=delay:0.05")
        assert await first.died() == -signal.SIGKILL
        await _until(lambda: _asked(second))  # there is a fourth slice, and who works hears the signal
        os.kill(drained, signal.SIGTERM)
        assert await second.died() == 0
        await pass_on(here)
        await first.born()
        assert await first.died() == 0

        asked = first.asked() + second.asked()
        assert await here.sunk() == [(n, f"v{n}") for n in range(hulk.RECORDS)]
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert sum(asked.values()) - PAGES <= 3  # what the killed one had in its hands
        assert await here.cursor() == DAWN + hulk.HOURS * HOUR
        await here.sound()
