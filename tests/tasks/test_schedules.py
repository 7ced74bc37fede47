"""Schedules: how they fire, and what they do about what they missed (T8, T10, T11)."""

from datetime import datetime, time, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.app.schedules import Schedule
from ferryman.kernel.pool import Database
from ferryman.tasks.model import ScheduleRecord
from tests.tasks.clockwork import DAY, HOUR, MINUTE, REQUEST, fire, forward, report, states, times, to
from tests.tasks.conftest import MakeApp


@pytest.mark.contract("T8", "T12", "T15")
async def test_the_request_of_the_source_makes_a_schedule_and_is_answered_like_every_create(
    make_app: MakeApp, db: Database
) -> None:
    app = await make_app((report, {"default": True}))
    asked = {**REQUEST, "payload": {}}

    made, again = await app.accept(asked), await app.accept(asked)

    assert isinstance(made, Schedule)
    assert isinstance(again, Schedule)
    answer = made.answer()
    assert (answer["idempotent_hit"], again.answer()["idempotent_hit"]) == (False, True)
    task = answer["task"]
    assert {name: task[name] for name in asked if name in task} == {
        name: value for name, value in asked.items() if name != "payload"
    }
    assert task["state"] == "active"
    assert {"attempt", "last_error_code", "last_error_reason", "started_at", "finished_at", "created_at"} <= set(task)
    assert again.id == made.id
    async with db.session() as tx:
        [row] = await tx.fetch("select count(*) as rows from ferryman.schedules")
    assert row["rows"] == 1


@pytest.mark.contract("T8", "T10")
async def test_each_firing_is_a_task_with_the_schedules_payload_and_terms(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(
        report, cron="0 8 * * *", timezone="Europe/Berlin", timeout=7, max_retries=1, priority=2, day="monday"
    )
    due = made.schedule.next_run_at
    assert due is not None
    await to(db, due + timedelta(seconds=2))

    assert await fire(database_url) == 1

    [firing] = await made.firings()
    task = await app.tasks.record(firing.id)
    assert (task.name, task.payload, task.timeout_ms, task.max_retries, task.priority) == (
        "report", '{"day": "monday"}', 7000, 1, 2,
    )  # fmt: skip
    assert (task.state, task.schedule_type, task.scheduled_at, firing.fire_time) == ("ready", "cron", due, due)
    now = await made.refresh()
    assert (now.last_run_at, now.fired, now.missed, now.skipped) == (due, 1, 0, 0)
    assert now.next_run_at == due + DAY or now.next_run_at == due + DAY + HOUR or now.next_run_at == due + DAY - HOUR
    assert await fire(database_url) == 0


@pytest.mark.contract("T8")
@pytest.mark.parametrize(
    ("said", "expr"),
    [(None, "0 0 * * *"), ("08:30", "30 8 * * *"), ("7:05", "5 7 * * *"), (time(23, 59), "59 23 * * *")],
)
async def test_daily_becomes_cron(make_app: MakeApp, said: Any, expr: str) -> None:
    app = await make_app((report, {"default": True}))

    made = await app.schedules.accept({"schedule_type": "daily", "time_of_day": said, "timezone": "Asia/Tokyo"})

    assert (made.schedule.schedule_type, made.schedule.cron_expr, made.schedule.timezone) == (
        "daily",
        expr,
        "Asia/Tokyo",
    )


@pytest.mark.contract("T8", "T10")
async def test_an_interval_does_not_drift(make_app: MakeApp, db: Database, database_url: str) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every="90s")
    first = made.schedule.next_run_at
    assert first is not None
    assert first - made.schedule.created_at == pytest.approx(timedelta(seconds=90), abs=timedelta(seconds=5))

    await to(db, first + timedelta(seconds=7))
    await fire(database_url)

    assert (await made.refresh()).next_run_at == first + timedelta(seconds=90)
    assert await times(db) == [first]


