"""Who fires: however many there are, once; one that cannot be fired alone; what stands in the code (T10, T11)."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Client, Ferryman
from ferryman.kernel import errors, invariants
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, spoken
from ferryman.tasks.rules import rhythm
from ferryman.tasks.states import ACTIVE, PAUSED
from ferryman.tasks.watch import SCHEDULE_INVARIANTS, TASK_INVARIANTS
from ferryman.tasks.work.due import BUSY_SECONDS, Sweep
from ferryman.tasks.work.scheduler import SET
from tests.patience import PATIENCE_SECONDS
from tests.sql.counted import Counted
from tests.tasks.clockwork import forward, many, report, scheduling
from tests.tasks.conftest import MakeApp

SECOND = timedelta(seconds=1)


COPY = """
insert into ferryman.tasks
select (jsonb_populate_record(task, jsonb_build_object('id', gen_random_uuid()))).*
from ferryman.tasks as task
"""


async def counted(db: Database) -> tuple[int, int]:
    """Return how many tasks were fired, and how many firings they stand for."""
    async with db.session() as tx:
        [row] = await tx.fetch(
            "select count(*) as tasks, count(distinct (schedule, fire_time)) as firings from ferryman.tasks"
            " where schedule is not null"
        )
    return row["tasks"], row["firings"]


async def broken(db: Database) -> list[str]:
    async with db.session() as tx:
        return [each.name for each in await invariants.check(tx, [*TASK_INVARIANTS, *SCHEDULE_INVARIANTS])]


@pytest.mark.contract("T11", "T9")
async def test_a_firing_makes_one_task_however_many_schedulers_run(db: Database, database_url: str) -> None:
    await many(db, 1000)

    async def fire() -> int:
        fired = 0
        async with scheduling(database_url) as (scheduler, _line):
            while True:
                count = await scheduler.once()
                fired += count
                async with db.session() as tx:
                    [row] = await tx.fetch(
                        "select count(*) as n from ferryman.schedules where next_run_at <= ferryman.clock()"
                    )
                if not count and not row["n"]:
                    return fired

    went_on = await asyncio.gather(*(fire() for _ in range(5)))

    assert sum(went_on) == 1000
    assert await counted(db) == (1000, 1000)
    assert await broken(db) == []


@pytest.mark.contract("T11", "K3")
async def test_the_database_itself_refuses_a_second_task_of_one_firing(db: Database, database_url: str) -> None:
    await many(db, 1)
    async with scheduling(database_url) as (scheduler, _line):
        await scheduler.once()
        async with db.session() as tx:
            await tx.fetch("update ferryman.schedules set next_run_at = (select fire_time from ferryman.tasks)")
        await scheduler.once()

        assert await counted(db) == (1, 1)
        with pytest.raises(errors.StatementRefused), spoken():
            async with db.session() as tx:
                await tx.fetch(COPY)


@pytest.mark.contract("T11", "P1")
async def test_a_set_of_schedules_fires_in_two_statements_of_one_transaction(db: Database, database_url: str) -> None:
    await many(db, 50)
    async with scheduling(database_url) as (scheduler, line):
        wire = Counted(line)
        scheduler._line = wire  # type: ignore[assignment]  # counts what goes over it

        assert await scheduler.once() == 50

    assert (wire.trips, wire.transactions) == (2, 1)


@pytest.mark.contract("P1", "K2")
async def test_schedules_that_are_not_due_cost_no_look_of_their_own(db: Database, database_url: str) -> None:
    await many(db, 3)
    async with db.session() as tx:
        await tx.fetch("update ferryman.schedules set next_run_at = ferryman.clock() + interval '40 s'")
    async with scheduling(database_url) as (scheduler, line):
        wire = Counted(line)
        sweep = Sweep(wire, NoDoorbell(), poll=60.0, scheduler=scheduler)  # type: ignore[arg-type]

        pause = await sweep.once()

        assert (wire.trips, wire.transactions) == (1, 0)
        assert pause == pytest.approx(40, abs=10)


@pytest.mark.contract("T10", "T9")
async def test_sets_are_bounded_and_the_sweep_goes_on_until_nothing_is_due(db: Database, database_url: str) -> None:
    await many(db, SET + 20)
    async with scheduling(database_url) as (scheduler, line):
        sweep = Sweep(line, NoDoorbell(), poll=1.0, scheduler=scheduler)

        assert await sweep.once() == 0.0
        assert (await counted(db))[0] == SET
        assert await sweep.once() == 0.0
        assert await sweep.once() > 0.0

    assert (await counted(db))[0] == SET + 20


@pytest.mark.contract("W23", "T10")
async def test_a_schedule_that_cannot_be_reckoned_here_stays_alone_and_is_overdue(
    db: Database, database_url: str
) -> None:
    await many(db, 3)
    async with db.session() as tx:
        await tx.fetch(
            "update ferryman.schedules set schedule_type = 'cron', interval_ms = null, cron_expr = '* * * * *',"
            " timezone = 'Mars/Base', next_run_at = next_run_at - interval '1 hour'"
            " where id = (select id from ferryman.schedules order by id limit 1)"
        )
    async with scheduling(database_url) as (scheduler, line):
        sweep = Sweep(line, NoDoorbell(), poll=1.0, scheduler=scheduler)

        assert await sweep.once() == 0.0
        assert await sweep.once() == 1.0

    assert await counted(db) == (2, 2)
    async with db.session() as tx:
        await tx.fetch("update ferryman.watchdog set grace_until = '-infinity'")
        rows = await tx.fetch("select domain, rule from ferryman.overdue")
    assert [(row["domain"], row["rule"]) for row in rows] == [("schedule", "T10")]


@pytest.mark.contract("W23", "T1", "T10")
async def test_a_schedule_that_cannot_be_reckoned_here_makes_nothing_else_late(
    make_app: MakeApp, db: Database, database_url: str
) -> None:
    await many(db, 2)
    app = await make_app(report)
    async with db.session() as tx:
        await tx.fetch("update ferryman.schedules set next_run_at = next_run_at + interval '50 s'")
        await tx.fetch(
            "update ferryman.schedules set schedule_type = 'cron', interval_ms = null, cron_expr = '* * * * *',"
            " timezone = 'Mars/Base', next_run_at = next_run_at - interval '1 hour'"
            " where id = (select id from ferryman.schedules order by id limit 1)"
        )
    async with scheduling(database_url) as (scheduler, line):
        sweep = Sweep(line, NoDoorbell(), poll=3600.0, scheduler=scheduler)

        assert await sweep.once() == pytest.approx(BUSY_SECONDS)
        assert await sweep.once() == pytest.approx(49, abs=10)
        await app.tasks.create(report, at=datetime.now(UTC) + 20 * SECOND)
        assert await sweep.once() == pytest.approx(20, abs=5)


@pytest.mark.contract("W23", "T10")
async def test_a_schedule_that_the_database_refuses_stays_alone(db: Database, database_url: str) -> None:
    await many(db, 9)
    async with db.session() as tx:
        await tx.fetch("alter table ferryman.tasks add constraint picky check (queue <> 'bad')")
        await tx.fetch(
            "update ferryman.schedules set queue = 'bad' where id = (select id from ferryman.schedules order by id limit 1)"
        )
    async with scheduling(database_url) as (scheduler, _line):
        while await scheduler.once():
            continue

    assert await counted(db) == (8, 8)


@pytest.mark.contract("K14", "K2", "T10")
@pytest.mark.parametrize("doorbell", ["postgres", "none"])
async def test_a_worker_fires_what_comes_due_and_runs_it(make_app: MakeApp, db: Database, doorbell: str) -> None:
    done = asyncio.Event()

    async def ring() -> None:
        done.set()

    app = await make_app(ring, doorbell=doorbell, worker={"poll": 0.1})
    async with app.worker():
        await app.schedules.create(ring, every=3600)
        await forward(db, timedelta(hours=1, seconds=1))
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)


# What stands in the code


def declaring(**options: Any) -> Callable[[Ferryman], None]:
    def declare(app: Ferryman) -> None:
        app.schedule(**options)(app.task(report))

    return declare


async def deployed(url: str, *declares: Callable[[Ferryman], None]) -> Ferryman:
    """Start and stop a worker of an app with these schedules; the app is still open."""
    app = Ferryman(url)
    for declare in declares:
        declare(app)
    await app.open()
    async with app.worker():
        pass
    return app


@pytest.mark.contract("T10", "T11")
async def test_a_declared_schedule_is_there_when_a_worker_has_started_and_survives_redeploys(
    database_url: str, db: Database
) -> None:
    first = await deployed(database_url, declaring(every="1h"))
    before = await first.schedules.record("report")
    await forward(db, timedelta(minutes=10))
    second = await deployed(database_url, declaring(every="1h"))

    after = await second.schedules.record("report")
    assert after == before
    assert len(await second.schedules.list()) == 1
    assert before.declared
    for app in (first, second):
        await app.close()


@pytest.mark.contract("T10")
async def test_a_changed_declaration_keeps_the_next_time_unless_its_rhythm_changed(
    database_url: str, db: Database
) -> None:
    apps = [await deployed(database_url, declaring(every="1h"))]
    before = await apps[0].schedules.record("report")
    await forward(db, timedelta(minutes=10))

    apps.append(await deployed(database_url, declaring(every="1h", overlap="skip", timeout=7)))
    same = await apps[0].schedules.record("report")
    assert (same.id, same.next_run_at, same.overlap, same.timeout_ms) == (before.id, before.next_run_at, "skip", 7000)
    apps.append(await deployed(database_url, declaring(cron="0 0 * * *")))
    other = await apps[0].schedules.record("report")
    assert (other.id, other.cron_expr, other.interval_ms, other.overlap) == (before.id, "0 0 * * *", None, "allow")
    assert other.next_run_at == (await apps[0].schedules.next("report", 1))[0] != before.next_run_at
    events = await apps[0].schedules.events("report")
    assert [event.data for event in events] == [None, '{"changed": true}', '{"changed": true}']
    for app in apps:
        await app.close()


@pytest.mark.contract("T10")
async def test_a_pause_survives_a_redeploy(database_url: str) -> None:
    first = await deployed(database_url, declaring(every="1h"))
    await first.schedules.pause("report")
    second = await deployed(database_url, declaring(every="2h"))

    record = await second.schedules.record("report")
    assert (record.state, record.next_run_at, record.interval_ms) == (PAUSED, None, 7_200_000)
    await second.schedules.resume("report")
    assert (await second.schedules.record("report")).state is ACTIVE
    for app in (first, second):
        await app.close()


@pytest.mark.contract("T10")
async def test_a_handler_may_have_several_schedules_by_name(database_url: str) -> None:
    app = Ferryman(database_url)

    @app.schedule({"day": "friday"}, cron="0 9 * * fri", timezone="Europe/Berlin", name="weekly")
    @app.schedule(daily="08:30")
    @app.task(queue="mail", max_retries=7)
    async def digest(day: str = "today") -> str:
        return day

    async with app:
        async with app.worker():
            pass
        found = {record.schedule_id: record for record in await app.schedules.list()}

    assert {name: record.cron_expr for name, record in found.items()} == {
        "weekly": "0 9 * * fri",
        "digest": "30 8 * * *",
    }
    assert {(record.name, record.queue, record.max_retries) for record in found.values()} == {("digest", "mail", 7)}
    assert found["weekly"].payload == '{"day": "friday"}'
    assert found["digest"].timezone == "UTC"


@pytest.mark.contract("T8", "K20")
def test_a_declaration_that_cannot_be_is_refused_where_it_stands() -> None:
    app = Ferryman("postgresql://nowhere")
    app.task(report)
    app.schedule(every=60)(report)

    with pytest.raises(errors.TaskInvalidSchedule, match="cron_expr"):
        app.schedule(cron="0 8 * *", name="b")(report)
    with pytest.raises(errors.HandlerInvalid, match="Two schedules are named report"):
        app.schedule(every=60)(report)
    with pytest.raises(errors.TaskInvalidPayload):
        app.schedule({"colour": 1}, every=60, name="c")(report)
    with pytest.raises(errors.TaskUnknownHandler, match=r"@app\.task"):
        app.schedule(every=60)(lambda: None)


@pytest.mark.contract("T10", "K15")
async def test_workers_that_start_together_declare_a_schedule_once(database_url: str) -> None:
    apps = await asyncio.gather(*(deployed(database_url, declaring(every="1h")) for _ in range(4)))

    assert len(await apps[0].schedules.list()) == 1
    for app in apps:
        await app.close()


@pytest.mark.contract("S2")
def test_plain_code_has_schedules_too(database_url: str) -> None:
    app = Ferryman(database_url)
    app.task(report)
    with Client(app) as client:
        made = client.schedules.create(report, every=60, schedule_id="mine", day="plain")
        again = client.schedules.accept(
            {"name": "report", "schedule_type": "every", "interval": "60s", "task_id": "mine"}
        )
        assert again.id == made.id
        assert [each.id for each in client.schedules.list()] == [made.id]
        assert client.schedules.get("mine").state is ACTIVE
        assert len(client.schedules.next("mine", 3)) == 3
        assert client.schedules.pause("mine", reason="why not")
        assert client.schedules.resume("mine")
        task = client.schedules.trigger("mine")
        assert [each.id for each in client.schedules.firings("mine")] == [task.id]
        assert client.schedules.delete("mine")


@pytest.mark.contract("T10")
def test_a_stored_time_that_new_rules_of_a_zone_no_longer_know_is_fired_all_the_same() -> None:
    when = rhythm.rhythm(
        cron_expr="0 8 * * *", timezone="Europe/Berlin", interval_ms=None, since=_at("2026-06-01T07:00Z")
    )

    plan = rhythm.plan(
        when, due=_at("2026-06-01T07:00Z"), now=_at("2026-06-01T07:01Z"), catch_up="latest", overlap="allow",
        ends_at=None, room=9,
    )  # fmt: skip

    assert plan.fire == [_at("2026-06-01T07:00Z")]
    assert plan.next_run_at == _at("2026-06-02T06:00Z")


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
