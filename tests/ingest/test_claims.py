"""Claims: leased, fair, bounded; what nobody holds comes back or ends (I5, W15)."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from ferryman.ingest.ports import Written
from ferryman.ingest.store import batches, tasks
from ferryman.ingest.store.batches import Birth
from ferryman.kernel import errors, telemetry
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Cargo, Harbour, Server, harbour, only


async def lines(here: Harbour, **hours: int) -> None:
    """Put so many tasks into the line of each operation."""
    for operation, count in hours.items():
        await here.plan(operation=operation, since=DAWN, until=DAWN + count * HOUR, campaign=f"c-{operation}-{count}")


@pytest.mark.contract("I5", "I2")
async def test_claims_go_round_and_prefer_the_harvest(database_url: str) -> None:
    async with harbour(database_url) as here:
        await lines(here, BACKFILL=9)
        await lines(here, UPDATE=5)
        await lines(here, HARVEST=5)
        ship = here.ship(partition=4)

        order = [only(await ship.claim()).operation for _ in range(9)]

        assert order == ["HARVEST", "UPDATE", "BACKFILL"] * 3
        assert Counter(task.operation for task in await ship.claim(50)) == {"HARVEST": 1, "UPDATE": 1, "BACKFILL": 1}
        assert not await ship.claim(50)  # each partition has its four
        await here.sound()


@pytest.mark.contract("I5")
async def test_who_has_waited_long_comes_before_who_is_dear(database_url: str) -> None:
    async with harbour(database_url) as here:
        await lines(here, BACKFILL=1)
        await here.travel(timedelta(minutes=79))
        await lines(here, HARVEST=1)
        first = only(await here.ship().claim()).operation
        assert first == "HARVEST"
        await lines(here, BACKFILL=2)
        await here.travel(timedelta(minutes=90))
        await here.plan(since=DAWN + 5 * HOUR, until=DAWN + 6 * HOUR, expression="late")

        assert only(await here.ship(partition=2).claim()).operation == "BACKFILL"


@pytest.mark.contract("I5", "I13")
async def test_many_executors_take_each_task_once(database_url: str) -> None:
    async with harbour(database_url, Server().fill(600)) as here:
        await here.plan(since=DAWN, until=DAWN + 10 * HOUR)
        ships = [here.ship(partition=3) for _ in range(5)]

        most = 0
        for _ in range(4):
            sets = await asyncio.gather(*(ship.claim(10) for ship in ships))
            most = max(most, sum(len(each) for each in sets))
            for ship, tasks in zip(ships, sets, strict=True):
                for task in tasks:
                    await ship.settle(await ship.runner.run(task))

        assert most == 3  # over all executors
        assert await here.fetch("select distinct attempt, epoch from ferryman.ingest_task") == [(1, 1)]
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert len(await here.sunk()) == 600
        await here.sound()


async def queued(here: Harbour, *tenants: str) -> None:
    """Put two tasks into the line of each of these tenants."""
    for tenant in tenants:
        await here.app.ingest.of(tenant).plan(SOURCE, since=DAWN, until=DAWN + 2 * HOUR)


@pytest.mark.contract("I5", "K12")
async def test_lines_of_an_endpoint_that_nobody_here_knows_keep_no_other_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SOURCES_MAX", 2)
    async with harbour(database_url) as here:
        await queued(here, "anna", "bert", "cora")
        await here.fetch(
            "update ferryman.ingest_task set endpoint = 'elsewhere' where tenant in ('anna', 'bert') returning id"
        )

        assert {task.tenant for task in await here.ship().claim(8)} == {"cora"}


@pytest.mark.contract("I5", "K12")
async def test_lines_whose_slots_are_all_taken_keep_no_other_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SOURCES_MAX", 2)
    async with harbour(database_url) as here:
        await queued(here, "anna", "bert")
        ship = here.ship(partition=1)
        assert sorted(task.tenant for task in await ship.claim(8)) == ["anna", "bert"]
        await queued(here, "cora")

        # Which lines a look stands before is chance: of three it misses one in three looks.
        found = [task.tenant for _ in range(100) for task in await ship.claim(8)]

        assert found == ["cora"]


@pytest.mark.contract("I5", "W15", "K5")
async def test_a_lease_is_renewed_by_its_owner_and_lost_without(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        await lines(here, HARVEST=1)
        ship, other = here.ship(), here.ship()
        [task] = await ship.claim()
        row = "select lease_count, status, leased_until > ferryman.clock() + interval '50 s' from ferryman.ingest_task"
        await here.travel(timedelta(seconds=40))
        assert await other.crew.renew(other.line, [task.id], [task.epoch]) == {}
        assert await ship.crew.renew(ship.line, [task.id], [task.epoch + 1]) == {}
        assert await ship.crew.renew(ship.line, [task.id], [task.epoch]) == {task.id: True}
        assert await here.fetch(row) == [(2, "DISPATCHED", True)]
        await here.travel(timedelta(seconds=30))
        assert (await here.tick()).acted("W15") == 0
        await here.travel(timedelta(seconds=31))

        assert (await here.tick()).acted("W15") == 1
        assert (await here.tick()).acted("W15") == 0

        assert await here.fetch("select status, error_code, lease_owner, attempt from ferryman.ingest_task") == [
            ("QUEUED", "INGEST_LEASE_LOST", None, 1)
        ]
        assert await here.fetch("select status, started_at from ferryman.ingest_run") == [("FAILED", None)]
        assert await ship.crew.renew(ship.line, [task.id], [task.epoch]) == {}
        assert await ship.runner.run(task) is None
        await here.sound()


@pytest.mark.contract("W15", "K21")
async def test_a_lease_that_is_longer_than_a_budget_does_not_outlast_it(database_url: str) -> None:
    async with harbour(database_url) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR, budget={"seconds": 10})
        [_task] = await here.ship(lease=HOUR).claim()
        await here.travel(timedelta(minutes=10, seconds=10 + 5 + 1))

        assert (await here.tick()).acted("W15") == 1


@pytest.mark.contract("W15", "W23")
async def test_lapsed_tasks_that_a_stranger_holds_keep_no_others_waiting(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        await lines(here, HARVEST=4)
        assert len(await here.ship().claim(4)) == 4
        await here.travel(timedelta(seconds=61))
        for [free] in await here.fetch("select id from ferryman.ingest_task"):
            async with here.app.database.transaction() as stranger, here.app.database.transaction() as tx:
                await stranger.fetch("select from ferryman.ingest_task where id <> $1 for update", free)

                assert [row["id"] for row in await tasks.lapsed(tx, 1)] == [free]


@pytest.mark.contract("W15", "K21")
async def test_a_batch_that_hangs_is_taken_from_a_living_executor(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        [task] = await ship.claim()
        await tasks.execute(ship.line, task, owner=ship.owner)
        birth = Birth(task.run_id, 1, "start", "k", "{}")
        await batches.begin(ship.line, task, birth, owner=ship.owner, patience=timedelta(minutes=10))
        for _ in range(11):
            await here.travel(timedelta(seconds=55))
            await ship.crew.renew(ship.line, [task.id], [task.epoch])

        assert (await here.tick()).acted("W15") == 1
        assert await here.states("batch") == ["FAILED"]
        assert await here.states("task") == ["QUEUED"]
        assert await here.fetch("select * from ferryman.overdue") == []
        await here.sound()


@pytest.mark.contract("I5", "K9")
async def test_a_task_that_kills_every_executor_is_stuck(database_url: str) -> None:
    async with harbour(database_url, settings={"max_claims": 3}) as here:
        await lines(here, HARVEST=1)
        for claims in range(1, 4):
            assert len(await here.ship().claim()) == 1, claims
            await here.travel(timedelta(seconds=61))
            await here.tick()

        assert await here.fetch("select status, error_code, epoch from ferryman.ingest_task") == [
            ("FAILED", "INGEST_STUCK", 3)
        ]
        assert await here.ship().claim() == ()
        await here.sound()


@pytest.mark.contract("I5", "K19")
async def test_a_task_that_is_leased_again_and_again_is_told_of(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with harbour(database_url) as here:
        await lines(here, HARVEST=2)
        ship = here.ship()
        [task] = await ship.claim()
        await here.fetch("update ferryman.ingest_task set lease_count = 250 where id = $1 returning id", task.id)
        await here.tick()

        assert "a task of depot was leased 250 times" in caplog.text
        depth = {
            status: telemetry.registry().get_sample_value(
                "ferryman_queue_depth", {"domain": "ingest", "queue": SOURCE, "state": status}
            )
            for status in ("QUEUED", "DISPATCHED")
        }
        assert depth == {"QUEUED": 1.0, "DISPATCHED": 1.0}


@pytest.mark.contract("K17", "I5")
async def test_what_is_handed_back_counts_for_nothing(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60), settings={"max_claims": 1}) as here:
        await lines(here, HARVEST=1)
        ship = here.ship()
        for _ in range(3):
            [task] = await ship.claim()
            await ship.settle(ship.runner.hand_back(task))
        [lost] = await ship.claim()
        assert await ship.crew.reclaim(ship.line, [lost.id]) == 0
        assert await ship.crew.reclaim(ship.line, []) == 1

        await ship.work()
        assert await here.fetch("select status, attempt, forgiven from ferryman.ingest_task") == [("SUCCEEDED", 5, 4)]
        assert await here.fetch("select distinct status from ferryman.ingest_run where attempt < 5") == [("CANCELLED",)]
        await here.sound()


@pytest.mark.contract("K21", "W21", "I3", "I5")
async def test_everything_live_is_bounded_and_ends_without_any_executor(database_url: str) -> None:
    async with harbour(database_url, settings={"queued_max": 2}) as here:
        await lines(here, HARVEST=4)
        [_held] = await here.ship().claim()
        bounds = await here.fetch(
            "select domain, rule, count(*) from ferryman.bounds where domain like 'ingest%' group by 1, 2"
        )
        assert sorted(bounds) == [
            ("ingest_run", "W15", 1),
            ("ingest_slice", "I3", 2),
            ("ingest_task", "I5", 1),
            ("ingest_task", "W15", 1),
        ]
        live = "select count(*) from ferryman.bounds where domain like 'ingest%' and terminal_by is null"
        assert await here.fetch(live) == [(0,)]
        await here.travel(timedelta(days=31))
        for _ in range(3):
            await here.tick()

        assert await here.fetch("select * from ferryman.bounds where domain like 'ingest%'") == []
        assert sorted(await here.states("task")) == ["CANCELLED", "CANCELLED"]
        assert sorted(await here.states("slice")) == ["FAILED", "FAILED", "READY", "READY"]
        codes = await here.fetch("select distinct error_code from ferryman.ingest_task")
        assert codes == [(errors.IngestExpired.code,)]


@pytest.mark.contract("I16")
async def test_status_tells_how_far_a_plan_is(database_url: str) -> None:
    async with harbour(database_url, Server().fill(240)) as here:
        planned = await here.plan(since=DAWN, until=DAWN + 4 * HOUR)
        before = only(await here.app.ingest.status(planned.id))
        await here.ship().work(1)
        during = only(await here.app.ingest.status(planned.id))
        await here.ship().work()
        after = only(await here.app.ingest.status(source=SOURCE))

        assert (before.share, before.over, before.rate, before.ends_in) == (0.0, False, 0.0, None)
        assert (during.share, during.slices_done, during.items, during.requests) == (0.25, 1, 60, 6)
        assert during.ends_in is not None
        assert during.rate
        assert (after.share, after.over, after.items, after.ends_in) == (1.0, True, 240, None)
        assert after.as_json()["tasks"] == {"SUCCEEDED": 4}


@pytest.mark.contract("I6")
async def test_a_sink_elsewhere_sees_every_page_and_no_transaction(database_url: str) -> None:
    class Elsewhere(Cargo):
        same_database = False

        def __init__(self) -> None:
            self.seen: list[tuple[Any, str, int]] = []

        async def write(self, tx: Any, items: Any, *, batch_key: str) -> Any:
            self.seen.append((tx, batch_key, len(items)))
            return Written(len(items))

    sink = Elsewhere()
    async with harbour(database_url, Server().fill(25)) as here:
        here.app._sources.declared.clear()
        here.app.source(here.server, name="far", sink=sink, safety_lag=timedelta(0))
        await here.app.ingest.plan("far", since=DAWN, until=DAWN + HOUR)
        await here.ship().work()

        keys = [
            row[0] for row in await here.fetch("select idempotent_key from ferryman.ingest_batch order by batch_no")
        ]
        assert sink.seen == [(None, key, count) for key, count in zip(keys, [10, 10, 5], strict=True)]
