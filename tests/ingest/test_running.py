"""Runs: page by page, once, within their budget, from the last good batch; and every way they can end."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.ingest.ports import (
    START,
    Allow,
    Answer,
    Decision,
    Failure,
    FetchFailed,
    GateKey,
    Page,
    Reject,
    Request,
    WaitUntil,
)
from ferryman.ingest.work import fetch
from ferryman.ingest.work.gate import SharedGate
from ferryman.ingest.work.settle import settle
from ferryman.kernel import errors, faults, retry
from ferryman.kernel.pool import Line, spoken
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour, only

pytestmark = pytest.mark.usefixtures("patient_transactions")

SECOND_PAGE = """
insert into ferryman.ingest_batch
select (jsonb_populate_record(batch, jsonb_build_object(
    'id', gen_random_uuid(), 'run_id', coalesce($2::uuid, batch.run_id), 'batch_no', 100, 'status', 'RUNNING',
    'committed_at', null, 'ends_by', batch.committed_at))).*
from ferryman.ingest_batch as batch
where batch.before_token = $1
"""
QUICK = retry.Backoff(base=timedelta(milliseconds=1), factor=1.0, cap=timedelta(milliseconds=1))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "AGAIN", QUICK)


async def one_hour(here: Harbour, **asked: Any) -> None:
    await here.plan(**{"since": DAWN, "until": DAWN + HOUR} | asked)


def scripted(*answers: Exception | Page | None) -> Callable[[Request], Page | None]:
    """Answer with these, one after another, then as ever; None is an ordinary answer."""
    script: Iterator[Exception | Page | None] = iter(answers)

    def wrong(_request: Request) -> Page | None:
        answer = next(script, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return wrong


@pytest.mark.contract("I6", "I12", "I4")
async def test_a_run_leaves_a_black_box(database_url: str) -> None:
    async with harbour(database_url, Server().fill(25)) as here:
        await one_hour(here, expression={"q": "{since}"})
        await here.ship().work()

        plan = only(await here.app.ingest.status())
        [box] = await here.app.ingest.blackbox(plan.id)
        assert (box["attempt"], box["status"], box["task_status"], box["trigger_type"]) == (
            1,
            "SUCCEEDED",
            "SUCCEEDED",
            "MANUAL",
        )
        assert [(each["before"], each["after"], each["records"]) for each in box["batches"]] == [
            ("start", "offset:10", 10),
            ("offset:10", "offset:20", 10),
            ("offset:20", None, 5),
        ]
        assert box["batches"][0]["stats"]["gate"] == {"decision": "ALLOW", "waitMs": 0}
        assert {name: box["stats"][name] for name in ("reqCount", "itemsCount", "pagesVisited", "hasNextLast")} == {
            "reqCount": 3, "itemsCount": 25, "pagesVisited": 3, "hasNextLast": False,
        }  # fmt: skip
        assert [event["kind"] for event in box["cursor_events"]] == ["forward"]
        assert box["expression"] == {"q": "{since}"}
        by_run = await here.app.ingest.blackbox(UUID(box["run_id"]))
        assert by_run == [box]


@pytest.mark.contract("I4", "I6", "I13")
@pytest.mark.parametrize("point", ["ingest.begun", "ingest.fetched", "ingest.committed"])
async def test_a_later_attempt_goes_on_after_the_last_good_batch(database_url: str, point: str) -> None:
    server = Server().fill(50)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        first, second = here.ship(), here.ship()
        [task] = await first.claim()
        with faults.armed(f"{point}=raise@3"), pytest.raises(faults.FaultInjected):
            await first.runner._run(task)
        await here.travel(timedelta(seconds=61))
        assert (await here.tick()).acted("W15") == 1

        assert await second.work() == 1

        assert len(await here.sunk()) == 50
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert len(server.asked) == (6 if point == "ingest.fetched" else 5)
        assert await here.fetch("select attempt, status from ferryman.ingest_run order by attempt") == [
            (1, "FAILED"),
            (2, "SUCCEEDED"),
        ]
        good = await here.fetch(
            "select before_token from ferryman.ingest_batch where status = 'SUCCEEDED' order by committed_at"
        )
        assert [row[0] for row in good] == ["start", "offset:10", "offset:20", "offset:30", "offset:40"]
        await here.sound()


@pytest.mark.contract("I4", "I5", "K11")
@pytest.mark.parametrize(
    ("run", "index"), [(None, "ingest_batch_position"), (uuid4(), "ingest_batch_key")], ids=["run", "slice"]
)
@pytest.mark.parametrize("position", [START, "offset:10"])
async def test_the_database_itself_refuses_a_second_page_at_one_position_of_a_run_and_of_a_slice(
    database_url: str, position: str, run: UUID | None, index: str
) -> None:
    async with harbour(database_url, Server().fill(25)) as here:
        await one_hour(here)
        await here.ship().work()

        with pytest.raises(errors.StatementRefused, match=index), spoken():
            await here.fetch(SECOND_PAGE, position, run)


@pytest.mark.contract("I5", "K4", "I13")
async def test_a_stale_executor_leaves_nothing_behind(database_url: str) -> None:
    server = Server().fill(50)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        old, new = here.ship(), here.ship()
        [stale] = await old.claim()
        gate = faults.Gate()
        with faults.armed({"ingest.fetched": gate}):
            running = asyncio.create_task(old.runner.run(stale))
            await gate.reached.wait()
            await here.travel(timedelta(seconds=61))
            await here.tick()
            [fresh] = await new.claim()
            gate.open()
            assert await running is None
        assert await here.sunk() == []
        handed = old.runner.hand_back(stale)
        await old.settle(handed, replace(handed, epoch=fresh.epoch))
        assert await here.fetch("select status, epoch from ferryman.ingest_task") == [("DISPATCHED", 2)]
        assert await old.runner.run(stale) is None
        await new.settle(await new.runner.run(fresh))

        assert len(await here.sunk()) == 50
        assert await here.states("task") == ["SUCCEEDED"]
        await here.sound()


@pytest.mark.contract("I4", "I13")
async def test_a_position_that_succeeded_is_read_and_not_fetched(database_url: str) -> None:
    server = Server().fill(30)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        ship = here.ship()
        [task] = await ship.claim()
        outcome = await ship.runner.run(task)
        # As if the resume had not been found: it walks over what is there.
        await here.fetch(
            "update ferryman.ingest_task set status = 'QUEUED', rank = ferryman.clock(), lease_owner = null,"
            " leased_until = null returning id"
        )
        await here.fetch(
            "with run as (update ferryman.ingest_run set status = 'FAILED', finished_at = ferryman.clock(), leased_until = null"
            " returning id, tenant) insert into ferryman.events (at, subject, tenant, kind, from_state, to_state)"
            " select ferryman.clock(), id, tenant, 'ingest_run', 'RUNNING', 'FAILED' from run returning id"
        )
        await here.fetch(
            "update ferryman.ingest_batch set committed_at = committed_at - batch_no * interval '1 h' returning id"
        )
        asked = len(server.asked)
        [again] = await ship.claim()
        await ship.settle(await ship.runner.run(again))

        assert outcome is not None
        assert len(server.asked) == asked
        assert await here.fetch("select distinct writes from public.cargo") == [(1,)]
        assert (
            only(await here.fetch("select stats ->> 'pagesMet' from ferryman.ingest_run where attempt = 2"))[0] == "2"
        )
        await here.sound()


@pytest.mark.contract("I7", "I1")
async def test_a_budget_that_is_gone_leaves_the_rest_to_the_planner(database_url: str) -> None:
    server = Server().fill(45)
    async with harbour(database_url, server) as here:
        await one_hour(here, budget={"requests": 2})
        ship = here.ship()
        await ship.work(1)
        assert await here.fetch(
            "select status, error_code, decision from ferryman.ingest_task order by created_at limit 1"
        ) == [("PARTIAL", "INGEST_BUDGET_SPENT", "remainder")]
        assert await here.states("run") == ["PARTIAL"]
        assert await here.cursor() == DAWN
        await ship.work()

        assert len(await here.sunk()) == 45
        assert [position for _, position in server.asked] == [
            "start",
            "offset:10",
            "offset:20",
            "offset:30",
            "offset:40",
        ]
        assert sorted(await here.states("task")) == ["PARTIAL", "PARTIAL", "SUCCEEDED"]
        assert await here.cursor() == DAWN + HOUR
        assert only(await here.app.ingest.status()).share == 1.0
        await here.sound()


@pytest.mark.contract("I8")
async def test_a_hiccup_is_tried_again_in_the_same_batch(database_url: str) -> None:
    server = Server().fill(15)
    slow = FetchFailed(kind=Failure.SLOW_DOWN, status=429, retry_after=timedelta(milliseconds=5))
    server.wrong = scripted(FetchFailed(status=503), slow, ValueError("half a page"), None)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        await here.ship().work()

        assert len(await here.sunk()) == 15
        rows = await here.fetch(
            "select batch_no, status, requests, stats ->> 'http', stats ->> '429Count' from ferryman.ingest_batch order by 1"
        )
        assert rows == [(1, "SUCCEEDED", 4, "[503, 429, 200, 200]", "1"), (2, "SUCCEEDED", 1, "[200]", "0")]
        assert await here.states("run") == ["SUCCEEDED"]


@pytest.mark.contract("I8", "I7")
async def test_a_page_that_cannot_be_had_fails_its_batch_and_then_its_task(database_url: str) -> None:
    server = Server().fill(15)
    server.wrong = scripted(*[FetchFailed(kind=Failure.BATCH, status=404)] * 9)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        ship = here.ship()
        for _ in range(3):
            await ship.work()
            await here.travel(timedelta(minutes=10))

        assert len(server.asked) == 3
        assert await here.fetch("select status, used, error_code, error_reason from ferryman.ingest_task") == [
            ("FAILED", 3, "INGEST_BATCH_FAILED", "HTTP 404")
        ]
        assert await here.states("run") == ["FAILED"] * 3
        assert await here.states("batch") == ["FAILED"] * 3
        assert await here.cursor() == DAWN
        await here.sound()


@pytest.mark.contract("I8")
async def test_a_refused_credential_ends_the_task_at_once(database_url: str) -> None:
    server = Server().fill(35)
    server.wrong = scripted(None, FetchFailed(kind=Failure.AUTH, status=401))
    async with harbour(database_url, server) as here:
        await one_hour(here)
        await here.ship().work()

        assert len(server.asked) == 2
        assert await here.fetch("select status, error_code from ferryman.ingest_task") == [
            ("FAILED", "INGEST_AUTH_FAILED")
        ]
        assert await here.states("run") == ["FAILED"]
        assert len(await here.sunk()) == 10
        await here.sound()


@pytest.mark.contract("I8")
async def test_a_bad_record_is_put_aside_and_the_batch_goes_on(database_url: str) -> None:
    server = Server().fill(12)
    server.records[3]["value"] = None
    server.records[11]["value"] = None
    async with harbour(database_url, server) as here:
        await one_hour(here)
        await here.ship().work()

        assert len(await here.sunk()) == 10
        aside = await here.app.ingest.quarantine(SOURCE)
        assert sorted((each["item"]["id"], each["reason"]) for each in aside) == [
            (3, "value is missing"),
            (11, "value is missing"),
        ]
        assert only(await here.app.ingest.status()).quarantined == 2
        assert await here.states("task") == ["SUCCEEDED"]
        await here.fetch("update ferryman.ingest_quarantine set created_at = '2026-01-01Z'")
        [first] = await here.app.ingest.quarantine(SOURCE, limit=1)
        [second] = await here.app.ingest.quarantine(SOURCE, before=(UUID(first["batch"]), first["no"]))
        assert {first["item"]["id"], second["item"]["id"]} == {3, 11}
        assert await here.app.ingest.quarantine(SOURCE, before=(UUID(second["batch"]), second["no"])) == []
        assert await here.app.of("other").ingest.quarantine(SOURCE) == []


@pytest.mark.contract("I8")
async def test_a_page_that_breaks_the_sink_fails_its_batch_and_writes_nothing(database_url: str) -> None:
    server = Server().fill(12)
    server.records[11]["at"] = "no time at all"
    server.wrong = plainly(server)
    async with harbour(database_url, server, settings={"max_attempts": 1}) as here:
        await one_hour(here)
        await here.ship().work(1)

        assert len(await here.sunk()) == 10
        assert await here.states("run") == ["PARTIAL"]
        rows = await here.fetch("select status, error_reason from ferryman.ingest_batch order by batch_no")
        assert rows[0] == ("SUCCEEDED", None)
        assert rows[1][0] == "FAILED"
        assert "the sink failed" in rows[1][1]
        assert sorted(set(await here.states("task"))) == ["PARTIAL", "QUEUED"]
        assert await here.fetch("select decision from ferryman.ingest_task where status = 'PARTIAL'") == [("bisect",)]


def plainly(server: Server) -> Callable[[Request], Page | None]:
    def answer(request: Request) -> Page:
        at = 0 if request.position == "start" else 10
        return Page(server.records[at : at + 10], "offset:10" if at == 0 else None, at == 0)

    return answer


@pytest.mark.contract("I8", "K25")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the source gave dict and no page"),
        (Page([], has_next=True), "the source says that there is more, and not where"),
        (Page([], "x" * 70_000, has_next=True), "the source gave a position that cannot be kept (70000 characters)"),
        (Page([], "a\0b", has_next=True), "the source gave a position that cannot be kept (3 characters)"),
    ],
)
async def test_what_is_no_page_fails_its_batch(database_url: str, answer: Page | None, reason: str) -> None:
    server = Server().fill(5)
    async with harbour(database_url, server, settings={"max_attempts": 1}) as here:
        server.wrong = scripted(answer if answer is not None else {})  # type: ignore[arg-type]
        await one_hour(here)
        await here.ship().work()

        assert await here.fetch("select status, error_reason from ferryman.ingest_task") == [("FAILED", reason)]
        assert await here.states("batch") == ["FAILED"]


@pytest.mark.contract("I8", "I4")
async def test_a_position_may_be_a_long_address(database_url: str) -> None:
    server = Server().fill(5)
    long = "url:" + "x" * 9000
    server.wrong = scripted(Page([], long, has_next=True), Page([]))
    async with harbour(database_url, server) as here:
        await one_hour(here)
        await here.ship().work()

        assert await here.states("task") == ["SUCCEEDED"]
        assert [position for _, position in server.asked] == ["start", long]


@pytest.mark.contract("I8")
async def test_a_source_that_leads_back_is_not_followed_for_ever(database_url: str) -> None:
    server = Server().fill(35)
    server.wrong = lambda request: None if request.position == "start" else Page([], "start", has_next=True)
    async with harbour(database_url, server, settings={"max_attempts": 1}) as here:
        await one_hour(here)
        await here.ship().work(1)

        assert len(server.asked) == 2
        assert (
            only(await here.fetch("select error_reason from ferryman.ingest_run"))[0] == "the source led back to start"
        )


@pytest.mark.contract("I8")
async def test_the_circuit_breaker_opens_for_all_and_closes_by_itself(database_url: str) -> None:
    server = Server().fill(120)
    server.wrong = scripted(*[FetchFailed(status=500)] * 3)
    async with harbour(database_url, server) as here:
        await one_hour(here, until=DAWN + 2 * HOUR)
        ship = here.ship()
        assert await ship.work() == 1
        assert len(server.asked) == 3
        assert await here.states("batch") == ["SKIPPED"]
        assert await here.states("run") == ["CANCELLED"]
        assert only(await here.app.ingest.status()).shut_until is not None
        assert await here.ship().claim() == ()

        await here.travel(timedelta(seconds=61))
        await ship.work()

        assert len(await here.sunk()) == 120
        assert await here.fetch("select failures, open_until, opened from ferryman.ingest_source") == [(0, None, 1)]
        assert await here.fetch("select forgiven, used from ferryman.ingest_task order by slice_id limit 1") == [(1, 0)]
        await here.sound()


@pytest.mark.contract("I8", "I9")
async def test_who_is_told_to_come_back_later_waits_in_the_line(database_url: str) -> None:
    server = Server().fill(35)
    server.wrong = scripted(None, FetchFailed(kind=Failure.SLOW_DOWN, status=429, retry_after=HOUR))
    async with harbour(database_url, server) as here:
        await one_hour(here)
        ship = here.ship()
        await ship.work()
        assert await here.fetch("select status, error_code from ferryman.ingest_task") == [
            ("QUEUED", "INGEST_POSTPONED")
        ]
        assert await here.states("run") == ["PARTIAL"]
        await here.travel(HOUR / 2)
        assert await ship.work() == 0
        await here.travel(HOUR / 2 + timedelta(seconds=1))

        assert await ship.work() == 1
        assert len(await here.sunk()) == 35
        assert [position for _, position in server.asked] == [
            "start",
            "offset:10",
            "offset:10",
            "offset:20",
            "offset:30",
        ]


class Porter:
    """A gate that says what the test tells it to, and remembers what it was told."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = iter(decisions)
        self.heard: list[int | None] = []

    async def acquire(self, key: GateKey) -> Decision:
        assert key == GateKey(SOURCE, "default")
        return next(self.decisions, Allow())

    def told(self, key: GateKey, answer: Answer) -> None:
        self.heard.append(answer.status)


