"""A walk asks the gate for the page after the one in hand, ahead of its commit, where that may go at once (I9, ADR 38)."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ferryman.ingest.model import Records
from ferryman.ingest.ports import Allow, Decision, Item, Page, Reject, Request, WaitUntil
from ferryman.ingest.sinks.call import CallSink
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.work import walk
from ferryman.kernel import errors
from tests.ingest.harbour import DAWN, HOUR, Server, harbour, hold
from tests.ingest.pilot import PAGES, Guide, Heard, Watch, written_once


@pytest.mark.contract("I9", "I6")
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_who_must_wait_for_the_gate_is_written_first_and_asks_it_once_more(
    database_url: str, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setattr(walk, "time", Watch())  # no commit is slow
    seen: list[int] = []

    async def keep(items: Sequence[Any]) -> None:
        seen.extend(item["id"] for item in items)

    past = datetime(2026, 1, 1, tzinfo=UTC)
    sink = CallSink(keep) if elsewhere else hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        if not elsewhere:
            async with here.app.database.session() as tx:
                await sink.check(tx)  # type: ignore[union-attr]
        await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide(Allow(), WaitUntil(past), Allow(), errors.DatabaseUnavailable("away"))
        ship = here.ship(gate=guide)
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await ship.work()

        assert guide.asked == PAGES + 2
        begins = [each for each in heard.said if each.startswith("-- The birth")]
        assert len(begins) == 3  # the first, the one that had to wait, the one for which the gate was away
        waited = "select stats #>> '{gate,decision}' from ferryman.ingest_batch order by batch_no"
        assert [row[0] for row in await here.fetch(waited)] == ["ALLOW"] * PAGES
        assert heard.transactions == 0
        if elsewhere:
            assert seen == list(range(10 * PAGES))
        else:
            await written_once(here)


@pytest.mark.contract("I9", "I6")
async def test_a_gate_that_breaks_does_not_cost_the_page_in_hand(database_url: str) -> None:
    async with harbour(database_url, Server().fill(10 * PAGES), sink=CallSink(lambda _items: None)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        [task] = await (ship := here.ship(gate=Guide(Allow(), *2 * [ValueError("broken")]))).claim()
        outcome = await ship.runner.run(task)
        await ship.settle(outcome)

        assert outcome is not None
        assert outcome.verdict.reason == "the rate gate failed: ValueError: broken"
        assert await here.states("run") == ["PARTIAL"]
        assert await here.states("batch") == ["SUCCEEDED"]
        assert len(here.server.asked) == 1


@pytest.mark.contract("I9")
async def test_leave_that_is_old_after_the_commit_is_asked_for_again_and_not_ahead_of_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(walk, "time", watch)
    sink = hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide()
        ship = here.ship(gate=guide)
        ship.runner._desk._pool = Heard(here.app.database, watch=watch)
        await ship.work()

        assert guide.asked == PAGES + 1  # one slot is lost until it is known that commits are slow
        await written_once(here)


class Counted(TableSink):
    """A table that counts how often a page was made ready for it."""

    joined = 0

    def join(self, items: Sequence[Item]) -> Records | None:
        self.joined += 1
        return super().join(items)


@pytest.mark.contract("I6", "P12")
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_page_is_made_ready_for_the_way_it_goes(database_url: str, ordered: bool) -> None:
    sink = Counted("public.cargo", key="id", columns=["id", "at", "value"])
    async with harbour(database_url, Server(), sink=sink, ordered=ordered) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        ship = here.ship()
        heard = ship.runner._desk._pool = Heard(here.app.database)
        await here.plan(since=DAWN, until=DAWN + HOUR)
        await ship.work()
        assert (sink.joined, heard.transactions) == (0, 0)  # an empty page has nothing to write, and moves nothing

        here.server.fill(20)
        await here.plan(since=DAWN, until=DAWN + HOUR, operation="UPDATE")
        await ship.work()
        assert (sink.joined, heard.transactions) == ((0, 2) if ordered else (2, 0))
        assert len(await here.sunk()) == 20
        assert set(await here.states("task")) == {"SUCCEEDED"}
        await here.sound()


@pytest.mark.contract("I7", "I9", "I12")
@pytest.mark.parametrize("word", [WaitUntil(datetime(2100, 1, 1, tzinfo=UTC)), Reject("shut"), None])
async def test_a_batch_that_was_never_asked_for_counts_no_request(
    database_url: str, monkeypatch: pytest.MonkeyPatch, word: Decision | None
) -> None:
    watch = Watch()
    monkeypatch.setattr(walk, "time", watch)
    sink = hold()
    async with harbour(database_url, Server().fill(10 * PAGES), sink=sink) as here:
        async with here.app.database.session() as tx:
            await sink.check(tx)
        planned = await here.plan(since=DAWN, until=DAWN + HOUR)
        guide = Guide(Allow(), Allow(), word)  # the second batch is born, and then the leave for it is old
        ship = here.ship(gate=guide)
        ship.runner._desk._pool = Heard(here.app.database, watch=watch)
        [task] = await ship.claim()
        running = asyncio.create_task(ship.runner.run(task))
        if word is None:
            await guide.silent.wait()
            await ship.settle(ship.runner.hand_back(task))
            running.cancel()
        await ship.settle(await running)

        assert len(here.server.asked) == 1
        sent = await here.fetch("select requests from ferryman.ingest_batch order by batch_no")
        assert sent == [(1,), (0,)]
        [told] = await here.app.ingest.status(planned.id)
        assert told.requests == 1
        await here.sound()


@pytest.mark.contract("I7", "I12")
async def test_a_request_that_is_out_counts_when_its_task_is_handed_back(database_url: str) -> None:
    asked = asyncio.Event()

    class Silent(Server):
        async def fetch(self, request: Request) -> Page:
            asked.set()
            await asyncio.Event().wait()
            return await super().fetch(request)

    async with harbour(database_url, Silent()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        ship = here.ship()
        [task] = await ship.claim()
        running = asyncio.create_task(ship.runner.run(task))
        await asked.wait()
        await ship.settle(ship.runner.hand_back(task))
        running.cancel()
        await running

        assert await here.fetch("select status, requests from ferryman.ingest_batch") == [("SKIPPED", 1)]


@pytest.mark.contract("I7", "I10")
async def test_a_budget_ends_a_walk_that_is_ahead_of_itself(database_url: str) -> None:
    async with harbour(database_url, Server().fill(10 * PAGES), sink=hold()) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR, budget={"requests": 3})
        await here.ship().work(limit=1)

        assert len(here.server.asked) == 3
        assert "RUNNING" not in await here.states("batch")
        assert await here.states("batch") == ["SUCCEEDED"] * 3
        assert len(await here.sunk()) == 30
        await here.sound()
