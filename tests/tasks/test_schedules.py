"""Schedules: what is asked of them, how they fire, and what they do about what they missed (T8, T10, T11)."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.app.schedules import Schedule
from ferryman.kernel import errors
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks.model import ScheduleRecord
from ferryman.tasks.states import ACTIVE, ENDED, PAUSED
from ferryman.tasks.work.scheduler import Scheduler
from ferryman.testing import travel
from tests.tasks.conftest import MakeApp

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REQUEST: dict[str, Any] = {
    "task_id": "nightly",
    "schedule_type": "cron",
    "cron_expr": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "timeout_ms": 30000,
    "max_retries": 2,
    "idempotency_key": "order_1001",
    "idempotency_scope": "tenant_a",
    "payload": {"channel": "dingtalk", "request_id": "req-1"},
}


async def report(day: str = "today") -> str:
    return day


async def fire(url: str) -> int:
    """Fire all that is due."""
    line = Line(url)
    scheduler = Scheduler(line, NoDoorbell(), ends_after=DAY)
    fired = 0
    while count := await scheduler.once():
        fired += count
    await line.close()
    return fired


async def forward(db: Database, by: timedelta) -> None:
    async with db.session() as tx:
        await travel(tx, by)


async def to(db: Database, moment: datetime) -> None:
    """Move the clock to a moment."""
    async with db.session() as tx:
        [row] = await tx.fetch("select ferryman.clock() as now")
        await travel(tx, moment - row["now"])


async def times(db: Database) -> list[datetime]:
    async with db.session() as tx:
        rows = await tx.fetch("select fire_time from ferryman.tasks where schedule is not null order by fire_time")
    return [row["fire_time"] for row in rows]


async def states(db: Database) -> list[str]:
    async with db.session() as tx:
        rows = await tx.fetch("select state from ferryman.tasks where schedule is not null order by fire_time")
    return [row["state"] for row in rows]


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


@pytest.mark.contract("T10")
async def test_a_paused_schedule_rests_and_a_resumed_one_makes_up_for_nothing(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 * * * *", catch_up="all")

    assert await made.pause(reason="too loud")
    assert not await made.pause()
    await forward(db, 5 * HOUR)
    assert await fire(database_url) == 0
    assert ((await made.refresh()).state, made.schedule.next_run_at) == (PAUSED, None)
    assert len(await made.next(3)) == 3
    assert await made.resume()
    assert not await made.resume()

    assert await fire(database_url) == 0
    assert (await made.refresh()).state is ACTIVE
    [due] = await made.next(1)
    assert due == made.schedule.next_run_at
    await to(db, due)
    assert await fire(database_url) == 1
    assert await times(db) == [due]


@pytest.mark.contract("T10")
async def test_a_schedule_is_triggered_now_without_losing_its_next_time(make_app: MakeApp, db: Database) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 0 1 1 *", day="new year")
    due = made.schedule.next_run_at

    async with app.worker():
        task = await made.trigger()
        assert await task.result(timeout=20) == "new year"
    await made.pause()
    await made.trigger()

    record = await made.refresh()
    assert (record.fired, record.next_run_at) == (2, None)
    await made.resume()
    assert (await made.refresh()).next_run_at == due


@pytest.mark.contract("T10")
async def test_a_trigger_keeps_to_the_schedules_overlap(make_app: MakeApp, db: Database) -> None:
    app = await make_app(report)
    careful = await app.schedules.create(report, every=3600, overlap="skip")
    first = await careful.trigger()

    with pytest.raises(errors.ScheduleBusy):
        await careful.trigger()
    await first.cancel()
    await careful.trigger()

    eager = await app.schedules.create(report, every=3600, overlap="cancel_previous")
    before = await eager.trigger()
    await eager.trigger()
    assert (await before.refresh()).state == "cancelled"
    assert ((await careful.refresh()).fired, (await careful.refresh()).skipped) == (2, 0)


@pytest.mark.contract("T10", "K3")
async def test_a_deleted_schedule_fires_no_more_and_frees_its_name(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, every=60, schedule_id="mine")
    assert await made.delete(reason="done with it")
    assert not await made.delete()
    await forward(db, DAY)

    assert await fire(database_url) == 0
    assert (await made.refresh()).state is ENDED
    with pytest.raises(errors.InvalidTransition) as refused:
        await made.resume()
    assert refused.value.code == "SCHEDULE_INVALID_TRANSITION"
    with pytest.raises(errors.InvalidTransition):
        await made.pause()
    with pytest.raises(errors.InvalidTransition):
        await made.trigger()
    again = await app.schedules.create(report, every=60, schedule_id="mine")
    assert again.id != made.id
    assert (await app.schedules.get("mine")).id == again.id
    told = [(event.from_state, event.to_state, event.reason_message) for event in await app.schedules.events(made.id)]
    assert told == [(None, "active", None), ("active", "ended", "done with it")]


@pytest.mark.contract("T10")
async def test_a_schedule_ends_by_itself_when_no_firing_is_to_come(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    async with db.session() as tx:
        [row] = await tx.fetch("select ferryman.clock() as now")
    made = await app.schedules.create(report, every=60, ends_at=row["now"] + timedelta(seconds=150), catch_up="all")
    assert len(await made.next(10)) == 2
    await forward(db, HOUR)

    await fire(database_url)

    record = await made.refresh()
    assert (record.state, record.next_run_at, record.fired) == (ENDED, None, 2)
    assert await made.next() == []


@pytest.mark.contract("T10")
async def test_the_next_firings_can_be_listed(make_app: MakeApp) -> None:
    app = await make_app(report)
    made = await app.schedules.create(report, cron="0 12 * * mon", timezone="Asia/Tokyo")

    following = await made.next(3)

    assert [(each.isoweekday(), each.hour) for each in following] == [(1, 3)] * 3
    assert following[0] == made.schedule.next_run_at
    assert following[2] - following[0] == 2 * 7 * DAY


@pytest.mark.contract("T12")
async def test_the_same_key_answers_with_the_schedule_or_names_what_differs(make_app: MakeApp) -> None:
    app = await make_app((report, {"default": True}))
    asked = {**REQUEST, "payload": {}}
    made = await app.accept(asked)

    silent = {
        name: asked[name] for name in ("idempotency_key", "idempotency_scope", "schedule_type", "cron_expr", "timezone")
    }
    assert (await app.schedules.accept({**silent, "payload": {"day": "other"}})).id == made.id
    for change in (
        {"cron_expr": "31 2 * * *"}, {"timezone": "UTC"}, {"timeout_ms": 1}, {"max_retries": 9},
    ):  # fmt: skip
        with pytest.raises(errors.TaskDuplicate) as conflict:
            await app.accept({**asked, **change})
        assert conflict.value.details["conflict_fields"] == list(change)
        assert conflict.value.details["existing"]["task_id"] == "nightly"
    with pytest.raises(errors.TaskDuplicate) as other:
        await app.accept({"task_id": "nightly", "schedule_type": "every", "interval": 60})
    assert "schedule_type" in other.value.details["conflict_fields"]
    await app.accept({**asked, "cron_expr": "30  2 * * *"})


@pytest.mark.contract("K12")
async def test_no_tenant_sees_or_moves_the_schedules_of_another(make_app: MakeApp) -> None:
    mine, theirs = await make_app(report, tenant="a"), await make_app(report, tenant="b")
    made = await mine.schedules.create(report, every=60, schedule_id="s", idempotency_key="k")

    assert await theirs.schedules.list() == []
    for ask in (theirs.schedules.get, theirs.schedules.pause, theirs.schedules.trigger, theirs.schedules.delete):
        with pytest.raises(errors.ScheduleNotFound):
            await ask(made.id)
    same = await theirs.schedules.create(report, every=60, schedule_id="s", idempotency_key="k")
    assert not same.idempotent_hit


@pytest.mark.contract("K12")
async def test_inside_a_handler_schedules_are_those_of_its_tenant(make_app: MakeApp) -> None:
    apps: list[Ferryman] = []

    async def arrange() -> str:
        made = await apps[0].schedules.create("arrange", every=3600, schedule_id="mine")
        return made.schedule.tenant

    apps.append(await make_app(arrange))
    async with apps[0].worker():
        task = await apps[0].tasks.of("acme").create(arrange)
        assert await task.result(timeout=20) == "acme"

    assert await apps[0].schedules.list() == []
    made = await apps[0].schedules.of("acme").get("mine")
    assert await made.pause()
    assert (await made.trigger()).task.tenant == "acme"


BAD: Sequence[tuple[dict[str, Any], str]] = [
    ({"schedule_type": "cron"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 0 30 2 *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": 5, "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "\ud800 * * * *", "timezone": "UTC"}, "cron_expr"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "Mars/Base"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "America"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "../../etc/passwd"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "localtime"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "right/UTC"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "+02:00"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "\x00"}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": ""}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": 2}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "x" * 1000}, "timezone"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "interval": 5}, "interval"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "scheduled_at": "2030-01-01T00:00:00Z"},
     "scheduled_at"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "catch_up": "some"}, "catch_up"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "overlap": ["skip"]}, "overlap"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "ends_at": "2030-01-01T00:00:00"}, "ends_at"),
    ({"schedule_type": "cron", "cron_expr": "0 8 * * *", "timezone": "UTC", "ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
    ({"schedule_type": "daily"}, "timezone"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": "24:00"}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": "8h"}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "time_of_day": 8}, "time_of_day"),
    ({"schedule_type": "daily", "timezone": "UTC", "cron_expr": "0 8 * * *"}, "cron_expr"),
    ({"schedule_type": "every"}, "interval"),
    ({"schedule_type": "every", "interval": 0}, "interval"),
    ({"schedule_type": "every", "interval": -5}, "interval"),
    ({"schedule_type": "every", "interval": 0.5}, "interval"),
    ({"schedule_type": "every", "interval": 1e12}, "interval"),
    ({"schedule_type": "every", "interval": float("nan")}, "interval"),
    ({"schedule_type": "every", "interval": float("inf")}, "interval"),
    ({"schedule_type": "every", "interval": "soon"}, "interval"),
    ({"schedule_type": "every", "interval": True}, "interval"),
    ({"schedule_type": "every", "interval": 1.0001}, "interval"),
    ({"schedule_type": "every", "interval": 60, "timezone": "UTC"}, "timezone"),
    ({"schedule_type": "weekly"}, "schedule_type"),
    ({"schedule_type": ["cron"]}, "schedule_type"),
    ({"schedule_type": "CRON", "cron_expr": "0 8 * * *", "timezone": "UTC"}, "cron_expr"),
    ({"cron_expr": "0 8 * * *"}, "cron_expr"),
]  # fmt: skip


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(("asked", "field"), BAD, ids=lambda each: ascii(each)[:80])
async def test_a_schedule_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    make_app: MakeApp, db: Database, asked: dict[str, Any], field: str
) -> None:
    app = await make_app((report, {"default": True}))

    with pytest.raises(errors.TaskInvalidSchedule) as refused:
        await app.accept(asked)

    assert refused.value.code == "TASK_INVALID_SCHEDULE"
    assert refused.value.details["field"] == field
    assert str(refused.value).startswith(f"{field}: ")
    async with db.session() as tx:
        [row] = await tx.fetch(
            "select (select count(*) from ferryman.schedules) + (select count(*) from ferryman.tasks) as n"
        )
    assert row["n"] == 0


@pytest.mark.contract("T8", "K20")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queue": "a b"}, "queue"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"colour": 1}, "colour"),
        ({"task_id": ""}, "task_id"),
    ],
)
async def test_the_fields_that_a_schedule_shares_with_a_task_are_checked_alike(
    make_app: MakeApp, asked: dict[str, Any], field: str
) -> None:
    app = await make_app((report, {"default": True}))

    with pytest.raises(errors.TaskInvalidRequest) as refused:
        await app.accept({"schedule_type": "every", "interval": 60, **asked})

    assert refused.value.details["field"] == field


@pytest.mark.contract("T8")
@pytest.mark.parametrize("kinds", [{}, {"cron": "0 8 * * *", "every": 60}])
async def test_python_says_one_rhythm(make_app: MakeApp, kinds: dict[str, Any]) -> None:
    app = await make_app(report)

    with pytest.raises(errors.TaskInvalidSchedule, match="one of cron, daily and every"):
        await app.schedules.create(report, **kinds)


@pytest.mark.contract("T16")
async def test_a_payload_that_does_not_fit_is_refused_when_the_schedule_is_made(make_app: MakeApp) -> None:
    app = await make_app(report)

    with pytest.raises(errors.TaskInvalidPayload):
        await app.schedules.create(report, every=60, colour="red")