class Slept:
    """What a fetch waits by, if waiting is to take no time."""

    timeout = staticmethod(asyncio.timeout)

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.contract("I6", "I9")
async def test_the_gate_is_asked_before_every_request_and_told_after_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = Slept()
    monkeypatch.setattr(fetch, "asyncio", slept)
    server = Server().fill(15)
    server.wrong = scripted(FetchFailed(status=502))
    async with harbour(database_url, server) as here:
        await one_hour(here)
        soon = only(await here.fetch("select ferryman.clock() + interval '25 s'"))[0]
        porter = Porter(WaitUntil(soon))
        await here.ship(gate=porter).work()
        stats = only(
            await here.fetch("select stats -> 'gate' ->> 'decision' from ferryman.ingest_batch where batch_no = 1")
        )
        assert porter.heard == [502, 200, 200]
        assert stats[0] == "WAIT_UNTIL"
        assert 0 < slept.seconds[0] < 25

        await one_hour(here, since=DAWN + HOUR, until=DAWN + 2 * HOUR)
        later = only(await here.fetch("select ferryman.clock() + interval '1 hour'"))[0]
        await here.ship(gate=Porter(WaitUntil(later))).work(1)
        await here.travel(2 * HOUR)
        await here.ship(gate=Porter(Reject("quota"))).work(1)
        rows = await here.fetch(
            "select error_reason from ferryman.ingest_run where error_reason is not null order by planned_at"
        )
        assert [row[0] for row in rows] == ["the rate gate is closed", "the rate gate refused: quota"]


