"""What people read of sources and plans: where cursors stand, which slices cover what, how fast it went."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman.ingest.ports import Failure, FetchFailed, GateKey, OpenGate, Page, Request
from ferryman.ingest.rules import keys
from ferryman.ingest.sinks.call import CallSink
from ferryman.kernel import errors, ids
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour

MINUTE = timedelta(minutes=1)


class Slowing(OpenGate):
    """A gate that lets pass and says ever smaller rates."""

    rate = 9.0

    def pace_at(self, key: GateKey) -> float | None:
        self.rate -= 1
        return self.rate


async def planned(here: Harbour, **asked: object) -> UUID:
    made = await here.plan(**{"since": DAWN, "until": DAWN + HOUR, "params": {"step_seconds": 1200}} | asked)
    assert made.id is not None
    return made.id


@pytest.mark.contract("S5", "I16")
async def test_sources_tell_what_is_in_line_and_in_hand_and_whether_they_are_shut(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        ingest = here.app.ingest
        assert list(await ingest.standing()) == []
        here.app.source(Server().fill(60), name="anchor", sink=CallSink(len), safety_lag=timedelta(0))
        await planned(here)
        newest = await planned(here, operation="BACKFILL", since=DAWN - HOUR, until=DAWN)
        anchored = await planned(here, source="anchor")
        elsewhere = await ingest.of("other").plan(SOURCE, since=DAWN, until=DAWN + HOUR, params={"step_seconds": 600})
        claimed = await here.ship().claim(4)
        held = Counter((each.tenant, each.source) for each in claimed)
        mine, theirs, others = held["default", SOURCE], held["default", "anchor"], held["other", SOURCE]
        assert min(mine, theirs, others) > 0, "the claims are fair, so that each count is tried"

        anchor, depot = await ingest.standing()
        assert (anchor.source, anchor.queued, anchor.running, anchor.plan_id) == (
            "anchor",
            3 - theirs,
            theirs,
            anchored,
        )
        assert (depot.source, depot.queued, depot.running, depot.plan_id) == (SOURCE, 6 - mine, mine, newest)
        [other] = await ingest.of("other").standing()
        assert (other.queued, other.running, other.plan_id) == (6 - others, others, elsewhere.id)

        strike = "update ferryman.ingest_source set failures = 3, opened = 1, open_until = ferryman.clock() + $1"
        await here.fetch(strike, MINUTE)
        depot = (await ingest.standing())[1]
        assert (depot.failures, depot.opened, depot.shut_until is not None) == (3, 1, True)
        await here.travel(2 * MINUTE)
        assert [each.shut_until for each in await ingest.standing()] == [None, None]


@pytest.mark.contract("S5", "I11")
async def test_cursors_tell_where_they_stand_and_how_far_behind(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        await planned(here)
        await here.ship().work()
        [cursor] = await here.app.ingest.cursors(SOURCE)
        assert (cursor.operation, cursor.kind, cursor.at) == ("HARVEST", "TIME", DAWN + HOUR)
        assert cursor.lag is not None
        await here.travel(HOUR)
        [later] = await here.app.ingest.cursors()
        assert later.lag is not None
        assert HOUR <= later.lag - cursor.lag < HOUR + MINUTE
        assert list(await here.app.ingest.of("other").cursors()) == []
        assert list(await here.app.ingest.cursors("elsewhere")) == []


@pytest.mark.contract("S5", "I16")
async def test_the_slices_of_a_plan_tell_what_became_of_them(database_url: str) -> None:
    server = Server().fill(60)
    del server.records[5]["value"]
    async with harbour(database_url, server) as here:
        plan = await planned(here)
        await planned(here, operation="BACKFILL", since=DAWN - HOUR, until=DAWN)
        ship = here.ship()
        [task] = await ship.claim()
        await ship.settle(await ship.runner.run(task))

        extent = await here.app.ingest.extent(plan)
        assert (extent.lower, extent.upper) == (keys.number(DAWN), keys.number(DAWN + HOUR))
        assert (extent.kind, extent.position, extent.slices) == ("TIME", keys.number(DAWN + HOUR / 3), 3)

        found = await here.app.ingest.slices(plan)
        assert [(each.slice_no, each.state, each.items, each.requests, each.quarantined) for each in found] == [
            (1, "SUCCEEDED", 20, 2, 1), (2, "QUEUED", 0, 0, 0), (3, "QUEUED", 0, 0, 0),
        ]  # fmt: skip
        assert found[0].covered == found[1].lower
        assert [each.slice_no for each in await here.app.ingest.slices(plan, after=1, limit=1)] == [2]
        assert list(await here.app.ingest.of("other").slices(plan)) == []
        with pytest.raises(errors.IngestNotFound):
            await here.app.ingest.of("other").extent(plan)
        with pytest.raises(errors.IngestNotFound):
            await here.app.ingest.extent(ids.new_id())


@pytest.mark.contract("S5", "I9", "I12")
async def test_the_pace_of_a_plan_tells_what_was_asked_and_what_the_gate_allowed(database_url: str) -> None:
    server = Server().fill(60)
    refused = iter([FetchFailed("slow down", kind=Failure.SLOW_DOWN, status=429)])

    def wrong(request: Request) -> Page | None:
        if request.position == "offset:10":
            for error in refused:
                raise error
        return None

    async with harbour(database_url, server) as here:
        plan = await planned(here)
        await planned(here, operation="BACKFILL", since=DAWN - HOUR, until=DAWN)
        assert list(await here.app.ingest.pace(plan)) == []
        server.wrong = wrong
        ship = here.ship(gate=Slowing())
        for _ in range(3):
            [task] = await ship.claim()
            await ship.settle(await ship.runner.run(task))
            await here.travel(MINUTE)

        rows = await here.app.ingest.pace(plan, parts=10)
        assert [rows[0].at < each.at for each in rows[1:]] == [True] * (len(rows) - 1)
        assert sum(each.requests for each in rows) == 7
        assert sum(each.throttled for each in rows) == 1
        assert sum(each.items for each in rows) == 60
        rates = [each.rate for each in rows if each.rate is not None]
        assert rates == sorted(rates, reverse=True)
        assert rates[0] < 9
        assert rows[0].seconds == pytest.approx(12, abs=1)
        [whole] = await here.app.ingest.pace(plan, parts=1)
        assert (whole.requests, whole.throttled) == (7, 1)
        assert list(await here.app.ingest.of("other").pace(plan)) == []
        with pytest.raises(errors.IngestInvalidRequest, match="parts: expected 1 to 500"):
            await here.app.ingest.pace(plan, parts=0)
