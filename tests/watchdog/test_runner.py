"""The runner on real PostgreSQL: what is found is acted on once, and nothing bad stops it."""

import asyncio
import logging
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import pytest

from ferryman.kernel import faults, telemetry, watchdog
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.patience import outlast
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Report, Rule, Watchdog
from tests.watchdog.ward import HEAL, admit, heal, healed, lines, running, signalled

pytestmark = pytest.mark.usefixtures("patient_transactions")


async def test_what_is_found_is_acted_on_and_counted(ward: Database, line: Line) -> None:
    await admit(ward, 3)
    before = telemetry.ACTIONS.of("heal")._value.get()

    report = await watchdog.tick(line, [HEAL])

    assert report.acted("heal") == 3
    assert await healed(ward) == {1: 1, 2: 1, 3: 1}
    assert telemetry.ACTIONS.of("heal")._value.get() == before + 3


@pytest.mark.contract("W23")
async def test_one_bad_row_does_not_stop_the_others(
    ward: Database, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    await admit(ward, 20, incurable=[7])

    with caplog.at_level(logging.ERROR, logger="ferryman.watchdog"):
        report = await watchdog.tick(line, [HEAL])

    assert (report.acted(), report.spoiled()) == (19, 1)
    assert await healed(ward) == {number: int(number != 7) for number in range(1, 21)}
    told = [record for record in caplog.records if record.name == "ferryman.watchdog"]
    assert [record.__dict__["finding"] for record in told] == ["7"]


@pytest.mark.contract("W23")
async def test_bad_rows_cannot_fill_the_set(ward: Database, line: Line) -> None:
    await admit(ward, 8, incurable=[1, 2, 3])
    dog = Watchdog(line, [replace(HEAL, limit=3, every=timedelta(0))])

    spoiled = [(await dog.tick()).spoiled() for _ in range(4)]

    assert [number for number, times in (await healed(ward)).items() if times] == [4, 5, 6, 7, 8]
    assert spoiled == [3, 0, 0, 0]


async def owned(ward: Database, count: int) -> Rule:
    """Admit patients that have owners, who are locked before anything is done; return the rule that does it."""
    await admit(ward, count)
    async with ward.session() as session:
        await session.fetch("create table owners (id bigint primary key)")
        await session.fetch("insert into owners select id from patients")

    async def heal_with_owner(tx: Tx, found: Sequence[Row]) -> int:
        await tx.fetch("select from owners where id = any($1) order by id for update", [row["id"] for row in found])
        return await heal(tx, found)

    return replace(HEAL, act=heal_with_owner, every=timedelta(0))


@pytest.mark.contract("W23", "W13")
@pytest.mark.parametrize("count", [64, 500])
async def test_a_finding_whose_owner_is_locked_does_not_stop_the_others(
    ward: Database, line: Line, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    rule = await owned(ward, count)
    now = 1000.0
    dog = Watchdog(line, [rule], clock=lambda: now)

    with caplog.at_level(logging.ERROR, logger="ferryman.watchdog"):
        async with ward.transaction() as other:
            await other.fetch("select from owners where id = 2 for update")
            locked = await dog.tick()
        now += 5.5  # the longest that it is left alone for, and the jitter of it
        free = await dog.tick()

    assert (locked.acted(), locked.spoiled()) == (count - 1, 0)
    assert free.acted() == 1
    assert [record for record in caplog.records if record.name == "ferryman.watchdog"] == []


@pytest.mark.contract("W23")
async def test_what_was_done_is_kept_when_halving_takes_long(ward: Database, line: Line) -> None:
    """Many are locked: each look gets on as far as half of its time reaches, and none is taken back."""
    rule = await owned(ward, 64)
    dog = Watchdog(line, [replace(rule, budget=timedelta(seconds=4))], clock=lambda: 1000.0)

    acted: list[int] = []
    async with ward.transaction() as other:
        await other.fetch("select from owners where id % 3 = 0 for update")
        while sum(acted) < 64 - 21 and len(acted) < 20:
            acted.append((await dog.tick()).acted())

    assert acted[0] > 0
    assert sum(acted) == 64 - 21


@pytest.mark.contract("W23", "W13")
async def test_what_is_busy_cannot_fill_the_set(ward: Database, line: Line) -> None:
    """An act that passes over what is locked is not told of it: it is found again, and others wait behind it."""
    await admit(ward, 8)

    async def find_unlocked(tx: Tx, limit: int) -> Sequence[Row]:
        return await tx.fetch("select id from patients where sick order by id limit $1", limit)

    async def heal_free(tx: Tx, found: Sequence[Row]) -> int:
        free = "select id from patients where id = any($1) and sick for update skip locked"
        return await heal(tx, await tx.fetch(free, [row["id"] for row in found]))

    now = 1000.0
    dog = Watchdog(
        line, [replace(HEAL, find=find_unlocked, act=heal_free, limit=3, every=timedelta(0))], clock=lambda: now
    )
    async with ward.transaction() as other:
        await other.fetch("select from patients where id <= 4 for update")
        for _ in range(6):
            await dog.tick()
        behind = await healed(ward)
    now += 5.5
    await dog.tick()

    assert [number for number, times in behind.items() if times] == [5, 6, 7, 8]
    assert set((await healed(ward)).values()) == {1}


@pytest.mark.contract("W23")
async def test_a_finding_that_hangs_is_put_aside(ward: Database, line: Line) -> None:
    begun = time.monotonic()
    await watchdog.tick(line, [HEAL])
    budget = timedelta(seconds=max(0.1, 10 * (time.monotonic() - begun)))  # what is no hanging on this machine now
    await admit(ward, 8)

    async def hang_at_two(tx: Tx, found: Sequence[Row]) -> int:
        if any(row["id"] == 2 for row in found):
            await tx.fetch("select pg_sleep(60)")
        return await heal(tx, found)

    rule = replace(HEAL, act=hang_at_two, every=timedelta(0), budget=budget)
    now = [0.0]
    dog = Watchdog(line, [rule], clock=lambda: now[0])
    for look in range(100):
        await dog.tick()
        if sum((await healed(ward)).values()) == 7:
            break
        if look % 10 == 9:  # on a busy machine others may use up their time too; they are tried again later
            now[0] += 600

    assert [number for number, times in (await healed(ward)).items() if not times] == [2]


@pytest.mark.contract("W23")
async def test_a_rule_that_fails_as_a_whole_does_not_stop_the_others(ward: Database, line: Line) -> None:
    await admit(ward, 2)

    async def find_nowhere(tx: Tx, limit: int) -> Sequence[Row]:
        return await tx.fetch("select $1::integer / 0", limit)

    broken = replace(HEAL, name="broken", find=find_nowhere)
    report = await Watchdog(line, [broken, HEAL]).tick()

    assert report.acted("heal") == 2
    with pytest.raises(Exception, match="division by zero"):
        await watchdog.tick(line, [broken])


RAISE = "do $$ begin raise exception 'no' using errcode = '{code}'; end $$"


@pytest.mark.contract("W23", "K24")
@pytest.mark.parametrize(
    ("code", "told", "counted"),
    [
        ("XX001", [("database", "ERROR"), ("watchdog", "ERROR")], 1),  # a damaged page
        ("58030", [("watchdog", "ERROR")], 1),  # a disk that fails
        ("55P03", [("watchdog", "WARNING")], 0),  # somebody holds it
        ("57014", [("watchdog", "WARNING")], 0),  # it took too long
    ],
)
async def test_a_look_that_fails_is_counted_unless_the_database_is_away_or_somebody_holds_what_is_looked_at(
    line: Line, caplog: pytest.LogCaptureFixture, code: str, told: list[tuple[str, str]], counted: int
) -> None:
    async def find_badly(tx: Tx, _limit: int) -> Sequence[Row]:
        return await tx.fetch(RAISE.format(code=code))

    before = telemetry.SPOILED.of("bad")._value.get()

    with caplog.at_level(logging.WARNING, logger="ferryman"):
        await Watchdog(line, [replace(HEAL, name="bad", find=find_badly)]).tick()

    said = [(record.name.removeprefix("ferryman."), record.levelname) for record in caplog.records]
    assert said == told
    assert telemetry.SPOILED.of("bad")._value.get() == before + counted


@pytest.mark.contract("W23", "K10")
async def test_what_shared_a_transaction_with_a_rule_that_failed_is_done_again_before_it_is_told(
    ward: Database, line: Line
) -> None:
    looks: list[int] = []

    async def make(tx: Tx, _limit: int) -> Sequence[Row]:
        looks.append(1)
        await tx.fetch("create table if not exists made (id bigint)")
        return ()

    async def find_nowhere(tx: Tx, limit: int) -> Sequence[Row]:
        return await tx.fetch("select $1::integer / 0", limit)

    maker = replace(HEAL, name="maker", find=make)
    report = await Watchdog(line, [maker, replace(HEAL, name="broken", find=find_nowhere), HEAL]).tick()

    assert [outcome.rule for outcome in report.outcomes] == ["maker", "heal"]
    assert len(looks) == 2
    async with ward.session() as session:
        assert (await session.fetch("select to_regclass('made') as found"))[0]["found"] is not None


async def test_a_rule_that_only_counts_does_nothing_about_what_it_finds(ward: Database, line: Line) -> None:
    await admit(ward, 2)
    counts = Rule(name="count", finds="the sick", does="counts them", setting="s", every=HEAL.every, find=HEAL.find)

    report = await watchdog.tick(line, [counts])

    assert (report.acted(), await healed(ward)) == (0, {1: 0, 2: 0})


async def test_two_watchdogs_act_on_each_finding_once(ward: Database, database_url: str) -> None:
    await admit(ward, 10)
    gate = faults.Gate()
    async with lines(database_url, 2) as [one, two]:
        with faults.armed({"watchdog.found": gate}):
            first = asyncio.create_task(watchdog.tick(one, [replace(HEAL, limit=4)]))
            await gate.reached.wait()
        second: Report = await watchdog.tick(two, [HEAL])
        gate.open()
        report: Report = await first

    assert (report.acted(), second.acted()) == (4, 6)
    assert set((await healed(ward)).values()) == {1}


async def test_a_full_set_is_looked_for_again_at_once(ward: Database, line: Line) -> None:
    await admit(ward, 7)
    dog = Watchdog(line, [replace(HEAL, limit=2)], clock=lambda: 1000.0)

    acted = []
    while dog.due <= 1000.0:  # no time passes
        acted.append((await dog.tick()).acted())

    assert acted == [2, 2, 2, 1]
    assert set((await healed(ward)).values()) == {1}


async def test_what_is_found_and_never_helped_is_not_looked_for_for_ever(ward: Database, line: Line) -> None:
    await admit(ward, 5)

    async def look_away(_tx: Tx, _found: Sequence[Row]) -> int:
        return 0

    report = await watchdog.tick(line, [replace(HEAL, act=look_away, limit=2)])

    assert [outcome.found for outcome in report.outcomes] == [2]


async def test_nobody_is_told_before_the_commit(ward: Database, line: Line) -> None:
    await admit(ward, 1)
    told: list[int] = []
    rule = replace(HEAL, after=lambda done: told.extend(row["id"] for row in done), every=timedelta(0))
    dog = Watchdog(line, [rule])

    with faults.armed("watchdog.acted=raise@1"):
        await dog.tick()
        assert (told, await healed(ward)) == ([], {1: 0})
        await dog.tick()

    assert (told, await healed(ward)) == ([1], {1: 1})


async def test_a_setting_of_zero_switches_a_rule_off_unless_nothing_else_ends_the_state(line: Line) -> None:
    only = replace(HEAL, name="only", setting="ward.only_seconds", only_bound=True)
    off = {"ward.heal_seconds": 0.0, "ward.only_seconds": -1.0}

    assert [rule.name for rule in Watchdog(line, [HEAL, only], settings=off).rules] == ["only"]


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="heal"):
        watchdog.active([HEAL, HEAL], {})


async def test_the_database_goes_away_and_comes_back(
    ward: Database, database_url: str, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = urlsplit(database_url)
    name = place.path.removeprefix("/")
    rule, enough = signalled(replace(HEAL, every=timedelta(milliseconds=20)), 2)
    away = asyncio.Event()
    monkeypatch.setattr(watchdog.log, "warning", lambda *_said, **_ids: away.set())
    async with lines(urlunsplit(place._replace(path="/postgres"))) as [admin], running(Watchdog(line, [rule])):
        await admit(ward, 1)
        await admin.fetch(f"alter database {name} allow_connections false")
        await admin.fetch("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
        await asyncio.wait_for(away.wait(), timeout=60)
        await admin.fetch(f"alter database {name} allow_connections true")
        # Its pool may still hold a connection that was ended.
        await outlast(lambda: admit(ward, 1), within=timedelta(seconds=60))
        await asyncio.wait_for(enough.wait(), timeout=60)

    assert set((await healed(ward)).values()) == {1}


class Finding(dict[str, int]):
    """A finding that tells when nobody holds it any more."""


async def test_what_was_found_is_not_held_until_the_next_look(line: Line) -> None:
    held: list[weakref.ref[Finding]] = []

    async def find(_tx: Tx, _limit: int) -> Sequence[Finding]:
        found = [Finding(id=1)]
        held.extend(map(weakref.ref, found))
        return found

    async def act(_tx: Tx, found: Sequence[Finding]) -> int:
        return len(found)

    dog = Watchdog(line, [replace(HEAL, find=find, act=act)])

    assert (await dog.tick()).acted("heal") == 1
    assert [each() for each in held] == [None]