class Unfit(Porter):
    """A gate with a fault of its own."""

    def __init__(self, *, asked: Exception | None = None, told: Exception | None = None) -> None:
        super().__init__()
        self.wrong = asked, told

    async def acquire(self, key: GateKey) -> Decision:
        asked, _ = self.wrong
        if asked is not None:
            raise asked
        return Allow()

    def told(self, key: GateKey, answer: Answer) -> None:
        _, told = self.wrong
        if told is not None:
            raise told


class Away(Porter):
    """A gate whose database is away for a moment."""

    async def acquire(self, key: GateKey) -> Decision:
        self.heard.append(None)
        if len(self.heard) <= 2:
            raise errors.DatabaseUnavailable
        return Allow()


@pytest.mark.contract("K24", "I9")
async def test_a_run_outlasts_a_database_that_is_away_while_it_asks_the_gate(database_url: str) -> None:
    async with harbour(database_url, Server().fill(5)) as here:
        await one_hour(here)
        await here.ship(gate=Away()).work()

        assert await here.fetch("select status, epoch from ferryman.ingest_task") == [("SUCCEEDED", 1)]


@pytest.mark.contract("R6", "I9")
@pytest.mark.parametrize("when", ["asked", "told"])
async def test_a_fault_of_a_gate_ends_its_run_with_a_reason(database_url: str, when: str) -> None:
    """The claim is not left to its lease: that tells nobody why, and the task would be stuck in the end."""
    async with harbour(database_url, Server().fill(5)) as here:
        await one_hour(here)
        await here.ship(gate=Unfit(**{when: ValueError("no such key")})).work(1)

        [(status, used, reason)] = await here.fetch("select status, used, error_reason from ferryman.ingest_task")
        assert (status, used) == ("QUEUED", 1)
        assert "ValueError: no such key" in reason
        assert await here.states("run") == ["FAILED"]
        assert set(await here.states("batch")) <= {"FAILED"}
        await here.sound()


