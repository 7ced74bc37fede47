"""When the watchdog looks, what that costs, and when it must not reap."""

import asyncio
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import resources
from typing import Any

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Watchdog
from tests.watchdog.ward import HEAL, HOUR, SECOND, Counted, admit, healed, lines, running

REAP = replace(HEAL, name="reap", reaps="tasks", every=timedelta(0))


def of_an_hour(line: Line, **more: Any) -> Watchdog:
    """Make one whose lease is long: what is a little below a bound of it stays there, however late the machine is."""
    return Watchdog(line, [REAP], interval=HOUR, lease=HOUR, **more)


async def silent_for(db: Database, time: timedelta) -> None:
    async with db.session() as session:
        await session.fetch("update ferryman.watchdog set ticked_at = clock_timestamp() - $1::interval", time)
        await session.fetch("update ferryman.watched_leases set reached_at = clock_timestamp() - $1::interval", time)


async def grace_for(db: Database, time: timedelta) -> None:
    async with db.session() as session:
        await session.fetch("update ferryman.watchdog set grace_until = clock_timestamp() + $1::interval", time)


async def grace_passes(db: Database, time: timedelta) -> None:
    """Let as much of the grace be over, whatever is left of it; watchdogs have ticked meanwhile."""
    async with db.session() as session:
        await session.fetch("update ferryman.watchdog set grace_until = grace_until - $1::interval", time)
        await session.fetch("update ferryman.watched_leases set grace_until = grace_until - $1::interval", time)


async def somebody_works(db: Database, leases: dict[str, float], *, until: str = "5 s") -> None:
    """Let a worker be known that has such leases, and was heard of not long ago."""
    async with db.session() as session:
        await session.fetch(
            "insert into ferryman.workers (boot_id, host, pid, version, queues, handlers, settings, seen_until)"
            " values (gen_random_uuid(), 'far', 1, '1', '{}', '{}', $1::text::jsonb, ferryman.clock() + $2::text::interval)",
            json.dumps(leases),
            until,
        )


