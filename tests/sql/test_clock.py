"""All SQL asks one function for the time (K14)."""

import asyncio
import re
from datetime import timedelta
from importlib import resources
from pathlib import Path

import pytest

from ferryman.kernel.pool import Database
from ferryman.testing.clock import travel

SOURCE = Path(str(resources.files("ferryman")))
OTHER_CLOCKS = re.compile(
    r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(\s*\)"
    r"|\b(?:current_timestamp|current_date|current_time|localtime|localtimestamp)\b|'now'",
    re.IGNORECASE,
)
COMMENT = re.compile(r"--.*")

SILENCE = "how long no watchdog has ticked is wall time: a test that moves the clock is no outage"
IDS = "an id is made of the time on its maker's wall, here as in Python"
DAYS = "days of the log are days of the wall: what was written lies in the day in which it was written"
# What may look at the wall, and why: a file, and the word that its line holds.
ALLOWED: dict[tuple[str, str], str] = {
    ("app/sql/doctor/grace.sql", "clock_timestamp()"): SILENCE,
    ("kernel/sql/watchdog/tick.sql", "clock_timestamp()"): SILENCE,
    ("kernel/sql/watchdog/late.sql", "clock_timestamp()"): SILENCE,
    ("kernel/sql/watchdog/outage.sql", "clock_timestamp()"): SILENCE,
    (
        "kernel/sql/watchdog/still.sql",
        "state_change < clock_timestamp()",
    ): "since when a backend reads, by the server's clock",
    ("migrations/0003_overdue.sql", "grace_until < clock_timestamp()"): SILENCE,
    ("migrations/0004_schedules.sql", "grace_until < clock_timestamp()"): SILENCE,
    ("migrations/0010_bounds.sql", "grace_until < clock_timestamp()"): SILENCE,
    ("migrations/0008_explain.sql", "clock_timestamp()"): SILENCE,
    ("migrations/0007_create_tasks.sql", "extract(epoch from clock_timestamp())"): IDS,
    ("migrations/0007_create_tasks.sql", "'now'"): "the name of a key, and under it the one clock",
    ("migrations/0011_keys.sql", "'now'"): "the name of a key, and under it the one clock",
    ("migrations/0024_explain_rest.sql", "ticked_at < clock_timestamp()"): SILENCE,
    ("migrations/0024_explain_rest.sql", "grace_until > clock_timestamp()"): SILENCE,
    ("migrations/0042_grace_ends.sql", "clock_timestamp()"): SILENCE,
    ("migrations/0043_watched_leases.sql", "clock_timestamp()"): SILENCE,
    ("migrations/0046_one_grace.sql", "clock_timestamp()"): SILENCE,
    ("migrations/0047_counts_read_committed.sql", "'now'"): "the name of a key, and under it the one clock",
    ("kernel/sql/open_transactions/older.sql", "clock_timestamp()"): "the age of a transaction, by the server's clock",
    ("migrations/0025_days.sql", "today date :="): DAYS,
    ("migrations/0025_days.sql", "cutoff timestamptz :="): DAYS,
    ("migrations/0025_days.sql", "perform ferryman.make_day("): DAYS,
    ("agents/sql/retention/walk.sql", "clock_timestamp()"): IDS,
    ("tasks/sql/retention/walk.sql", "clock_timestamp()"): IDS,
    ("relays/sql/relays/standings.sql", "clock_timestamp() - next.logged_at"): DAYS,
    ("migrations/0001_kernel.sql", "ticked_at timestamptz"): SILENCE,
    ("migrations/0001_kernel.sql", "return clock_timestamp() + (select shift"): "the one function itself",
    ("migrations/0040_clock_unmoved.sql", "return clock_timestamp()"): "the one function itself",
    ("migrations/0001_kernel.sql", "logged_at timestamptz"): DAYS,
    ("migrations/0001_kernel.sql", "today date :="): DAYS,
    ("migrations/0001_kernel.sql", "cutoff timestamptz :="): DAYS,
    (
        "migrations/0001_kernel.sql",
        "updated_at timestamptz",
    ): "when a reader or a setting was first written; nothing compares it",
}


def other_clocks() -> list[tuple[str, str]]:
    return [
        (file.relative_to(SOURCE).as_posix(), line.strip())
        for file in sorted(SOURCE.rglob("*.sql"))
        for line in COMMENT.sub("", file.read_text(encoding="utf-8")).splitlines()
        if OTHER_CLOCKS.search(line)
    ]


def allowed(name: str, line: str) -> list[tuple[str, str]]:
    return [(file, word) for file, word in ALLOWED if file == name and word in line]


@pytest.mark.contract("K14")
def test_no_shipped_statement_asks_another_clock() -> None:
    assert [(name, line) for name, line in other_clocks() if not allowed(name, line)] == []


def test_every_exception_is_still_needed() -> None:
    assert {each for name, line in other_clocks() for each in allowed(name, line)} == set(ALLOWED)


@pytest.mark.contract("K14")
async def test_sessions_that_have_asked_before_see_the_time_move(db: Database) -> None:
    async with db.session() as here, db.session() as there:
        asked = "select ferryman.clock() - clock_timestamp() > interval '59 minutes' as moved"
        before = [(await tx.fetch(asked))[0]["moved"] for tx in (here, there) for _ in range(6)]

        await travel(here, timedelta(hours=1))

        assert before == [False] * 12
        assert [(await tx.fetch(asked))[0]["moved"] for tx in (here, there)] == [True, True]


@pytest.mark.contract("K14", "K5")
@pytest.mark.parametrize("moved", [False, True])
async def test_the_clock_goes_on_inside_a_transaction(db: Database, moved: bool) -> None:
    """Who holds a transaction open compares deadlines with the time that it is, and not with that of its beginning."""
    if moved:
        async with db.session() as tx:
            await travel(tx, timedelta(hours=1))
    async with db.transaction() as tx:
        told = [(await tx.fetch("select ferryman.clock() as now"))[0]["now"] for _ in range(3)]

    assert told == sorted(set(told))


@pytest.mark.contract("K14")
async def test_two_who_move_a_clock_for_the_first_time_take_turns(db: Database) -> None:
    async def move() -> None:
        async with db.transaction() as tx:
            await travel(tx, timedelta(hours=1))

    await asyncio.gather(*(move() for _ in range(4)))

    async with db.session() as tx:
        [row] = await tx.fetch("select round(extract(epoch from ferryman.clock() - clock_timestamp()) / 3600) as hours")
    assert row["hours"] == 4


@pytest.mark.contract("K14")
async def test_a_clock_that_nobody_has_moved_reads_no_table(db: Database) -> None:
    async with db.session() as tx:
        source = "select prosrc like '%clock_shift%' as reads from pg_proc where oid = 'ferryman.clock()'::regprocedure"
        [unmoved] = await tx.fetch(source)
        await travel(tx, timedelta(seconds=1))
        [moved] = await tx.fetch(source)

    assert (unmoved["reads"], moved["reads"]) == (False, True)
