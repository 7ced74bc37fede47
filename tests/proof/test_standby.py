"""K24: an address that leads to a standby is told as such, and nobody loops; after its promotion work goes on there.

A standby that commits wait for has all that was acknowledged when its primary dies. One that nobody waits for may lack the last
of it; what it has is whole.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors, migrate
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import until
from tests.proof.conftest import Tell
from tests.proof.pair import Pair, seen
from tests.surfaces import ferry

MORE = 60
FIRST_START_SECONDS = 5.0  # docs/contracts/reliability.md
WAITING = "select from pg_stat_activity where wait_event = 'SyncRep'"
OVERDUE = "select domain, state, rule from ferryman.overdue"


@pytest.fixture
def pair(ground: Path) -> Iterator[Pair]:
    made = Pair(ground)
    try:
        yield made
    finally:
        made.stop()


async def followed(pair: Pair, count: int) -> None:
    """Wait until the standby has what the primary has."""
    query = "select count(*) as n from ferryman.tasks"
    async with asyncio.timeout(30):
        while (await judge.read(pair.standby, query))[0]["n"] < count:  # noqa: ASYNC110 - the sign is a row
            await asyncio.sleep(0.02)


@pytest.mark.contract("K24")
async def test_a_worker_at_a_standby_says_so_waits_and_goes_on_when_it_is_promoted(
    pair: Pair, ship: Launch, tell: Tell
) -> None:
    pair.start()
    await migrate.migrate(pair.primary)
    await migrate.migrate(pair.standby)  # nothing is missing, so nothing is written
    held = await cargo.load(pair.primary, 20)
    await followed(pair, 20)

    worker = ship(pair.standby).start()
    await until(lambda: "read-only" in worker.output(), "a word about the standby", also=worker.output)
    async with Ferryman(pair.standby) as app:
        app.declare("job")
        found = await app.tasks.get(held[0])
        with pytest.raises(errors.DatabaseUnavailable, match="read-only"):
            await app.tasks.create("job", {"key": "no"})
    doctor = await asyncio.to_thread(ferry.run, "doctor", "--quick", "--json", url=pair.standby)
    readings = {each["name"]: each for each in doctor.json["readings"]}
    assert found is not None
    assert worker.alive()
    assert doctor.code == 1
    assert (readings["standby"]["verdict"], "primary" in readings["standby"]["advice"]) == ("bad", True)
    words, began = len(worker.output().splitlines()), time.monotonic()
    await asyncio.sleep(2.0)  # it neither gives up nor loops: that shows only in time
    said = (len(worker.output().splitlines()) - words) / (time.monotonic() - began)
    assert worker.lines("start") == []

    promoted = time.monotonic()
    await pair.promote()
    await worker.seen("start")
    took = time.monotonic() - promoted
    tell(
        f"standby: {said:.1f} lines of log a second while a worker waits; its first start {took:.2f} s after pg_promote()"
    )
    await judge.all_ended(pair.standby)

    assert said < 20
    await judge.judge(pair.standby, held, worker.lines())
    assert len(worker.lines("born")) == 1
    assert await cargo.broken(pair.standby) == []


class Load:
    """Two workers, who go where writes are taken; somebody who creates; and somebody who waits for what comes of it."""

    def __init__(self, pair: Pair, ship: Launch, folder: Path) -> None:
        self._enough = folder / "enough"
        self.workers = [ship(pair.both).start() for _ in range(2)]
        self.producer = ship(pair.both, role="producer", count=1, until=str(self._enough)).start()
        self.told: list[str] = []  # whose result somebody has

    @property
    def acked(self) -> dict[str, str]:
        return {line["key"]: line["task"] for line in self.producer.lines("ok")}

    async def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        await self.producer.seen("ok", count=len(self.producer.lines("ok")) + count)

    async def enough(self, url: str) -> None:
        """Let all come to its end."""
        self._enough.touch()
        await self.producer.seen("stopped")
        await judge.all_ended(url)

    async def order(self, url: str) -> None:
        """Ask for one thing after another, and for what became of it, until the database is gone."""
        with suppress(errors.FerrymanError):
            async with cargo.client(url) as app:
                for number in count():
                    made = await app.tasks.create("job", {"key": f"r{number}"})
                    await made.result()
                    self.told.append(str(made.id))

    def starts(self, since: float) -> list[float]:
        return [line["at"] - since for each in self.workers for line in each.lines("start") if line["at"] > since]


@asynccontextmanager
async def lost_primary(pair: Pair, load: Load, tell: Tell, what: str) -> AsyncIterator[None]:
    """Order from the primary until it dies, as the body lets it; then the standby takes over, and work goes on there."""
    ordering = asyncio.create_task(load.order(pair.primary))
    await load.more(MORE)
    await until(lambda: len(load.told) > 5, "results to be told")
    yield
    ordering.cancel()
    await asyncio.wait([ordering])
    killed = time.monotonic()
    await pair.promote()
    promoted = time.monotonic()
    await load.more(MORE)
    await load.enough(pair.standby)
    first = min(load.starts(promoted))
    tell(f"{what}: promoted {promoted - killed:.2f} s after its primary died, first start {first:.2f} s after that")
    assert first < FIRST_START_SECONDS
    assert all(each.alive() for each in load.workers)
    assert all("Traceback" not in each.output() for each in [load.producer, *load.workers])
    assert await judge.read(pair.standby, OVERDUE) == []
    assert await cargo.broken(pair.standby) == []


@pytest.mark.contract("K24", "K1")
@pytest.mark.parametrize("cut_off", [False, True], ids=["while it follows", "cut off before"])
async def test_a_promoted_standby_that_commits_waited_for_has_all_that_was_acknowledged(
    cut_off: bool, pair: Pair, ship: Launch, tmp_path: Path, tell: Tell
) -> None:
    pair.start()
    await migrate.migrate(pair.primary)
    await pair.name()
    load = Load(pair, ship, tmp_path)

    async with lost_primary(pair, load, tell, "a standby that is waited for"):
        if cut_off:
            await pair.cut_off()
            await seen(pair.primary, WAITING)
        await pair.kill()

    rows = await judge.read(pair.standby, "select id::text, idempotency_key as key from ferryman.tasks")
    assert {row["key"]: row["id"] for row in rows if row["key"]} == load.acked
    lines = [line for each in load.workers for line in each.lines()]
    await judge.judge(pair.standby, [*load.acked.values(), *load.told], lines)


@pytest.mark.contract("K24")
async def test_a_promoted_standby_that_nobody_waited_for_may_lack_the_last_commits_and_is_whole(
    pair: Pair, ship: Launch, tmp_path: Path, tell: Tell
) -> None:
    pair.start()
    await migrate.migrate(pair.primary)
    load = Load(pair, ship, tmp_path)

    async with lost_primary(pair, load, tell, "a standby that nobody waits for"):
        await pair.cut_off()
        await load.more(MORE)
        acked = load.acked
        await pair.kill()

    rows = {
        row["id"]: row["state"] for row in await judge.read(pair.standby, "select id::text, state from ferryman.tasks")
    }
    lost = [key for key, id in acked.items() if id not in rows]
    tell(f"a standby that nobody waits for: {len(lost)} of {len(acked)} acknowledged were lost with its primary")
    assert lost
    assert set(rows.values()) == {"succeeded"}