@pytest.mark.contract("K24")
async def test_after_an_outage_nothing_is_reaped_for_one_lease(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await silent_for(ward, timedelta(seconds=16))

    report = await Watchdog(line, [REAP, replace(HEAL, name="look", act=REAP.act, limit=1)]).tick()

    assert report.withheld == ("reap",)
    assert report.acted("look") == 1


@pytest.mark.contract("K24")
async def test_a_short_silence_is_no_outage(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await silent_for(ward, HOUR * 0.23)

    report = await of_an_hour(line).tick()

    assert (report.withheld, report.acted("reap")) == ((), 1)


@pytest.mark.contract("K24", "W13")
@pytest.mark.parametrize(
    ("own", "others", "least"),
    [
        (timedelta(seconds=10), {}, 10),
        (watchdog.LEASE, {"lease_seconds": 8}, 8),
        (watchdog.LEASE, {"lease_seconds": 30, "ingest_lease_seconds": 6}, 6),
        (timedelta(seconds=2), {"lease_seconds": 30, "ingest_lease_seconds": 60}, 2),
    ],
)
async def test_no_outage_that_could_end_the_shortest_lease_goes_unnoticed(
    ward: Database, line: Line, own: timedelta, others: dict[str, float], least: float
) -> None:
    """A half of a lease may be left when the database goes away, whoever comes back first."""
    await admit(ward, 1)
    if others:
        await somebody_works(ward, others)
    await silent_for(ward, timedelta(seconds=0.3 * least))

    dog = Watchdog(line, [REAP], lease=own, clock=lambda: 1000.0)
    report = await dog.tick()

    assert (report.withheld, report.acted()) == (("reap",), 0)
    assert dog._tick_due - 1000.0 <= least / 11.9  # three of them in a silence, whatever its own lease is


@pytest.mark.contract("K24", "W13")
async def test_a_short_silence_withholds_for_a_third_of_a_lease_and_once_in_a_lease(ward: Database, line: Line) -> None:
    """Where a machine has so much to do that ticks come late again and again, what the dead held is taken back all the same."""
    await admit(ward, 1)
    now = [1000.0]
    dog = of_an_hour(line, clock=lambda: now[0])
    withheld, until = [], []

    for minutes in (0, 22, 56, 4):  # since the silence before
        await grace_passes(ward, timedelta(minutes=minutes))
        await silent_for(ward, timedelta(minutes=16))
        now[0] += 10_000.0
        withheld.append((await dog.tick()).withheld)
        until.append(round((dog._grace_until["tasks"] - now[0]) / 60))

    assert withheld == [("reap",), (), (), ("reap",)]
    assert until == [20, 0, 0, 20]


@pytest.mark.contract("K24", "K17")
async def test_a_short_lease_of_somebody_who_has_gone_makes_no_outage(ward: Database, line: Line) -> None:
    """Else whoever ticks by a longer one would give a grace with every tick, for ever."""
    await admit(ward, 1)
    await somebody_works(ward, {"lease_seconds": 2}, until="-10 s")
    await silent_for(ward, timedelta(seconds=5))

    report = await Watchdog(line, [REAP]).tick()

    assert (report.withheld, report.acted("reap")) == ((), 1)


@pytest.mark.contract("K24", "K17")
async def test_the_death_of_who_ticked_most_often_is_no_outage(ward: Database, database_url: str) -> None:
    """Everybody ticks as often as the shortest lease wants, so its holder is not missed before he is forgotten."""
    await admit(ward, 1)
    await somebody_works(ward, {"lease_seconds": 600}, until="5 minutes")
    await silent_for(ward, timedelta(0))
    now = 1000.0
    async with lines(database_url, 1) as [one]:
        dog = of_an_hour(one, clock=lambda: now)
        await dog.tick()
        await admit(ward, 1)
        now = dog._tick_due
        await silent_for(ward, timedelta(seconds=now - 1000.0))
        report = await dog.tick()

    assert (report.withheld, report.acted()) == ((), 1)


@pytest.mark.contract("K24", "W13")
@pytest.mark.parametrize("mode", ["access exclusive", "share"])
async def test_leases_that_nobody_could_renew_are_not_judged_for_one_lease(
    ward: Database, line: Line, mode: str
) -> None:
    """The database answers all the while, and watchdogs tick; so long as the lock lasts, only its own domain waits for it."""
    await admit(ward, 4)
    await silent_for(ward, timedelta(0))
    now = 1000.0
    tasks = replace(REAP, limit=1, every=SECOND)
    turns = replace(tasks, name="turns", reaps="turns")
    dog = Watchdog(line, [tasks, turns], clock=lambda: now)
    async with ward.transaction() as other:
        await other.fetch(f"lock table ferryman.tasks in {mode} mode")
        locked = await dog.tick()
        async with ward.session() as session:  # so long that no lease outlasts it
            late = "update ferryman.watched_leases set reached_at = reached_at - interval '8 s' where domain = 'tasks'"
            await session.fetch(late)
    now = dog._tick_due
    back = await dog.tick()
    now += watchdog.LEASE.total_seconds()
    await grace_passes(ward, watchdog.LEASE)
    after = await dog.tick()

    assert (locked.withheld, locked.acted("reap"), locked.acted("turns")) == (("reap",), 0, 1)
    assert (back.withheld, back.acted("reap")) == (("reap",), 0)
    assert (after.withheld, after.acted("reap")) == ((), 1)


@pytest.mark.contract("K24", "W13")
async def test_a_look_that_stood_in_line_for_a_locked_table_asks_before_it_reaps(ward: Database, line: Line) -> None:
    """It is let in together with everybody who wants to renew."""
    await admit(ward, 1)
    await silent_for(ward, timedelta(0))
    dog = Watchdog(line, [REAP], clock=lambda: 1000.0)
    await dog.tick()
    await admit(ward, 1)
    async with ward.session() as session:
        await session.fetch("update ferryman.watched_leases set reached_at = clock_timestamp() - interval '8 s'")

    report = await dog.tick()  # before its next tick is due

    assert (report.withheld, report.acted()) == (("reap",), 0)


@pytest.mark.contract("K24")
async def test_a_moment_in_which_a_table_is_locked_is_no_outage(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await silent_for(ward, timedelta(0))
    now = 1000.0
    dog = Watchdog(line, [REAP], clock=lambda: now)
    async with ward.transaction() as other:
        await other.fetch("lock table ferryman.tasks in share mode")
        await dog.tick()
    now = dog._tick_due
    report = await dog.tick()

    assert (report.withheld, report.acted("reap")) == ((), 1)


@pytest.mark.contract("K24", "W13")
async def test_a_round_that_takes_long_is_no_outage(ward: Database, line: Line) -> None:
    """Else, where the machine is busy, each round would be followed by a grace, and nothing would ever be reaped."""
    await admit(ward, 1)
    await silent_for(ward, timedelta(0))
    now = 1000.0

    async def slow(_tx: Tx, _limit: int) -> Sequence[Row]:
        nonlocal now
        now += 1000
        async with ward.session() as session:
            await session.fetch("update ferryman.watchdog set ticked_at = ticked_at - interval '1000 s'")
            await session.fetch("update ferryman.watched_leases set reached_at = reached_at - interval '1000 s'")
        return ()

    last = replace(REAP, every=2 * HOUR)  # comes after those that must look sooner
    rules = [*(replace(HEAL, name=f"slow-{n}", find=slow) for n in range(3)), last]
    report = await Watchdog(line, rules, interval=timedelta(seconds=500), lease=2 * HOUR, clock=lambda: now).tick()

    assert [outcome.rule for outcome in report.outcomes] == ["slow-0", "slow-1", "slow-2", "reap"]
    assert (report.withheld, report.acted("reap")) == ((), 1)


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


@pytest.mark.contract("K24")
async def test_another_watchdog_keeps_to_the_grace_that_the_first_gave(ward: Database, database_url: str) -> None:
    await admit(ward, 1)
    await silent_for(ward, HOUR)
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(one, [REAP]).tick()
        report = await Watchdog(two, [REAP]).tick()

    assert report.withheld == ("reap",)


@pytest.mark.contract("K24")
async def test_reaping_goes_on_when_the_grace_is_over(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    await silent_for(ward, HOUR)
    now = 1000.0
    dog = Watchdog(line, [replace(REAP, every=HOUR)], clock=lambda: now)

    within = await dog.tick()
    now += watchdog.LEASE.total_seconds()  # and an hour before its time
    await grace_passes(ward, watchdog.LEASE)
    after = await dog.tick()

    assert (within.withheld, within.acted()) == (("reap",), 0)
    assert (after.withheld, after.acted()) == ((), 1)


@pytest.mark.contract("K24", "W13")
async def test_a_watchdog_that_slept_with_its_machine_asks_the_database_before_it_reaps(
    ward: Database, line: Line
) -> None:
    now = 1000.0
    dog = Watchdog(line, [REAP], clock=lambda: now)
    await silent_for(ward, timedelta(0))  # the database was made from one that may be old
    await dog.tick()
    await admit(ward, 1)
    await silent_for(ward, HOUR)  # by the database; the watchdog's own clock stood still

    asleep = await dog.tick()
    awake = await dog.tick()

    assert (asleep.withheld, asleep.acted()) == (("reap",), 0)
    assert (awake.withheld, awake.acted()) == (("reap",), 0)  # the grace has begun
    assert await watchdog.late(line) is None
    assert await healed(ward) == {1: 0}


@pytest.mark.contract("K24")
async def test_a_grace_that_another_watchdog_gave_is_kept_before_the_next_tick(ward: Database, line: Line) -> None:
    now = 1000.0
    dog = Watchdog(line, [REAP], clock=lambda: now)
    await silent_for(ward, timedelta(0))
    await dog.tick()
    await admit(ward, 1)
    await grace_for(ward, watchdog.LEASE)

    assert (await dog.tick()).withheld == ("reap",)


# How far ahead the last tick and the end of its grace may lie when a clock that went ahead is right again. The clock of a
# server cannot be set in a test.
AHEAD = {
    "a tick, and the grace that the jump gave": (HOUR, HOUR + watchdog.LEASE),
    "a tick": (HOUR, timedelta(0)),
    "a grace, and a tick of who does not shorten it": (timedelta(0), HOUR),
    "a little of both": (timedelta(seconds=10), watchdog.LEASE + timedelta(seconds=10)),
}


@pytest.mark.contract("K24", "K5")
@pytest.mark.parametrize(("ticked", "grace"), AHEAD.values(), ids=AHEAD)
async def test_a_clock_that_went_ahead_and_back_withholds_for_one_lease_at_most(
    ward: Database, line: Line, ticked: timedelta, grace: timedelta
) -> None:
    await admit(ward, 1)
    await silent_for(ward, -ticked)
    await grace_for(ward, grace)
    now = 1000.0
    dog = Watchdog(line, [replace(REAP, every=HOUR)], clock=lambda: now)

    within = await dog.tick()
    now += watchdog.LEASE.total_seconds()
    await grace_passes(ward, watchdog.LEASE)
    after = await dog.tick()

    assert (within.withheld, within.acted()) == (("reap",), 0)
    assert (after.withheld, after.acted()) == ((), 1)


@pytest.mark.contract("K24", "K5")
@pytest.mark.parametrize(("ticked", "grace"), AHEAD.values(), ids=AHEAD)
async def test_a_clock_that_is_set_back_under_a_watchdog_is_noticed_before_it_reaps_and_put_right_at_once(
    ward: Database, line: Line, ticked: timedelta, grace: timedelta
) -> None:
    now = 1000.0
    dog = Watchdog(line, [REAP], clock=lambda: now)
    await silent_for(ward, timedelta(0))
    await dog.tick()
    await admit(ward, 1)
    await silent_for(ward, -ticked)
    await grace_for(ward, grace)

    within = [await dog.tick(), await dog.tick()]  # before its next tick is due
    now += watchdog.LEASE.total_seconds()
    await grace_passes(ward, watchdog.LEASE)
    after = await dog.tick()

    assert [(each.withheld, each.acted()) for each in within] == [(("reap",), 0)] * 2
    assert (after.withheld, after.acted()) == ((), 1)


@pytest.mark.contract("K24")
async def test_a_grace_is_not_shortened_by_who_has_a_shorter_lease(ward: Database, database_url: str) -> None:
    """Who has the longer one is heard less often."""
    await admit(ward, 1)
    await silent_for(ward, HOUR)
    await somebody_works(ward, {"lease_seconds": 120})
    async with lines(database_url, 2) as [one, two]:
        await Watchdog(one, [REAP], lease=timedelta(seconds=120)).tick()
        await Watchdog(two, [REAP]).tick()
        await grace_passes(ward, timedelta(seconds=110))
        report = await Watchdog(two, [REAP]).tick()

    assert report.withheld == ("reap",)


@pytest.mark.contract("W23")
async def test_a_watchdog_that_is_late_is_an_alarm(ward: Database, line: Line) -> None:
    await Watchdog(line, []).tick()
    assert await watchdog.late(line) is None

    await silent_for(ward, timedelta(seconds=11))

    late = await watchdog.late(line)
    assert late is not None
    assert late > timedelta(seconds=10)


@pytest.mark.contract("W23", "K24")
async def test_a_tick_of_a_clock_that_was_set_back_hides_no_silence(ward: Database, line: Line) -> None:
    await silent_for(ward, -timedelta(seconds=9))
    little = await watchdog.late(line)
    await silent_for(ward, -HOUR)
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

    assert counted.transactions <= 1.6 * 60  # a tick every 2.5 s, a twelfth of the lease, is a transaction of its own


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
        "ferryman.watchdog",
        "ferryman.watched_leases",
    }


@pytest.mark.contract("W20")
@pytest.mark.parametrize(("every", "most"), [(SECOND, 1.0), (HOUR, 5.0)])
async def test_the_first_look_of_a_watchdog_that_runs_comes_in_the_second_half_of_its_period(
    ward: Database, line: Line, every: timedelta, most: float
) -> None:
    """Else a fleet that starts together would ask everything at the same moment."""
    await admit(ward, 1)
    dog = Watchdog(line, [replace(HEAL, every=every)], clock=lambda: 0.0)

    async with running(dog):
        while not dog._tick_due:  # noqa: ASYNC110 - until it has begun
            await asyncio.sleep(0.01)

        assert most / 2 <= min(look.due for look in dog._looks) <= most
        assert sum((await healed(ward)).values()) == 0