@pytest.mark.contract("I8", "I9")
async def test_a_gate_whose_clock_is_behind_has_nobody_run_again_at_once(database_url: str) -> None:
    """By the database's clock it has opened already; its word is no fault of the task's and counts as none."""
    async with harbour(database_url, Server().fill(5)) as here:
        await one_hour(here)
        past = only(await here.fetch("select ferryman.clock() - interval '1 s'"))[0]
        await here.ship(gate=Porter(Reject("shut", until=past))).work(1)
        assert await here.ship().claim() == ()
        await here.travel(timedelta(seconds=1.1))
        await here.ship().work()

        assert await here.fetch("select status, epoch, used from ferryman.ingest_task") == [("SUCCEEDED", 2, 0)]


@pytest.mark.contract("R6", "I9")
@pytest.mark.parametrize("word", [WaitUntil(datetime(2100, 1, 1)), Reject("shut", until=datetime(2100, 1, 1))])  # noqa: DTZ001
async def test_a_time_of_a_gate_that_cannot_be_read_ends_its_run_with_a_reason(
    database_url: str, word: Decision
) -> None:
    async with harbour(database_url, Server().fill(5)) as here:
        await one_hour(here)
        await here.ship(gate=Porter(word)).work(1)

        [(status, used, reason)] = await here.fetch("select status, used, error_reason from ferryman.ingest_task")
        assert (status, used) == ("QUEUED", 1)
        assert reason.startswith("the rate gate failed: TypeError: ")
        assert await here.states("run") == ["FAILED"]


