"""What nobody else ends, the watchdog ends (W13, T21, T7, K9)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors, invariants, telemetry, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.invariants import KERNEL_INVARIANTS
from ferryman.kernel.pool import Database, Line
from ferryman.tasks import store, watch
from ferryman.tasks.model import Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, TASK
from ferryman.testing import plant, state_of, travel
from tests.patience import PATIENCE_SECONDS
from tests.sql.moves import EPOCH, OWNER, outcome, turn
from tests.tasks.conftest import MakeApp

SECOND = timedelta(seconds=1)


def rules(doorbell: Any = None) -> list[watchdog.Rule]:
    return watch.rules(Owners(), doorbell or NoDoorbell(), sweep=SECOND, interval=SECOND)


async def sound(db: Database) -> None:
    async with db.session() as tx:
        assert await invariants.check(tx, (*KERNEL_INVARIANTS, *watch.TASK_INVARIANTS)) == []


@pytest.mark.contract("W13", "T5", "T6")
async def test_a_lost_lease_returns_the_task_at_once_with_an_attempt_used(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, backoff={"kind": "fixed", "base_seconds": 3600})
        await travel(tx, timedelta(seconds=31))

        await watchdog.tick(tx, rules())

        [row] = await tx.fetch("select * from ferryman.tasks where id = $1", task)
        [event] = await tx.fetch("select * from ferryman.events where subject = $1", task)
    assert (row["state"], row["attempt"], row["wake_at"]) == (READY, 2, None)
    assert (row["last_error_code"], row["last_error_reason"]) == ("TASK_TIMEOUT", "lease_expired")
    assert (event["reason_code"], event["reason_message"], event["attempt"]) == ("TASK_TIMEOUT", "lease_expired", 1)
    await sound(db)


@pytest.mark.contract("W13", "W23")
async def test_lapsed_tasks_that_a_stranger_holds_keep_no_others_waiting(db: Database, database_url: str) -> None:
    async with db.transaction() as tx:
        held = [await plant(tx, TASK, RUNNING, leased_until=-SECOND * 60) for _ in range(4)]
        behind = [await plant(tx, TASK, RUNNING, leased_until=-SECOND * 30) for _ in range(3)]
        await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp()")
    line, now = Line(database_url, settings=watchdog.SETTINGS), 1000.0
    [sweep] = [replace(rule, limit=3) for rule in rules() if rule.reaps]
    dog = watchdog.Watchdog(line, [sweep], lease=SECOND * 3600, clock=lambda: now)
    async with db.transaction() as stranger:
        await stranger.fetch("select from ferryman.tasks where id = any($1) for update", held)
        for _ in range(5):
            await dog.tick()
            now += 1
        async with db.transaction() as tx:
            states = [await state_of(tx, each) for each in behind]
    now += 6  # what was busy is tried again within seconds
    await dog.tick()
    await line.close()

    assert states == [READY] * 3
    async with db.transaction() as tx:
        assert [await state_of(tx, each) for each in held] == [READY] * 4


@pytest.mark.contract("W13", "R3")
async def test_a_look_knows_of_the_lease_that_ends_before_the_next_one(db: Database) -> None:
    [sweep] = [rule for rule in watch.rules(Owners(), NoDoorbell(), sweep=SECOND * 60, interval=SECOND) if rule.reaps]
    assert sweep.soon is not None
    async with db.transaction() as tx:
        await plant(tx, TASK, RUNNING, leased_until=SECOND * 61)  # its holder lives, and has renewed it
        assert (await sweep.find(tx, 10), sweep.soon()) == ([], None)
        await plant(tx, TASK, RUNNING, leased_until=SECOND * 40)
        await plant(tx, TASK, RUNNING, leased_until=SECOND * 20)
        over = await plant(tx, TASK, RUNNING, leased_until=-SECOND)

        found = await sweep.find(tx, 10)

        assert [row["id"] for row in found] == [over]
        assert sweep.soon() == pytest.approx(20, abs=5)
        await travel(tx, SECOND * 3600)
        assert (len(await sweep.find(tx, 10)), sweep.soon()) == (4, None)


@pytest.mark.contract("W13", "T5")
async def test_what_a_dead_worker_held_keeps_its_place_in_the_line(db: Database) -> None:
    async with db.transaction() as tx:
        lost = await plant(tx, TASK, RUNNING, leased_until=-SECOND, due_at=-SECOND * 60, priority=2)
        await plant(tx, TASK, READY, due_at=-SECOND * 30, rank=-SECOND * 30 + SECOND * 120, priority=2)

        await watchdog.tick(tx, rules())

        line = await tx.fetch("select id, rank - due_at as aged from ferryman.tasks order by rank")
    assert (line[0]["id"], line[0]["aged"]) == (lost, SECOND * 120)


@pytest.mark.contract("T5")
async def test_a_try_that_failed_goes_to_the_end_of_the_line(db: Database) -> None:
    async with db.transaction() as tx:
        tried = await plant(tx, TASK, RUNNING, epoch=EPOCH, lease_owner=OWNER, due_at=-SECOND * 60)
        waits = await plant(tx, TASK, READY, due_at=-SECOND * 30, rank=-SECOND * 30)

        await turn(tx, outcome(tried, READY))

        line = await tx.fetch("select id from ferryman.tasks order by rank")
    assert [row["id"] for row in line] == [waits, tried]


@pytest.mark.contract("T5")
@pytest.mark.parametrize("settles", ["turn", "settle", "reclaim"])
async def test_what_is_handed_back_keeps_its_place_in_the_line(db: Database, settles: str) -> None:
    async with db.transaction() as tx:
        back = await plant(tx, TASK, RUNNING, epoch=EPOCH, lease_owner=OWNER, due_at=-SECOND * 60)
        waits = await plant(tx, TASK, READY, due_at=-SECOND * 30, rank=-SECOND * 30)

        match settles:
            case "turn":
                await turn(tx, Outcome(back, EPOCH, OWNER, READY))
            case "settle":
                await store.settle(tx, [Outcome(back, EPOCH, OWNER, READY)], lapsed=False)
            case _:
                await store.reclaim(tx, owner=OWNER, held=[])

        line = await tx.fetch("select id from ferryman.tasks order by rank")
    assert [row["id"] for row in line] == [back, waits]


@pytest.mark.contract("W13")
async def test_a_lease_that_holds_is_left_alone(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING)
        await travel(tx, timedelta(seconds=15))

        await watchdog.tick(tx, rules())

        assert await state_of(tx, task) == RUNNING


@pytest.mark.contract("W13", "T6", "T5")
async def test_a_timeout_whose_worker_is_gone_backs_off_like_any_other(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(
            tx, TASK, RUNNING, timeout_ms=1000, started_at=-SECOND * 10, leased_until=-SECOND,
            backoff={"kind": "fixed", "base_seconds": 3600},
        )  # fmt: skip

        await watchdog.tick(tx, rules())

        [row] = await tx.fetch("select * from ferryman.tasks where id = $1", task)
    assert (row["state"], row["rank"], row["last_error_reason"]) == (READY, None, "start_to_close timeout")
    assert row["wake_at"] - row["updated_at"] >= timedelta(seconds=3600)


@pytest.mark.contract("W13", "T4", "T7", "K9")
async def test_a_task_whose_workers_always_die_ends_at_its_cap(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, attempt=4, max_retries=3, leased_until=-SECOND)

        await watchdog.tick(tx, rules())

        [row] = await tx.fetch("select * from ferryman.tasks where id = $1", task)
    assert (row["state"], row["attempt"]) == (FAILED, 4)
    assert (row["last_error_code"], row["last_error_reason"]) == ("TASK_RETRY_EXHAUSTED", "TASK_TIMEOUT: lease_expired")


@pytest.mark.contract("W13", "K4")
async def test_two_watchdogs_act_once(db: Database, database_url: str) -> None:
    async with db.transaction() as tx:
        for n in range(200):
            await plant(tx, TASK, RUNNING, leased_until=-SECOND, max_retries=n % 2)
    lines = [Line(database_url) for _ in range(2)]

    reports = await asyncio.gather(*(watchdog.tick(line, rules()) for line in lines))

    for line in lines:
        await line.close()
    assert sum(report.acted("W13") for report in reports) == 200
    async with db.session() as tx:
        [row] = await tx.fetch("select count(*) as events, count(distinct subject) as tasks from ferryman.events")
    assert (row["events"], row["tasks"]) == (200, 200)


@pytest.mark.contract("W13", "K5", "K17")
async def test_what_a_dead_worker_held_runs_again_elsewhere(make_app: MakeApp) -> None:
    async def mail() -> str:
        return "sent"

    app = await make_app(mail, worker={"lease_sweep_seconds": 0.1})
    async with app.database.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, name="mail", leased_until=-SECOND)
        # Another watchdog has just ticked: there was no outage, after which the living would be heard first.
        await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp()")

    async with app.worker():
        end = await asyncio.wait_for(app.tasks.end(task), PATIENCE_SECONDS)

    assert (end.state, end.attempt) == ("succeeded", 2)


@pytest.mark.contract("W13", "K25", "W23")
async def test_a_backoff_that_cannot_be_read_does_not_keep_a_task_for_ever(db: Database) -> None:
    async with db.transaction() as tx:
        bad = await plant(
            tx, TASK, RUNNING, leased_until=-SECOND, timeout_ms=1, started_at=-SECOND * 9, backoff={"kind": "?"}
        )
        good = await plant(tx, TASK, RUNNING, leased_until=-SECOND)

        report = await watchdog.tick(tx, rules())

        assert report.spoiled() == 0
        assert [await state_of(tx, task) for task in (bad, good)] == [READY, READY]


@pytest.mark.contract("T21")
@pytest.mark.parametrize("state", [PENDING, READY])
async def test_what_still_waits_at_its_end_is_cancelled_as_expired(db: Database, state: Any) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, state, ends_at=timedelta(minutes=59))
        await travel(tx, timedelta(minutes=58))
        await watchdog.tick(tx, rules())
        assert await state_of(tx, task) == state
        await travel(tx, timedelta(minutes=2))

        await watchdog.tick(tx, rules())

        [event] = await tx.fetch("select * from ferryman.events where subject = $1", task)
        assert await state_of(tx, task) == CANCELLED
    assert (event["from_state"], event["to_state"], event["reason_code"]) == (state, "cancelled", "TASK_EXPIRED")


@pytest.mark.contract("T21")
async def test_a_running_task_is_not_cut_short_by_its_end(db: Database) -> None:
    async with db.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, ends_at=-SECOND)

        await watchdog.tick(tx, rules())

        assert await state_of(tx, task) == RUNNING


@pytest.mark.contract("T21")
async def test_the_end_is_thirty_days_after_the_due_time_unless_given(make_app: MakeApp) -> None:
    async def mail() -> None: ...

    app = await make_app(mail)
    due = datetime.now(UTC) + timedelta(days=3)

    plain = await app.tasks.create(mail)
    later = await app.tasks.create(mail, at=due)
    given = await app.tasks.create(mail, ends_at=due)

    assert plain.task.ends_at - plain.task.created_at == timedelta(days=30)
    assert later.task.ends_at - due == timedelta(days=30)
    assert given.task.ends_at == due


@pytest.mark.contract("T21", "T18")
async def test_whoever_waits_for_an_expired_task_is_told(make_app: MakeApp) -> None:
    async def mail() -> None: ...

    app: Ferryman = await make_app((mail, {"queue": "unserved"}), worker={"watchdog_interval_seconds": 0.1})
    handle = await app.tasks.create(mail)
    async with app.database.session() as tx:
        await travel(tx, timedelta(days=31))

    async with app.worker():
        with pytest.raises(errors.TaskExpired):
            await handle.result(timeout=PATIENCE_SECONDS)


@pytest.mark.contract("K19", "P13")
async def test_a_count_that_was_broken_off_is_not_begun_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    async def depth(_tx: Any, *, most: int) -> list[Any]:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0.01)
        raise TimeoutError

    monkeypatch.setattr(store, "depth", depth)
    count = watch._Counts()

    with pytest.raises(TimeoutError):
        await count(None, 1)  # type: ignore[arg-type]
    assert await count(None, 1) == ()  # type: ignore[arg-type]
    assert begun == 1


@pytest.mark.contract("K19", "P13")
async def test_who_begins_counts_a_large_backlog_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waiting = 0.0, 0
    asked: list[int] = []
    told: list[tuple[float, int]] = []

    async def depth(_tx: Any, *, most: int) -> list[Any]:
        asked.append(most)
        return [{"queue": "default", "state": "ready", "count": min(most, waiting)}]

    def tell(_kind: str, rows: Sequence[tuple[str, str, int]]) -> None:
        told.append((now, rows[0][2]))

    monkeypatch.setattr(store, "depth", depth)
    monkeypatch.setattr(telemetry, "depth", tell)
    count = watch._Counts(lambda: now)
    for now, waiting in ((0.0, 7), (1.0, 50_000), (watch.GLANCE_SECONDS, 50_000)):  # noqa: B007 - they are read above
        await count(None, 1)  # type: ignore[arg-type]

    assert asked == [watch.GLANCE, watch.GLANCE, watch.WHOLE]
    assert told == [(0.0, 7), (watch.GLANCE_SECONDS, 50_000)]  # no half a truth between
