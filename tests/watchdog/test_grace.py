"""After an outage no living worker is reaped for one lease, and never for longer (K24)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Watchdog
from tests.watchdog.ward import HEAL, HOUR, SECOND, admit, healed, lines, passes, ticked

REAP = replace(HEAL, name="reap", reaps=True, every=timedelta(0))
LEASE = watchdog.LEASE
OUTAGE = watchdog.INTERVAL * 3 + SECOND


@pytest.mark.contract("K24")
async def test_after_an_outage_nothing_is_reaped_for_one_lease(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await ticked(ward, OUTAGE)

    report = await Watchdog(line, [REAP, replace(HEAL, name="look", act=REAP.act, limit=1)]).tick()

    assert report.withheld == ("reap",)
    assert report.acted("look") == 1


@pytest.mark.contract("K24")
@pytest.mark.parametrize(
    ("silent", "interval", "lease", "withheld"),
    [
        (HOUR * 2.9, HOUR, HOUR * 4, False),
        (HOUR * 3.1, HOUR, HOUR * 4, True),
        (HOUR * 0.9, HOUR, HOUR, False),
        (HOUR * 1.1, HOUR, HOUR, True),  # a lease, where that is shorter
    ],
)
async def test_an_outage_is_three_missed_intervals_or_a_lease(
    ward: Database, line: Line, silent: timedelta, interval: timedelta, lease: timedelta, withheld: bool
) -> None:
    await admit(ward, 1)
    await ticked(ward, silent)

    dog = Watchdog(line, [REAP], interval=interval, lease=lease, clock=lambda: 1000.0)
    report = await dog.tick()

    assert bool(report.withheld) is withheld
    assert (dog._tick_due - 1000.0) * 3 == pytest.approx(min(interval * 3, lease).total_seconds())


# How the intervals of two workers may differ. Both are long, because the machine of a test may be slow.
SELDOM, OFTEN = HOUR, HOUR / 10


@pytest.mark.contract("K24", "K17")
async def test_a_watchdog_with_a_short_interval_that_starts_beside_a_slower_one_finds_no_outage(
    ward: Database, database_url: str
) -> None:
    """Else each of its starts gives a grace, or hides the next outage because ticks seem to have gaps."""
    await ticked(ward, timedelta(0))
    reports = []
    async with lines(database_url, 2) as [one, two]:
        for _ in range(3):
            await Watchdog(one, [], interval=SELDOM, lease=4 * HOUR).tick()
            await passes(ward, SELDOM * 0.9)
            await admit(ward, 1)
            reports.append(await Watchdog(two, [REAP], interval=OFTEN, lease=4 * HOUR).tick())
        await Watchdog(one, [], interval=SELDOM, lease=4 * HOUR).tick()
        await passes(ward, SELDOM * 3.1)
        outage = await Watchdog(two, [REAP], interval=OFTEN, lease=4 * HOUR).tick()

    assert [(report.withheld, report.acted()) for report in reports] == [((), 1)] * 3
    assert outage.withheld == ("reap",)


@pytest.mark.contract("K24", "W13")
async def test_a_rule_that_found_something_reaps_if_a_slower_watchdog_has_ticked_in_its_time(
    ward: Database, database_url: str
) -> None:
    await ticked(ward, timedelta(0))
    async with lines(database_url, 2) as [one, two]:
        dog = Watchdog(two, [REAP], interval=OFTEN, lease=4 * HOUR, clock=lambda: 1000.0)
        await dog.tick()
        await Watchdog(one, [], interval=SELDOM, lease=4 * HOUR).tick()
        await admit(ward, 1)
        await passes(ward, SELDOM * 0.9)
        report = await dog.tick()  # before its next tick is due

    assert (report.withheld, report.acted()) == ((), 1)


@pytest.mark.contract("K24", "K17")
async def test_the_death_of_the_watchdog_that_ticked_most_often_is_no_outage(ward: Database, database_url: str) -> None:
    await ticked(ward, timedelta(0))
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(two, [], interval=OFTEN, lease=4 * HOUR).tick()
        await admit(ward, 1)
        await passes(ward, SELDOM * 0.9)
        report = await Watchdog(one, [REAP], interval=SELDOM, lease=4 * HOUR).tick()

    assert (report.withheld, report.acted()) == ((), 1)


@pytest.mark.contract("K24", "W13")
async def test_a_dead_watchdog_with_a_long_interval_hides_no_outage_after_the_next_tick(
    ward: Database, database_url: str
) -> None:
    await ticked(ward, timedelta(0))
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(one, [], interval=SELDOM, lease=4 * HOUR).tick()  # and dies
        await passes(ward, OFTEN)
        await Watchdog(two, [], interval=OFTEN, lease=4 * HOUR).tick()
        await passes(ward, OFTEN * 3.1)
        report = await Watchdog(two, [REAP], interval=OFTEN, lease=4 * HOUR).tick()

    assert report.withheld == ("reap",)


@pytest.mark.contract("K24")
async def test_another_watchdog_keeps_to_the_grace_that_the_first_gave(ward: Database, database_url: str) -> None:
    await admit(ward, 1)
    await ticked(ward, HOUR)
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(one, [REAP]).tick()
        report = await Watchdog(two, [REAP]).tick()

    assert report.withheld == ("reap",)


@pytest.mark.contract("K24")
async def test_reaping_goes_on_when_the_grace_is_over(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await ticked(ward, HOUR)
    now = 1000.0
    dog = Watchdog(line, [replace(REAP, every=HOUR)], clock=lambda: now)

    within = await dog.tick()
    now += LEASE.total_seconds()  # and an hour before its time
    await passes(ward, LEASE)
    await Watchdog(line, []).tick()  # another has ticked meanwhile
    after = await dog.tick()

    assert (within.withheld, within.acted()) == (("reap",), 0)
    assert (after.withheld, after.acted()) == ((), 1)


@pytest.mark.contract("K24", "W13")
@pytest.mark.parametrize(
    ("steady", "again"),
    [(timedelta(0), False), (LEASE * 0.5, False), (LEASE * 1.9, False), (LEASE * 2.1, True)],
    ids=["at once", "in the grace", "less than a lease after it", "a lease after it"],
)
async def test_no_grace_follows_another_before_watchdogs_have_ticked_for_a_lease(
    ward: Database, line: Line, steady: timedelta, again: bool
) -> None:
    """Else, where all workers die again and again, graces follow each other and nothing is ever reaped."""
    await admit(ward, 1)
    await ticked(ward, OUTAGE)
    first = await Watchdog(line, [REAP]).tick()
    while steady > timedelta(0):
        step = min(steady, watchdog.INTERVAL)
        await passes(ward, step)
        await Watchdog(line, []).tick()
        steady -= step
    await passes(ward, max(OUTAGE, LEASE))  # an outage that outlasts the first grace

    second = await Watchdog(line, [REAP]).tick()

    assert first.withheld == ("reap",)
    assert second.withheld == (("reap",) if again else ())


@pytest.mark.contract("K24")
async def test_a_gap_without_a_grace_begins_the_count_anew(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await ticked(ward, OUTAGE)
    await Watchdog(line, []).tick()
    found = []
    for _ in range(4):
        await passes(ward, LEASE + SECOND)  # longer than three intervals, and than the grace
        found.append((await Watchdog(line, [REAP]).tick()).withheld)
        await admit(ward, 1)

    assert found == [()] * 4


@pytest.mark.contract("K24", "W13")
async def test_a_watchdog_that_slept_with_its_machine_asks_the_database_before_it_reaps(
    ward: Database, line: Line
) -> None:
    dog = Watchdog(line, [REAP], clock=lambda: 1000.0)
    await ticked(ward, timedelta(0))  # the database was made from one that may be old
    await dog.tick()
    await admit(ward, 1)
    await passes(ward, HOUR)  # by the database; the watchdog's own clock stood still

    asleep = await dog.tick()
    awake = await dog.tick()

    assert (asleep.withheld, asleep.acted()) == (("reap",), 0)
    assert (awake.withheld, awake.acted()) == (("reap",), 0)  # the grace has begun
    assert await watchdog.late(line) is None
    assert await healed(ward) == {1: 0}


@pytest.mark.contract("K24")
async def test_a_grace_that_another_watchdog_gave_is_kept_before_the_next_tick(ward: Database, line: Line) -> None:
    dog = Watchdog(line, [REAP], clock=lambda: 1000.0)
    await ticked(ward, timedelta(0))
    await dog.tick()
    await admit(ward, 1)
    async with ward.session() as session:
        await session.fetch("update ferryman.watchdog set grace_until = clock_timestamp() + $1::interval", LEASE)

    assert (await dog.tick()).withheld == ("reap",)


@pytest.mark.contract("K24")
async def test_a_grace_is_not_shortened_by_a_watchdog_with_a_shorter_lease(ward: Database, database_url: str) -> None:
    """The worker with the longer lease renews less often."""
    await admit(ward, 1)
    await ticked(ward, HOUR)
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(one, [REAP], lease=timedelta(seconds=120)).tick()
        for _ in range(22):
            await passes(ward, watchdog.INTERVAL)
            report = await Watchdog(two, [REAP]).tick()

    assert report.withheld == ("reap",)


@pytest.mark.contract("K24", "W13")
async def test_a_round_that_takes_long_is_no_outage(ward: Database, line: Line) -> None:
    """Else, where the machine is busy, each round would be followed by a grace."""
    await admit(ward, 1)
    await ticked(ward, timedelta(0))
    now = 1000.0

    async def slow(_tx: Tx, _limit: int) -> Sequence[Row]:
        nonlocal now
        now += 1000
        await passes(ward, timedelta(seconds=1000))
        return ()

    last = replace(REAP, every=2 * HOUR)  # comes after those that must look sooner
    rules = [*(replace(HEAL, name=f"slow-{n}", find=slow) for n in range(3)), last]
    report = await Watchdog(line, rules, interval=timedelta(seconds=500), lease=2 * HOUR, clock=lambda: now).tick()

    assert [outcome.rule for outcome in report.outcomes] == ["slow-0", "slow-1", "slow-2", "reap"]
    assert (report.withheld, report.acted("reap")) == ((), 1)


# What a clock that went an hour ahead leaves behind when it is right again. The clock of a server cannot be set in a test.
AHEAD = "update ferryman.watchdog set ticked_at = clock_timestamp() + '1 hour', grace_until = clock_timestamp() + $1::interval"


@pytest.mark.contract("K24", "K5")
@pytest.mark.parametrize("grace", [timedelta(0), HOUR + LEASE])
@pytest.mark.parametrize("first", [True, False], ids=["by its first tick", "before its next tick"])
async def test_a_tick_and_a_grace_of_a_clock_that_was_set_back_count_for_nothing(
    ward: Database, line: Line, first: bool, grace: timedelta
) -> None:
    """The leases of living workers lie as far ahead, so what is over has no holder."""
    await ticked(ward, timedelta(0))
    dog = Watchdog(line, [REAP], clock=lambda: 1000.0)
    if not first:
        await dog.tick()
    await admit(ward, 1)
    async with ward.session() as session:
        await session.fetch(AHEAD, grace)

    report = await dog.tick()
    await Watchdog(line, []).tick()
    async with ward.session() as session:
        [row] = await session.fetch("select grace_until < clock_timestamp() as cleared from ferryman.watchdog")

    assert (report.withheld, report.acted()) == ((), 1)
    assert row["cleared"]