@pytest.mark.contract("R6", "I8", "I9")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [(60, 60), (45.25, 45), (timedelta.max, 86400), (-5, 0), (float("nan"), 0), (float("inf"), 0), ("soon", 0)],
)
async def test_whatever_a_source_names_as_the_time_to_come_back_closes_its_gate_for_a_day_at_most(
    database_url: str, said: Any, seconds: float
) -> None:
    """What the gate could not store would be told to it again and again, and nobody would pass it any more."""
    server = Server().fill(5)
    server.wrong = scripted(FetchFailed(kind=Failure.SLOW_DOWN, status=429, retry_after=said))
    line = Line(database_url)
    async with harbour(database_url, server) as here:
        await one_hour(here)
        gate = SharedGate(line, here.app._sources.pace_of)
        ship = here.ship(gate=gate)
        await ship.work(1)
        await gate.settle()
        if seconds:
            wait = "select round(extract(epoch from scheduled_at - updated_at) - $1) from ferryman.ingest_task"
            assert await here.fetch(wait, int(seconds)) == [(0,)]
        await here.travel(timedelta(seconds=seconds + 1))
        await gate.close()
        again = SharedGate(Line(database_url), here.app._sources.pace_of)
        await here.ship(gate=again).work()
        await again.close()

        assert await here.fetch("select status from ferryman.ingest_task") == [("SUCCEEDED",)]


