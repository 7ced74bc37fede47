"""When the watchdog looks, and what that costs."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import resources

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Watchdog
from tests.watchdog.ward import HEAL, HOUR, SECOND, Counted, admit, ticked


@pytest.mark.contract("W13", "R3")
@pytest.mark.parametrize(
    ("soon", "least", "most"), [(None, 60, 60), (20.0, 26, 50), (0.001, 6, 30.1), (59.0, 60, 60), (500.0, 60, 60)]
)
async def test_a_rule_looks_again_soon_after_what_it_knows_to_come(
    ward: Database, line: Line, soon: float | None, least: float, most: float
) -> None:
    """And never at one moment with all others, which know of the same."""
    rule = replace(HEAL, every=SECOND * 60, soon=lambda: soon)
    dues = []
    for _ in range(20):
        dog = Watchdog(line, [rule], interval=HOUR, lease=24 * HOUR, clock=lambda: 1000.0)
        await dog.tick()
        dues.append(dog.due - 1000.0)

    assert least <= min(dues) <= max(dues) <= most
    assert least == most or max(dues) > min(dues)


# How far ahead the last tick and the end of its grace may lie when a clock that went ahead is right again. The clock of a
# server cannot be set in a test.
AHEAD = {
    "a tick, and the grace that the jump gave": (HOUR, HOUR + watchdog.LEASE),
    "a tick": (HOUR, timedelta(0)),
    "a grace, and a tick of who does not shorten it": (timedelta(0), HOUR),
    "a little of both": (timedelta(seconds=10), watchdog.LEASE + timedelta(seconds=10)),
}


@pytest.mark.contract("W23")
async def test_a_watchdog_that_is_late_is_an_alarm(ward: Database, line: Line) -> None:
    await Watchdog(line, []).tick()
    assert await watchdog.late(line) is None

    await ticked(ward, timedelta(seconds=11))

    late = await watchdog.late(line)
    assert late is not None
    assert late > timedelta(seconds=10)


@pytest.mark.contract("W23", "K24")
async def test_a_tick_of_a_clock_that_was_set_back_hides_no_silence(ward: Database, line: Line) -> None:
    await ticked(ward, -timedelta(seconds=9))
    little = await watchdog.late(line)
    await ticked(ward, -HOUR)
    nobody = await watchdog.late(line)
    await Watchdog(line, []).tick()

    assert (little, nobody) == (None, timedelta(0))
    assert await watchdog.late(line) is None


@pytest.mark.contract("W20")
async def test_an_idle_watchdog_costs_little_more_than_one_transaction_a_second(ward: Database, line: Line) -> None:
    counted = Counted(line)
    now = 1000.0
    sweep = replace(HEAL, name="sweep", every=SECOND)
    others = [replace(HEAL, name=f"other {n}", every=timedelta(seconds=5 + n / 3)) for n in range(15)]
    dog = Watchdog(counted, [sweep, *others], clock=lambda: now)

    while now < 1060:
        await dog.tick()
        now = dog.due + 0.003  # a tick takes a moment

    assert counted.transactions <= 1.6 * 60  # a tick is a transaction of its own


@pytest.mark.contract("W20")
async def test_a_rule_is_never_looked_at_later_than_its_time(ward: Database, line: Line) -> None:
    now, looked = 1000.0, []

    async def note(_tx: Tx, _limit: int) -> Sequence[Row]:
        looked.append(now)
        return ()

    slow = [replace(HEAL, name=f"other {n}", every=timedelta(seconds=5 + n / 3)) for n in range(5)]
    dog = Watchdog(line, [*slow, replace(HEAL, name="sweep", every=SECOND, find=note)], clock=lambda: now)
    while now < 1030:
        await dog.tick()
        now = dog.due

    assert max(later - earlier for earlier, later in itertools.pairwise(looked)) <= 1.0


@pytest.mark.contract("W20", "W13")
async def test_where_looks_are_slow_the_most_frequent_does_not_wait_for_all_others(ward: Database, line: Line) -> None:
    now: float = 1000.0
    looked: dict[str, list[float]] = {}

    def slowly(name: str, every: timedelta) -> watchdog.Rule:
        async def note(_tx: Tx, _limit: int) -> Sequence[Row]:
            nonlocal now
            now += 0.2
            looked.setdefault(name, []).append(now)
            return ()

        return replace(HEAL, name=name, every=every, find=note)

    others = [slowly(f"other {n}", timedelta(seconds=20 + n / 3)) for n in range(40)]
    dog = Watchdog(line, [*others, slowly("sweep", SECOND)], clock=lambda: now)
    while now < 1060:
        await dog.tick()
        now = max(now, dog.due)

    gaps = {name: max(b - a for a, b in itertools.pairwise([1000.0, *times])) for name, times in looked.items()}
    assert gaps.pop("sweep") <= 2.5
    assert len(gaps) == 40
    assert max(gaps.values()) <= 40


@pytest.mark.contract("W22")
def test_the_watchdog_itself_writes_nothing_but_its_own_tick() -> None:
    written = re.compile(r"(?:update|insert into|delete from)\s+(ferryman\.\w+)")
    kernel = resources.files("ferryman.kernel")
    files = [*(kernel / "watchdog").iterdir(), *(kernel / "sql" / "watchdog").iterdir()]

    assert {name for file in files if file.is_file() for name in written.findall(file.read_text())} == {
        "ferryman.watchdog"
    }


@pytest.mark.contract("W20", "K24")
async def test_the_first_look_comes_within_a_tenth_of_its_period_and_not_at_one_moment_for_all(
    ward: Database, line: Line
) -> None:
    rules = [replace(HEAL, name=name, every=every) for name, every in (("sweep", SECOND), ("hourly", HOUR))]
    dues: dict[str, list[float]] = {"sweep": [], "hourly": []}
    for _ in range(20):
        dog = Watchdog(line, rules, clock=lambda: 1000.0)
        dog._spread()
        for look in dog._looks:
            dues[look.rule.name].append(look.due - 1000.0)

    for name, most in (("sweep", 0.1), ("hourly", 0.5)):  # of an interval at most
        assert 0 <= min(dues[name]) < max(dues[name]) <= most


@pytest.mark.contract("W20")
async def test_a_first_look_does_not_come_before_its_moment(ward: Database, line: Line) -> None:
    """Later looks may come early, to share a transaction. First looks may not: all of a fleet would come together."""
    await admit(ward, 1)
    now = 1000.0
    dog = Watchdog(line, [replace(HEAL, every=SECOND)], clock=lambda: now)
    for look in dog._looks:
        look.due = now + 0.05
    before = await dog.tick()
    now += 0.05
    after = await dog.tick()

    assert (before.outcomes, after.acted()) == ((), 1)