async def missed(
    app: Ferryman, db: Database, url: str, **options: Any
) -> tuple[ScheduleRecord, list[datetime], datetime]:
    """Let an hourly schedule sleep through five firings; return what it is then, what was fired, and the first time."""
    made = await app.schedules.create(report, cron="0 * * * *", **options)
    first = made.schedule.next_run_at
    assert first is not None
    await to(db, first + 4 * HOUR + timedelta(minutes=30))
    await fire(url)
    return await made.refresh(), await times(db), first


@pytest.mark.contract("T10")
@pytest.mark.parametrize(
    ("catch_up", "hours", "lost"), [(None, [4], 4), ("latest", [4], 4), ("all", [0, 1, 2, 3, 4], 0), ("none", [], 5)]
)
async def test_what_was_missed_is_made_up_for_as_asked(
    make_app: MakeApp, db: Database, database_url: str, catch_up: str | None, hours: list[int], lost: int
) -> None:
    app = await make_app(report)

    record, fired, first = await missed(app, db, database_url, catch_up=catch_up)

    assert fired == [first + n * HOUR for n in hours]
    assert (record.fired, record.missed, record.next_run_at) == (len(hours), lost, first + 5 * HOUR)


@pytest.mark.contract("T10")
async def test_catching_up_on_all_is_bounded_and_takes_the_newest(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every=60, catch_up="all")
    first = made.schedule.next_run_at
    assert first is not None
    await to(db, first + 3000 * MINUTE)

    await fire(database_url)

    fired = await times(db)
    assert (len(fired), fired[-1]) == (1000, first + 3000 * MINUTE)
    assert (await made.refresh()).fired == 1000


@pytest.mark.contract("T10")
async def test_without_catching_up_a_firing_that_is_hardly_late_is_not_lost(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *", catch_up="none")
    due = made.schedule.next_run_at
    assert due is not None
    await to(db, due + timedelta(seconds=30))

    await fire(database_url)

    assert await times(db) == [due]


@pytest.mark.contract("T10")
@pytest.mark.parametrize(
    ("overlap", "after", "skipped"),
    [("allow", ["ready", "ready"], 0), ("skip", ["ready"], 1), ("cancel_previous", ["cancelled", "ready"], 0)],
)
async def test_a_task_that_is_still_live_meets_the_next_firing_as_asked(
    make_app: MakeApp, db: Database, database_url: str, overlap: str, after: list[str], skipped: int
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every=60, overlap=overlap)
    for _ in range(2):
        await forward(db, timedelta(seconds=61))
        await fire(database_url)

    assert await states(db) == after
    assert (await made.refresh()).skipped == skipped


@pytest.mark.contract("T10")
async def test_a_firing_that_makes_no_task_cancels_none(make_app: MakeApp, db: Database, database_url: str) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every=3600, overlap="cancel_previous", catch_up="none")
    await forward(db, timedelta(seconds=3601))
    await fire(database_url)

    await forward(db, timedelta(seconds=3600 + 1800))  # too late for it, and it is not to be made up for
    await fire(database_url)

    assert (await made.refresh()).missed == 1
    assert await states(db) == ["ready"]


@pytest.mark.contract("T10")
async def test_what_has_ended_does_not_hold_up_the_next_firing(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every=60, overlap="skip")
    for _ in range(2):
        await forward(db, timedelta(seconds=61))
        await fire(database_url)
        for firing in await made.firings():
            await app.tasks.cancel(firing.id)

    assert await states(db) == ["cancelled", "cancelled"]


@pytest.mark.contract("T10")
@pytest.mark.parametrize("overlap", ["skip", "cancel_previous"])
async def test_of_missed_firings_that_would_overlap_only_the_newest_is_made_up_for(
    make_app: MakeApp, db: Database, database_url: str, overlap: str
) -> None:
    app = await make_app(report)

    record, fired, first = await missed(app, db, database_url, catch_up="all", overlap=overlap)

    assert fired == [first + 4 * HOUR]
    assert (record.fired, record.skipped) == (1, 4)