@pytest.mark.contract("I8", "I9")
async def test_a_source_that_asks_to_stay_away_for_half_a_day_fails_nothing(database_url: str) -> None:
    """Who was told so waits, and whoever stands behind him in the line, whom only the gate tells."""
    server = Server().fill(15)
    server.wrong = scripted(FetchFailed(kind=Failure.SLOW_DOWN, status=429, retry_after=12 * HOUR))
    line = Line(database_url)
    async with harbour(database_url, server) as here:
        await one_hour(here, until=DAWN + 3 * HOUR)
        gate = SharedGate(line, here.app._sources.pace_of)
        ship = here.ship(gate=gate)
        for _ in range(4):
            await ship.work()
            await here.travel(timedelta(seconds=10))
        waiting = await here.fetch(
            "select status, used, scheduled_at > ferryman.clock() + interval '11 hours',"
            " scheduled_at < ferryman.clock() + interval '13 hours' from ferryman.ingest_task"
        )
        await gate.close()

    assert waiting == [("QUEUED", 0, True, True)] * 3
    assert len(server.asked) == 1


@pytest.mark.contract("I10", "I13")
async def test_a_slice_that_is_too_large_is_halved_by_the_planner(database_url: str) -> None:
    server = Server(size=10).fill(60)
    async with harbour(database_url, server, page_items=10, ordered=True) as here:
        estimate = {"strategy": "VOLUME_BUDGET", "params": {"max_items": 100, "estimate": 10}}
        await one_hour(here, **estimate)
        ship = here.ship()
        await ship.work(1)

        stats, code = only(await here.fetch("select stats, error_code from ferryman.ingest_run"))
        assert '"reSliceReason": "page_depth"' in stats
        assert '"reSliceSuggested": true' in stats
        assert code == "INGEST_RESLICE"
        old, *new = await here.fetch(
            "select id, status, resliced_by, window_from, window_to, depth from ferryman.ingest_slice order by slice_no"
        )
        assert old[1] == "READY"
        assert old[2] == [each[0] for each in new]
        reached = DAWN + timedelta(minutes=29)  # the watermark of the third page of an ordered source
        assert (new[0][3], new[1][4]) == (reached, DAWN + HOUR)
        assert new[0][4] == new[1][3]
        assert [each[5] for each in new] == [1, 1]
        assert await here.cursor() == reached
        assert await here.fetch("select decision from ferryman.ingest_task where status = 'PARTIAL'") == [("bisect",)]

        await ship.work()
        assert len(await here.sunk()) == 60
        assert await here.cursor() == DAWN + HOUR
        assert only(await here.app.ingest.status()).share == 1.0
        await here.sound()


@pytest.mark.contract("I10")
async def test_the_watchdog_decides_what_nobody_decided(database_url: str) -> None:
    async with harbour(database_url, Server().fill(45)) as here:
        await one_hour(here, budget={"requests": 2})
        ship = here.ship()
        [task] = await ship.claim()
        outcome = await ship.runner.run(task)
        assert outcome is not None
        async with here.app.database.transaction() as tx:
            await settle(tx, outcome, queued_max=50)
        assert (await here.tick()).acted("I10") == 1
        assert (await here.tick()).acted("I10") == 0

        await ship.work()
        assert len(await here.sunk()) == 45
