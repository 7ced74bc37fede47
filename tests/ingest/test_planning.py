"""Plans: made once, in one transaction, within their bounds; refused with a code and without a trace."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from ferryman.ingest.model import Planned
from ferryman.ingest.ports import Failure, FetchFailed
from ferryman.kernel import errors, faults
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour, only
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("patient_transactions")

TABLES = ("schedule_instance", "plan", "slice", "task", "run", "batch", "cursor", "cursor_event", "source")


@pytest.mark.contract("I1", "I3", "I4", "K11")
async def test_planning_twice_makes_nothing_twice(database_url: str) -> None:
    async with harbour(database_url) as here:
        ask = {"since": DAWN, "until": DAWN + 3 * HOUR}
        first = await here.plan(**ask)
        again = await here.plan(**ask)

        assert (first.made, first.status, first.slices, first.tasks) == (True, "READY", 3, 3)
        assert (again.made, again.id, again.slices) == (False, first.id, 3)
        counts = [only(await here.fetch(f"select count(*) from ferryman.ingest_{table}"))[0] for table in TABLES]
        assert dict(zip(TABLES, counts, strict=True)) == {
            "schedule_instance": 1, "plan": 1, "slice": 3, "task": 3, "run": 0, "batch": 0, "cursor": 1, "cursor_event": 1,
            "source": 1,
        }  # fmt: skip
        told = await here.fetch("select kind, from_state, to_state, count(*) from ferryman.events group by 1, 2, 3")
        assert sorted(told, key=str) == sorted(
            [
                ("ingest_plan", None, "DRAFT", 1), ("ingest_plan", "DRAFT", "SLICING", 1),
                ("ingest_plan", "SLICING", "READY", 1), ("ingest_slice", None, "PENDING", 3),
                ("ingest_slice", "PENDING", "READY", 3), ("ingest_task", None, "QUEUED", 3),
            ],
            key=str,
        )  # fmt: skip
        await here.sound()


@pytest.mark.contract("I4")
async def test_a_firing_that_comes_again_makes_nothing_twice(database_url: str) -> None:
    async with harbour(database_url) as here:
        firing = {"job": "hourly", "fire_time": DAWN}
        first = await here.plan(**firing)
        await here.travel(HOUR)
        again = await here.plan(**firing)
        other = await here.plan(job="hourly", fire_time=DAWN + HOUR)

        assert (again.made, again.id) == (False, first.id)
        assert other.made
        assert other.since == first.until
        assert await here.fetch("select trigger_type, job from ferryman.ingest_schedule_instance order by id") == [
            ("API", "hourly"),
            ("API", "hourly"),
        ]


@pytest.mark.contract("I3", "I4")
async def test_planners_at_one_moment_make_windows_that_follow_each_other(database_url: str) -> None:
    async with harbour(database_url) as here, harbour(database_url) as there:

        async def ask(place: Harbour, **more: Any) -> Planned:
            return await place.plan(**more)

        same = {"since": DAWN, "until": DAWN + HOUR}
        made = await asyncio.gather(*(ask(place, **same) for place in (here, there, here, there)))
        assert sorted(each.made for each in made) == [False, False, False, True]
        assert len({each.id for each in made}) == 1

        weekly = {"params": {"step_seconds": 7 * 86_400}}
        open_ended = await asyncio.gather(*(ask(place, **weekly) for place in (here, there)))
        assert [each.made for each in open_ended] == [True, True]
        spans = sorted((each.since, each.until) for each in open_ended)
        assert spans[0][0] == DAWN + HOUR
        assert spans[0][1] == spans[1][0]
        await here.sound()


@pytest.mark.contract("I3", "I4")
@pytest.mark.parametrize("operation", ["HARVEST", "UPDATE"])
@pytest.mark.parametrize(
    "asked", [{"since": DAWN + HOUR, "until": DAWN + 2 * HOUR}, {"job": "hourly", "fire_time": DAWN}], ids=["window", "firing"]
)  # fmt: skip
async def test_who_asks_the_same_while_a_plan_is_being_made_is_answered_with_it(
    database_url: str, asked: Mapping[str, Any], operation: str
) -> None:
    async with harbour(database_url) as here, harbour(database_url) as there:
        await here.plan(
            operation=operation, since=DAWN, until=DAWN + HOUR
        )  # the cursor is there, for both to stand behind
        gate = faults.Gate()
        with faults.armed({"ingest.planned": gate}):
            first = asyncio.create_task(here.plan(operation=operation, **asked))
            await gate.reached.wait()
            second = asyncio.create_task(there.plan(operation=operation, **asked))
            while not await here.fetch(
                "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ):
                assert not second.done()
            gate.open()
            made, met = await first, await second

        assert made.made
        assert (met.made, met.id) == (False, made.id)
        assert len(await here.fetch("select from ferryman.ingest_plan")) == 2
        await here.sound()


@pytest.mark.contract("I2", "I11")
async def test_operations_have_cursors_of_their_own(database_url: str) -> None:
    async with harbour(database_url, Server().fill(300)) as here:
        plan = here.plan
        await plan(since=DAWN + 2 * HOUR, until=DAWN + 3 * HOUR)
        await here.ship().work()
        await plan(operation="BACKFILL", since=DAWN, until=DAWN + 9 * HOUR)
        await plan(operation="UPDATE", since=DAWN, until=DAWN + 4 * HOUR)
        await plan(since=DAWN, until=DAWN + HOUR, expression="cats")
        await here.ship().work()

        rows = await here.fetch("select operation, scope, position from ferryman.ingest_cursor order by 1, 2")
        seen = [(operation, scope, (position - 1767225600_000_000) / 3.6e9) for operation, scope, position in rows]
        assert seen == [
            ("BACKFILL", "CUSTOM", 3.0),  # up to the forward watermark, which it does not touch
            ("HARVEST", "EXPR", 1.0),
            ("HARVEST", "GLOBAL", 3.0),
            ("UPDATE", "CUSTOM", 4.0),
        ]
        priorities = dict(await here.fetch("select operation, priority from ferryman.ingest_task group by 1, 2"))
        assert priorities["HARVEST"] < priorities["UPDATE"] < priorities["BACKFILL"]
        await here.sound()


@pytest.mark.contract("I3", "I1")
async def test_the_planner_stops_at_its_bound_and_goes_on_when_the_line_sinks(database_url: str) -> None:
    async with harbour(database_url, Server().fill(600), settings={"queued_max": 3}) as here:
        planned = await here.plan(since=DAWN, until=DAWN + 10 * HOUR)
        assert (planned.status, planned.tasks, planned.waiting) == ("PARTIAL", 3, 7)
        ship = here.ship(queued_max=3)

        claimed = await ship.claim()
        assert only(await here.fetch("select count(*) from ferryman.ingest_task where status = 'QUEUED'"))[0] == 2
        await ship.settle(await ship.runner.run(claimed[0]))
        assert only(await here.fetch("select count(*) from ferryman.ingest_task where status = 'QUEUED'"))[0] == 3

        assert await ship.work() == 9
        assert len(await here.sunk()) == 600
        assert await here.states("slice") == ["READY"] * 10
        assert await here.states("plan") == ["PARTIAL"]
        assert await here.cursor() == DAWN + 10 * HOUR
        await here.sound()


@pytest.mark.contract("I3")
async def test_the_watchdog_derives_what_nobody_else_does(database_url: str) -> None:
    async with harbour(database_url, settings={"queued_max": 2}) as here:
        await here.plan(since=DAWN, until=DAWN + 5 * HOUR)
        await here.fetch(
            "update ferryman.ingest_task set status = 'CANCELLED', rank = null, finished_at = ferryman.clock() returning id"
        )

        report = await here.tick()

        assert report.acted("I3-derive") == 2
        assert sorted(await here.states("task")) == ["CANCELLED", "CANCELLED", "QUEUED", "QUEUED"]


def refuse_some(params: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    if spec["from"].startswith("2026-01-01T01"):
        raise ValueError("this hour cannot be asked for")
    return {"asked": spec["to"]}


@pytest.mark.contract("I1")
async def test_a_slice_that_cannot_be_asked_for_fails_alone(database_url: str) -> None:
    async with harbour(database_url, compile=refuse_some) as here:
        some = await here.plan(since=DAWN, until=DAWN + 3 * HOUR)
        none = await here.plan(operation="UPDATE", since=DAWN + HOUR, until=DAWN + 2 * HOUR, campaign="again")

        assert (some.status, some.tasks, some.failed) == ("PARTIAL", 2, 1)
        assert (none.status, none.tasks, none.failed) == ("FAILED", 0, 1)
        reasons = await here.fetch("select distinct reason from ferryman.ingest_slice where status = 'FAILED'")
        assert reasons == [("ValueError: this hour cannot be asked for",)]


@pytest.mark.contract("I11", "I2")
async def test_a_harvest_goes_back_for_what_failed(database_url: str) -> None:
    def wrong(request: Any) -> None:
        if request.window.since == DAWN + HOUR:
            raise PermissionError("no")

    server = Server().fill(240)
    async with harbour(database_url, server, settings={"max_attempts": 1}) as here:
        server.wrong = lambda request: wrong(request)  # noqa: PLW0108 - typed
        await here.plan(since=DAWN, until=DAWN + 3 * HOUR)
        await here.ship(strikes=1000).work()
        assert await here.cursor() == DAWN + HOUR
        server.wrong = lambda _request: None

        mended = await here.plan(until=DAWN + 4 * HOUR)
        assert (mended.since, mended.until) == (DAWN + HOUR, DAWN + 4 * HOUR)
        await here.ship().work()

        assert await here.cursor() == DAWN + 4 * HOUR
        assert len(await here.sunk()) == 240
        await here.sound()


@pytest.mark.contract("I4", "I8")
async def test_a_window_that_failed_can_be_planned_again(database_url: str) -> None:
    server = Server().fill(60)
    window: dict[str, Any] = {"operation": "BACKFILL", "since": DAWN, "until": DAWN + HOUR}
    async with harbour(database_url, server) as here:

        def barred(_request: Any) -> None:
            raise FetchFailed(kind=Failure.AUTH, status=401)

        server.wrong = barred
        first = await here.plan(**window)
        assert (await here.plan(**window)).id == first.id  # it is still to be tried
        await here.ship().work()
        server.wrong = lambda _request: None

        second = await here.plan(**window)
        again = await here.plan(**window)
        await here.ship().work()
        after = await here.plan(**window)

        assert second.made
        assert second.id != first.id
        assert (again.made, after.made) == (False, False)
        assert again.id == after.id == second.id
        assert len(await here.sunk()) == 60
        assert await here.cursor("BACKFILL") == DAWN + HOUR
        await here.sound()


REFUSED: list[tuple[dict[str, Any], type[errors.FerrymanError]]] = [
    ({"source": "nowhere"}, errors.IngestUnknownSource),
    ({"endpoint": "nowhere"}, errors.IngestUnknownSource),
    ({"since": DAWN, "until": DAWN}, errors.IngestInvalidWindow),
    ({"since": DAWN + HOUR, "until": DAWN}, errors.IngestInvalidWindow),
    ({"since": datetime(2026, 1, 1)}, errors.IngestInvalidWindow),  # noqa: DTZ001 - without an offset
    ({"strategy": "MOON"}, errors.IngestInvalidRequest),
    ({"params": {"step_seconds": -1}}, errors.IngestInvalidRequest),
    ({"since": DAWN, "params": {"step_seconds": 1}}, errors.IngestInvalidWindow),
    ({"budget": {"requests": 0}}, errors.IngestInvalidRequest),
    ({"expression": "{whenever}"}, errors.IngestInvalidExpression),
    ({"expression": {"q": "{first}"}}, errors.IngestInvalidExpression),
    ({"strategy": "ID_RANGE", "params": {"first": 5, "last": 5}}, errors.IngestInvalidWindow),
    ({"strategy": "ID_RANGE", "params": {"first": 5}}, errors.IngestInvalidRequest),
    ({"trigger": "MOON"}, errors.IngestInvalidRequest),
    ({"job": ""}, errors.TaskInvalidRequest),
]


@pytest.mark.contract("K20", "S7", "I3")
async def test_bad_input_has_a_code_and_leaves_no_trace(database_url: str) -> None:
    async with harbour(database_url) as here:
        for asked, refused in REFUSED:
            with pytest.raises(refused) as raised:
                await here.app.ingest.plan(**{"source": SOURCE} | asked)
            assert raised.value.advice, asked
        nothing = await here.plan(since=DAWN + timedelta(days=4000))
        assert (nothing.id, nothing.made) == (None, False)
        for table in TABLES:
            assert await here.fetch(f"select * from ferryman.ingest_{table}") == [], table


@pytest.mark.contract("I3")
async def test_ids_and_marks_are_fetched_like_times(database_url: str) -> None:
    async with harbour(database_url, Server().fill(95)) as here:
        ids = {"strategy": "ID_RANGE", "params": {"first": 0, "last": 95, "size": 20}}
        by_id = await here.plan(**ids)
        marks = {"strategy": "CURSOR_LANDMARK", "params": {"landmarks": ["0", "40", "90"]}}
        by_mark = await here.plan(operation="UPDATE", **marks)
        await here.ship().work()

        assert (by_id.slices, by_mark.slices) == (5, 2)
        assert len(await here.sunk()) == 95
        assert await here.fetch("select kind, position from ferryman.ingest_cursor") == [("ID", 95)]
        shares = {each.strategy: each.share for each in await here.app.ingest.status()}
        assert shares == {"ID_RANGE": 1.0, "CURSOR_LANDMARK": 1.0}
        await here.sound()


@pytest.mark.contract("I1", "T8")
async def test_a_schedule_fires_tasks_that_plan(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60, since=DAWN)) as here:
        standing = await here.app.ingest.schedule(SOURCE, every=timedelta(hours=1))
        task = await standing.trigger()
        async with here.app.worker(poll=timedelta(milliseconds=20)):
            answer = await task.result(timeout=PATIENCE_SECONDS)
        again = await here.app.tasks.create("ingest.plan", {"source": "nowhere"})
        async with here.app.worker(poll=timedelta(milliseconds=20)):
            with pytest.raises(errors.FerrymanError, match="No source is named nowhere"):
                await again.result(timeout=PATIENCE_SECONDS)

        assert answer["made"] is True
        [(kind, job)] = await here.fetch("select trigger_type, job from ferryman.ingest_schedule_instance")
        assert (kind, job) == ("SCHEDULE", str(standing.id))


@pytest.mark.contract("I16")
async def test_plans_are_told_newest_first_a_page_at_a_time(database_url: str) -> None:
    async with harbour(database_url) as here:
        made = [(await here.plan(since=DAWN + n * HOUR, until=DAWN + (n + 1) * HOUR)).id for n in range(3)]
        page = [each.id for each in await here.app.ingest.status(limit=2)]
        rest = [each.id for each in await here.app.ingest.status(before=page[-1], limit=2)]

        assert page + rest == made[::-1]
        assert await here.app.ingest.status(before=rest[-1]) == []
