"""The clock is set, ahead or back, under schedules (T10, T11, K14).

A schedule has a next time and no memory of the clock: it is due when the clock has come there, and then when it has come to the
time after that. So a clock that goes back fires nothing twice, and what lies behind one that goes ahead was missed.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from ferryman.app.doctor import work
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from tests.patience import PATIENCE_SECONDS
from tests.tasks.clockwork import HOUR, MINUTE, fire, forward, report, times, to
from tests.tasks.conftest import MakeApp


@pytest.fixture
async def noon(db: Database) -> datetime:
    """A full hour, whose half has come; no grace hides what is late."""
    async with db.session() as tx:
        await tx.fetch("update ferryman.watchdog set grace_until = '-infinity'")
        [row] = await tx.fetch("select date_trunc('hour', ferryman.clock()) as hour")
    await to(db, row["hour"] + 30 * MINUTE)
    hour: datetime = row["hour"]
    return hour


async def late(db: Database) -> list[str]:
    """Return what the doctor says of schedules that nobody fires, and what is broken."""
    async with db.session() as tx:
        [reading] = await work.overdue(tx)
        broken = await invariants.check(tx, [*TASK_INVARIANTS, *SCHEDULE_INVARIANTS])
    return [reading.says] * (reading.verdict != "good") + [each.name for each in broken]


@pytest.mark.contract("T10", "T11", "K14")
@pytest.mark.parametrize("by", [2 * MINUTE, HOUR, timedelta(days=40)], ids=str)
async def test_a_schedule_fires_when_a_clock_that_was_set_back_has_come_to_its_next_time_again(
    make_app: MakeApp, db: Database, database_url: str, noon: datetime, by: timedelta
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *", catch_up="all")
    await to(db, noon + HOUR)
    fired = [await fire(database_url)]

    await forward(db, -by)
    for moment in (noon + HOUR - by, noon + HOUR, noon + 2 * HOUR - MINUTE, noon + 2 * HOUR, noon + 2 * HOUR):
        await to(db, moment)
        fired.append(await fire(database_url))
        assert await late(db) == []

    assert fired == [1, 0, 0, 0, 1, 0]
    assert await times(db) == [noon + HOUR, noon + 2 * HOUR]
    record = await made.refresh()
    assert (record.fired, record.missed, record.skipped) == (2, 0, 0)
    assert record.next_run_at == noon + 3 * HOUR


@pytest.mark.contract("T10", "T11", "K14")
@pytest.mark.parametrize(
    ("catch_up", "hours", "missed"), [("latest", [5], 4), ("all", [1, 2, 3, 4, 5], 0), ("none", [], 5)]
)
async def test_what_lies_behind_a_clock_that_was_set_ahead_is_made_up_for_once_though_it_is_set_right_again(
    make_app: MakeApp, db: Database, database_url: str, noon: datetime, catch_up: str, hours: Sequence[int], missed: int
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *", catch_up=catch_up)

    await forward(db, 5 * HOUR)
    found = [await late(db), [await fire(database_url), await fire(database_url)]]
    await forward(db, -5 * HOUR)  # it was wrong
    for hour in range(1, 6):
        await to(db, noon + hour * HOUR)
        found.append([await fire(database_url), await late(db)])
    record = await made.refresh()
    await to(db, noon + 6 * HOUR)
    await fire(database_url)

    assert found == [["Past the time by which a rule ends them: 1 of schedule (T10)."], [1, 0], *[[0, []]] * 5]
    assert (record.fired, record.missed, record.next_run_at) == (len(hours), missed, noon + 6 * HOUR)
    assert await times(db) == [noon + hour * HOUR for hour in (*hours, 6)]
    assert await late(db) == []


@pytest.mark.contract("T10", "T11", "K14")
async def test_a_time_that_was_fired_before_the_clock_was_set_back_is_not_fired_again_by_a_schedule_that_is_resumed(
    make_app: MakeApp, db: Database, database_url: str, noon: datetime
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *")
    await to(db, noon + HOUR)
    await fire(database_url)
    await forward(db, -HOUR / 2)
    await made.pause()
    await made.resume()  # its next time is reckoned anew, by the clock
    again = (await made.refresh()).next_run_at

    for hour in (1, 2):
        await to(db, noon + hour * HOUR)
        await fire(database_url)

    assert again == noon + HOUR
    assert await times(db) == [noon + HOUR, noon + 2 * HOUR]
    record = await made.refresh()
    assert (record.fired, record.skipped) == (2, 1)
    assert await late(db) == []


@pytest.mark.contract("T10", "K14")
async def test_what_nobody_fires_is_late_by_the_clock_as_it_is_now(
    make_app: MakeApp, db: Database, noon: datetime
) -> None:
    app = await make_app(report)
    await app.schedules.create(report, cron="0 * * * *")

    said = []
    for by in (HOUR, -HOUR, HOUR):
        await forward(db, by)
        said.append(await late(db))

    overdue = ["Past the time by which a rule ends them: 1 of schedule (T10)."]
    assert said == [overdue, [], overdue]


@pytest.mark.contract("T10", "K14")
async def test_a_task_that_was_fired_before_the_clock_was_set_back_runs(
    make_app: MakeApp, db: Database, database_url: str, noon: datetime
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *", day="a day too early")
    await forward(db, timedelta(days=1))
    await fire(database_url)
    await forward(db, timedelta(days=-1))

    async with app.worker():
        [firing] = await made.firings()
        assert await (await app.tasks.get(firing.task_id)).result(timeout=PATIENCE_SECONDS) == "a day too early"

    assert await late(db) == []
