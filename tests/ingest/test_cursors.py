"""Cursors: event first, forward alone, over contiguous coverage, and always where their events lead (I11)."""

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import pytest

from ferryman.ingest.rules import keys
from ferryman.kernel import errors
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Server, harbour, only

EVENTS = "select kind, new_position from ferryman.ingest_cursor_event order by seq"


async def kinds(here: Any) -> list[str]:
    return [kind for kind, _ in await here.fetch(EVENTS)]


@pytest.mark.contract("I11", "I13")
async def test_a_cursor_passes_nothing_unfinished_in_whatever_order_slices_finish(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        for round, order in enumerate(itertools.permutations(range(3))):
            since = DAWN + timedelta(days=round)
            ask = {"operation": "BACKFILL", "since": since, "until": since + 3 * HOUR, "campaign": f"round-{round}"}
            await here.plan(**ask)
            ship = here.ship()
            tasks = sorted(await ship.claim(3), key=lambda task: task.cut.lower or 0)
            seen = []
            for number in order:
                await ship.settle(await ship.runner.run(tasks[number]))
                rows = await here.fetch(
                    "select position from ferryman.ingest_cursor where scope_key = $1", f"round-{round}"
                )
                seen.append((keys.moment(only(rows)[0]) - since) // HOUR)
            done: set[int] = set()
            expected = []
            for number in order:
                done.add(number)
                expected.append(next(hour for hour in range(4) if hour not in done))
            assert seen == expected
        await here.sound()


@pytest.mark.contract("I11")
async def test_two_that_finish_at_one_moment_leave_no_gap(database_url: str) -> None:
    async with harbour(database_url, Server().fill(240)) as here:
        await here.plan(since=DAWN, until=DAWN + 4 * HOUR)
        ships = [here.ship() for _ in range(4)]
        tasks = [only(await ship.claim()) for ship in ships]
        outcomes = [await ship.runner.run(task) for ship, task in zip(ships, tasks, strict=True)]

        await asyncio.gather(*(ship.settle(outcome) for ship, outcome in zip(ships, outcomes, strict=True)))

        assert await here.cursor() == DAWN + 4 * HOUR
        await here.sound()


@pytest.mark.contract("I11")
async def test_what_is_not_ahead_is_said_and_moves_nothing(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        await here.plan(since=DAWN, until=DAWN + 2 * HOUR)
        ship = here.ship()
        first, second = sorted(await ship.claim(2), key=lambda task: task.cut.lower or 0)
        await ship.settle(await ship.runner.run(second))
        assert await here.cursor() == DAWN
        await ship.settle(await ship.runner.run(first))

        assert await kinds(here) == ["begin", "no-forward", "forward"]
        assert await here.cursor() == DAWN + 2 * HOUR
        [replayed] = await here.app.ingest.replay(SOURCE)
        assert replayed.agrees
        assert replayed.replayed == keys.number(DAWN + 2 * HOUR)


@pytest.mark.contract("I11")
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_batch_in_the_middle_counts_only_for_an_ordered_source(database_url: str, ordered: bool) -> None:
    async with harbour(database_url, Server().fill(35), ordered=ordered) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR, budget={"requests": 2})
        await here.ship().work(1)

        assert await here.cursor() == (DAWN + timedelta(minutes=19) if ordered else DAWN)
        assert await kinds(here) == (["begin", "forward", "forward"] if ordered else ["begin"])
        assert only(await here.app.ingest.status()).share == pytest.approx(19 / 60 if ordered else 0.0)
        await here.sound()


@pytest.mark.contract("I11", "K3")
async def test_the_database_refuses_a_cursor_that_no_event_moved(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        await here.plan(since=DAWN, until=DAWN + HOUR)
        await here.ship().work()
        event = (
            "insert into ferryman.ingest_cursor_event"
            " (id, cursor_id, at, prev_position, new_position, tenant, kind, idempotent_key, reason)"
        )
        wrong = [
            "update ferryman.ingest_cursor set position = position - 1",
            "update ferryman.ingest_cursor set position = position + 1",
            # an event that was used already
            "update ferryman.ingest_cursor set position = position - 3600000000, last_event ="
            " (select id from ferryman.ingest_cursor_event where kind = 'begin')",
            # forward that goes back, and back without a reason
            f"{event} select gen_random_uuid(), id, now(), position, position - 5, 'default', 'forward', 'x', null"
            " from ferryman.ingest_cursor",
            f"{event} select gen_random_uuid(), id, now(), position, position - 5, 'default', 'rewind', 'x', null"
            " from ferryman.ingest_cursor",
            f"{event} select gen_random_uuid(), id, now(), position, position + 5, 'default', 'no-forward', 'x', null"
            " from ferryman.ingest_cursor",
            "update ferryman.ingest_cursor_event set new_position = 0",
            "delete from ferryman.ingest_cursor_event",
            "insert into ferryman.ingest_cursor (id, last_event, position, created_at, updated_at, tenant, source, endpoint,"
            " operation, scope, scope_key, kind) values (gen_random_uuid(), gen_random_uuid(), 0, now(), now(), 'default', 'a',"
            " 'b', 'HARVEST', 'GLOBAL', '', 'TIME')",
        ]
        for statement in wrong:
            with pytest.raises(
                Exception, match=r"INGEST_CURSOR_REFUSED|EVENTS_APPEND_ONLY|ingest_cursor_event_direction"
            ):
                await here.fetch(statement)
        assert await here.cursor() == DAWN + HOUR
        await here.sound()


@pytest.mark.contract("I11", "I12")
async def test_a_rewind_is_audited_and_its_window_is_fetched_again(database_url: str) -> None:
    server = Server().fill(180)
    async with harbour(database_url, server) as here:
        ingest = here.app.ingest
        await here.plan(since=DAWN, until=DAWN + 3 * HOUR)
        await here.ship().work()
        server.records[70]["value"] = "mended"
        for asked in (
            {"to": DAWN + 9 * HOUR},
            {"to": DAWN + HOUR, "reason": " "},
            {"to": 5},
            {"endpoint": "x", "to": DAWN},
        ):
            with pytest.raises((errors.IngestInvalidRequest, errors.IngestNotFound)):
                await ingest.rewind(SOURCE, **{"endpoint": "default", "reason": "late corrections"} | asked)

        moved = await ingest.rewind(SOURCE, to=DAWN + HOUR, reason="late corrections")

        assert moved.agrees
        assert await here.cursor() == DAWN + HOUR
        again = await here.plan(since=DAWN + HOUR, until=DAWN + 3 * HOUR)
        assert (again.made, again.since, again.until) == (True, DAWN + HOUR, DAWN + 3 * HOUR)
        await here.ship().work()
        assert await here.cursor() == DAWN + 3 * HOUR
        assert (70, "mended") in await here.sunk()
        assert await kinds(here) == ["begin", "forward", "forward", "forward", "rewind", "forward", "forward"]
        assert await here.fetch("select reason from ferryman.ingest_cursor_event where kind = 'rewind'") == [
            ("late corrections",)
        ]
        await here.sound()


@pytest.mark.contract("K12")
async def test_a_tenant_sees_nothing_of_another(database_url: str) -> None:
    async with harbour(database_url, Server().fill(60)) as here:
        planned = await here.plan(since=DAWN, until=DAWN + HOUR)
        await here.ship().work()
        here.app.ingest._tasks = here.app.tasks.of("other")

        assert await here.app.ingest.status() == []
        assert await here.app.ingest.replay() == []
        assert await here.app.ingest.quarantine(SOURCE) == []
        assert planned.id is not None
        for question in (here.app.ingest.status, here.app.ingest.blackbox):
            with pytest.raises(errors.IngestNotFound):
                await question(planned.id)
        mine = await here.plan(since=DAWN, until=DAWN + HOUR)
        assert mine.made
        assert mine.id != planned.id
