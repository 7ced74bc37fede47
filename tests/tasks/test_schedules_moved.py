"""Schedules are paused, resumed, triggered, ended and looked at (T10)."""

from datetime import timedelta

import pytest

from ferryman.kernel import errors
from ferryman.kernel.pool import Database
from ferryman.tasks.states import ACTIVE, ENDED, PAUSED
from tests.patience import PATIENCE_SECONDS
from tests.tasks.clockwork import DAY, HOUR, fire, forward, report, times, to
from tests.tasks.conftest import MakeApp


@pytest.mark.contract("T10")
async def test_a_paused_schedule_rests_and_a_resumed_one_makes_up_for_nothing(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    app = await make_app(report)
    async with db.session() as tx:
        [row] = await tx.fetch("select date_trunc('hour', ferryman.clock()) + interval '90 minutes' as half_past")
    await to(db, row["half_past"])  # far from any firing
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
        assert await task.result(timeout=PATIENCE_SECONDS) == "new year"
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
